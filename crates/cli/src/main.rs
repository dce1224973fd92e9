//! The `zinc` command: one file a subcommand.
#![forbid(unsafe_code)]

mod answer;
mod args;
mod bench;
mod chat;
mod check;
mod device;
mod devices;
mod error;
mod inspect;
mod interrupt;
mod load;
mod logits;
mod output;
mod perplexity;
mod run;
mod sampling;
mod serve;
mod shell;
mod tokenize;
mod tune;

use clap::{CommandFactory, Parser, Subcommand};
use error::Outcome;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs language models from GGUF files on any Vulkan GPU, or on the CPU.
///
/// Exit codes: 0 success, 1 error (also: `check` found a fault), 2 wrong command line, 3 an output was found to be wrong.
#[derive(Parser)]
#[command(name = "zinc", version = env!("ZINC_VERSION"), propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Chat(chat::Args),
    Serve(serve::Args),
    Logits(logits::Args),
    Perplexity(perplexity::Args),
    Bench(bench::Args),
    Tune(tune::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    Devices(devices::Args),
    Tokenize(tokenize::Args),
    Completions(shell::CompletionArgs),
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return refuse(&e),
    };
    let mut out = io::stdout().lock();
    let result = dispatch(&cli.command, &mut out).and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => match failure.told() {
            Some((text, code)) => {
                complain(&text);
                ExitCode::from(code)
            }
            None => ExitCode::SUCCESS,
        },
    }
}

fn dispatch(command: &Command, out: &mut dyn Write) -> Outcome {
    match command {
        Command::Run(args) => run::run(args, out),
        Command::Chat(args) => chat::run(args, out),
        Command::Serve(args) => serve::run(args, out),
        Command::Logits(args) => logits::run(args, out),
        Command::Perplexity(args) => perplexity::run(args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Tune(args) => tune::run(args, out),
        Command::Check(args) => check::run(args, out),
        Command::Inspect(args) => inspect::run(args, out),
        Command::Devices(args) => devices::run(args, out),
        Command::Tokenize(args) => tokenize::run(args, out),
        Command::Completions(args) => shell::completions(args, Cli::command(), out),
        Command::Man(args) => shell::man(args, Cli::command(), out),
    }
}

/// Prints help and version as clap does, and its refusals in our words: back-ticks, a hint at the end.
fn refuse(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() {
        return match write!(io::stdout(), "{}", e.render()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(error::ERROR),
        };
    }
    if e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(io::stderr(), "{}\nhint: name a command\n", e.render());
        return ExitCode::from(error::USAGE);
    }
    let text = e.to_string().replace('\'', "`");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.replace("For more information, try `--help`.", "");
    complain(&format!("{}\nhint: `--help` shows what is accepted", text.trim_end()));
    ExitCode::from(error::USAGE)
}

/// Writes an error to standard error; that nobody reads it is no reason to fail differently.
fn complain(text: &str) {
    let tag = if output::colour_on_stderr() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    let _ = writeln!(io::stderr(), "{tag} {text}");
}
