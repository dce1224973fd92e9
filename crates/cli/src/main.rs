//! The `zinc` command.
fn main() {}
