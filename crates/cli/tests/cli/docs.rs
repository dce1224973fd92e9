//! What the documents say of commands, options is there, and what is there they say.

use crate::zinc_with;
use std::collections::BTreeSet;

const SERVER: &str = include_str!("../../../../docs/server.md");
const CLI: &str = include_str!("../../../../docs/cli.md");

/// Words that begin with `--`.
fn options(text: &str) -> BTreeSet<&str> {
    text.split("--")
        .skip(1)
        .map(|rest| {
            let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(rest.len());
            &rest[..end]
        })
        .filter(|name| name.len() > 1)
        .collect()
}

#[test]
fn every_option_of_serve_is_documented_and_none_else() {
    let help = zinc_with(&["serve", "--help"], b"").out;
    let defined: BTreeSet<&str> = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .flat_map(options)
        .filter(|name| !["help", "version", "model"].contains(name))
        .collect();
    let documented: BTreeSet<&str> = options(SERVER).into_iter().chain(options(CLI)).collect();
    assert_eq!(
        defined.difference(&documented).collect::<Vec<_>>(),
        [] as [&&str; 0],
        "missing in the documents"
    );
    // Options of the endpoint picker, which is another program.
    let own = options(SERVER).into_iter().filter(|name| !name.ends_with("-metric") && *name != "ui");
    let all = options(&help);
    assert_eq!(
        own.filter(|name| !all.contains(name)).collect::<Vec<_>>(),
        [] as [&str; 0],
        "there are no such options"
    );
}

#[test]
fn every_command_is_documented() {
    let help = zinc_with(&["--help"], b"").out;
    let commands = help.split("Commands:").nth(1).expect("commands").split("\n\n").next().expect("a list");
    // What does not fit on a line goes on further in.
    let lines = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(CLI.contains(&format!("`{name} ")) || CLI.contains(&format!("`{name}`")), "`{name}`");
    }
}
