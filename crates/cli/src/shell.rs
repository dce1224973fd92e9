//! `zinc completions` and `zinc man`: for the shell and the manual, from the same definition as the options.

use crate::error::{Outcome, usage};
use std::io::Write;

/// Writes a completion script for a shell to standard output.
#[derive(clap::Args)]
pub struct CompletionArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Writes a manual page to standard output: `zinc man | man -l -`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The command to describe; without it the page of `zinc` itself.
    command: Option<String>,
}

pub fn completions(args: &CompletionArgs, mut definition: clap::Command, out: &mut dyn Write) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "zinc", &mut script);
    Ok(out.write_all(&script)?)
}

pub fn man(args: &ManArgs, mut definition: clap::Command, out: &mut dyn Write) -> Outcome {
    definition.build();
    let page = match &args.command {
        None => definition,
        Some(name) => {
            let found = definition.find_subcommand(name).cloned();
            found.ok_or_else(|| usage(format!("no command `{name}`"), "`zinc help` lists them"))?
        }
    };
    Ok(clap_mangen::Man::new(page).render(&mut *out)?)
}
