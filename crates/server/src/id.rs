//! Numbers for requests, answers and calls, and seeds.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number nobody can guess from others: the standard library seeds its hashers from the system's randomness.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// `prefix-` or `prefix_` (where the prefix ends so) and 24 hexadecimal digits.
pub fn new(prefix: &str) -> String {
    let join = if prefix.ends_with('_') { "" } else { "-" };
    format!("{prefix}{join}{:016x}{:08x}", random(), random() as u32)
}
