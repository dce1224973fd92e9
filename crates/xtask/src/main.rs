//! Tasks of the repository that are more than a script: `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod executed;
mod rdna4;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask rdna4 [tables] | executed

  rdna4     compiles every kernel with RADV for gfx1201 and gfx1100, in subgroups of 64 and 32, writes bench/results/rdna4/ and fails where a
            default variant spills, keeps too few waves or lacks the instructions that it is there for; `tables`: only the tables, from the
            figures that are there
  executed  writes docs/executed.md and README.md's table of drivers: where each kernel last ran, from what `zinc check --ops --executed` wrote
            to bench/results/executed/";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Shaders that only measure a device (`zinc bench device`): no operation, no suite.
const PROBES: [&str; 3] = ["count", "matrix_rate", "stream"];

/// The names of all shaders of operations, variants included.
fn kernels() -> impl Iterator<Item = String> {
    zinc_kernels::shaders().iter().filter(|s| !PROBES.contains(&s.stem)).map(|s| s.name())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["rdna4"] => rdna4::run(),
        ["rdna4", "tables"] => rdna4::tables(),
        ["executed"] => executed::run(),
        // On the pretended card, in a process of its own.
        ["rdna4", "--measure", card, lanes, file] => rdna4::measure(card, lanes, file),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
