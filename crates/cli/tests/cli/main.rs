//! Drives the real binary on the tiny fixtures.

mod bench_device;
mod chat;
mod device;
mod docs;
mod inspect;
mod numbers;
mod plan;
mod prefill;
mod run;
mod tokenize;
mod tune;
mod usage;
mod validate;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use zinc_testkit::{Fixture, fixtures};

/// What a run gave.
pub struct Run {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code; -1 where a signal ended it.
    pub code: i32,
}

/// Caches and histories of all tests lie here, not in the user's folders.
static HOME: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Runs `zinc` with these arguments and this standard input.
pub fn zinc_with(args: &[&str], stdin: &[u8]) -> Run {
    run_in(&[], args, stdin)
}

/// As [`zinc`], with these variables in the environment.
pub fn zinc_in(environment: &[(&str, &str)], args: &[&str]) -> Run {
    run_in(environment, args, b"")
}

fn run_in(environment: &[(&str, &str)], args: &[&str], stdin: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(args)
        .env_remove("ZINC_BATCHED_PREFILL")
        .env("ZINC_CACHE_DIR", HOME.path())
        .envs(environment.iter().copied())
        .env("XDG_STATE_HOME", HOME.path())
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin); // who fails early does not read it
    let done = child.wait_with_output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    Run { out: text(done.stdout), err: text(done.stderr), code: done.status.code().unwrap_or(-1) }
}

/// As [`zinc_with`], with nothing on standard input.
pub fn zinc(args: &[&str]) -> Run {
    zinc_with(args, b"")
}

impl Run {
    /// Standard output of a run that must succeed.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// Standard output as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Standard error of a run that must fail with this code: one error, lower case, a hint as the last line.
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        let (first, last) = (self.err.lines().next().unwrap(), self.err.lines().last().unwrap());
        let text = first.strip_prefix("error: ").unwrap_or_else(|| panic!("{}", self.err));
        assert!(!text.starts_with(char::is_uppercase), "{}", self.err);
        assert!(last.starts_with("hint: "), "{}", self.err);
        self.err
    }
}

/// The smallest file of a tiny model.
pub fn tiny(name: &str) -> Fixture {
    let all = fixtures(name);
    all.into_iter().min_by_key(|f| std::fs::metadata(&f.model).unwrap().len()).unwrap()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The name of a software Vulkan driver, where this machine has one; CI must.
pub fn lavapipe() -> Option<&'static str> {
    let devices = zinc(&["devices", "--json"]);
    let found = devices.code == 0 && devices.out.contains("llvmpipe");
    assert!(found || std::env::var_os("CI").is_none(), "no lavapipe in CI: {}", devices.err);
    found.then_some("llvmpipe")
}

/// A file in the tests' own folder.
pub fn scratch(name: &str) -> PathBuf {
    HOME.path().join(name)
}
