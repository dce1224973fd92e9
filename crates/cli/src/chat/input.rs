//! Lines from a terminal, with editing and a history, or from a file or pipe.

use crate::error::{Outcome, error, file};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Where lines come from.
pub enum Input {
    /// A line editor and its history file; none where there is no place for one.
    Terminal(Box<DefaultEditor>, Option<PathBuf>),
    /// Standard input, line by line.
    Lines,
}

impl Input {
    /// An editor if both ends are a terminal, else plain lines.
    pub fn open() -> Outcome<Input> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Input::Lines);
        }
        let mut editor = DefaultEditor::new().map_err(|e| {
            error(format!("the terminal cannot be read: {e}"), "give the messages on standard input")
        })?;
        let history = history_file();
        if let Some(path) = &history {
            let _ = editor.load_history(path); // there is none the first time
        }
        Ok(Input::Terminal(Box::new(editor), history))
    }

    /// Whether a person types.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(..))
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> Outcome<Option<String>> {
        match self {
            Input::Terminal(editor, history) => loop {
                match editor.readline("> ") {
                    Ok(line) => {
                        if !line.trim().is_empty() && editor.add_history_entry(&line).unwrap_or(false) {
                            save(editor, history.as_deref());
                        }
                        return Ok(Some(line));
                    }
                    Err(ReadlineError::Interrupted) => {} // Ctrl-C drops the line
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(e) => {
                        return Err(error(
                            format!("the terminal cannot be read: {e}"),
                            "start `zinc chat` again",
                        ));
                    }
                }
            },
            Input::Lines => {
                let mut line = String::new();
                match io::stdin().read_line(&mut line) {
                    Ok(0) => Ok(None),
                    Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_string())),
                    Err(e) => Err(file(&PathBuf::from("standard input"), "read", &e)),
                }
            }
        }
    }
}

/// A conversation goes on without its history file.
fn save(editor: &mut DefaultEditor, path: Option<&std::path::Path>) {
    let Some(path) = path else { return };
    let folder = path.parent().map(std::fs::create_dir_all);
    if folder.is_some_and(|made| made.is_ok()) {
        let _ = editor.save_history(path);
    }
}

/// `$XDG_STATE_HOME/zinc/chat_history`, else `~/.local/state/zinc/chat_history`.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("zinc/chat_history"))
}
