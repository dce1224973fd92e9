//! Tasks of the repository that are more than a script: `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod rdna4;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask rdna4

  rdna4    compiles every kernel with RADV for gfx1201 and gfx1100, in subgroups of 64 and 32, writes bench/results/rdna4/ and fails where a
           default variant spills or keeps too few waves";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["rdna4"] => rdna4::run(),
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
