//! Tells the binary which commit it was built from, where that is known: `ZINC_VERSION`, and `ZINC_COMMIT` (empty where it is not).

use std::path::Path;
use std::process::Command;

fn main() {
    let log = Path::new("../../.git/logs/HEAD"); // grows with every commit and checkout
    let watched = if log.exists() { "../../.git/logs/HEAD" } else { "build.rs" };
    println!("cargo:rerun-if-changed={watched}");
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = git.ok().filter(|o| o.status.success()).and_then(|o| String::from_utf8(o.stdout).ok());
    let commit = commit.as_deref().map(str::trim).filter(|c| !c.is_empty());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = commit.map_or(version.clone(), |c| format!("{version} (commit {c})"));
    println!("cargo:rustc-env=ZINC_VERSION={version}");
    println!("cargo:rustc-env=ZINC_COMMIT={}", commit.unwrap_or_default());
}
