//! Tells the binary which commit it was built from, where that is known: `ZINC_VERSION`, and `ZINC_COMMIT` (empty where it is not).

use std::path::Path;
use std::process::Command;

fn main() {
    // Grows with every commit and checkout. Git says where it is, which in a worktree is not beside the sources.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    println!("cargo:rerun-if-changed={}", log.as_deref().unwrap_or("build.rs"));
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = commit.as_ref().map_or(version.clone(), |c| format!("{version} (commit {c})"));
    println!("cargo:rustc-env=ZINC_VERSION={version}");
    println!("cargo:rustc-env=ZINC_COMMIT={}", commit.unwrap_or_default());
}

/// What git answers, if it is there and has an answer.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(text).filter(|t| !t.is_empty())
}
