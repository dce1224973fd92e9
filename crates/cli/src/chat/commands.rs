//! The commands of a conversation: lines that begin with `/`.

use super::Session;
use crate::answer;
use crate::error::{Outcome, error, file};
use crate::load::{describe, tell};
use crate::sampling;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use zinc_text::Message;

/// What a line leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// The next line.
    Continue,
    /// The end.
    Exit,
}

const HELP: &str = "\
/help                list the commands
/reset               forget the conversation; the system message stays
/system [TEXT]       replace the system message, or remove it
/set [NAME VALUE]    show the settings, or change one: temperature, top-k, seed, max-tokens, …
/regenerate          answer the last message again, with the next seed (the same answer at temperature 0)
/stats               figures of the last answer, and where the model runs
/save FILE           write the conversation to a JSON file
/load FILE           go on with a conversation from a JSON file
/exit                end (also /quit, Ctrl-D)
A message that begins with `/` is sent with a space before it.";

impl Session {
    /// Runs a command line.
    pub(super) fn command(&mut self, line: &str, out: &mut dyn Write) -> Outcome<Reply> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match name {
            "/help" => writeln!(out, "{HELP}")?,
            "/exit" | "/quit" => return Ok(Reply::Exit),
            "/reset" => self.conversation.reset(),
            "/system" => self.conversation.set_system(rest),
            "/set" => self.set(rest, out)?,
            "/regenerate" => self.regenerate(out)?,
            "/stats" => self.stats(),
            "/save" => self.save(rest)?,
            "/load" => self.load(rest)?,
            _ => return Err(error(format!("no command `{name}`"), "`/help` lists the commands")),
        }
        Ok(Reply::Continue)
    }

    fn set(&mut self, rest: &str, out: &mut dyn Write) -> Outcome {
        let Some((name, value)) = rest.split_once(char::is_whitespace) else {
            if !rest.is_empty() {
                return Err(error(
                    format!("`{rest}` needs a value"),
                    "`/set NAME VALUE`; `/set` shows the settings",
                ));
            }
            writeln!(out, "{:20} {}", "max-tokens", self.options.max_tokens)?;
            for (name, value) in sampling::named(&self.options.sampling) {
                writeln!(out, "{name:20} {value}")?;
            }
            return Ok(());
        };
        let value = value.trim();
        if name == "max-tokens" {
            let tokens = value.parse().ok().filter(|&n| n > 0);
            self.options.max_tokens = tokens.ok_or_else(|| {
                error(format!("`{value}` is not a number above 0"), "`/set max-tokens 100`")
            })?;
            return Ok(());
        }
        sampling::set(&mut self.options.sampling, name, value)
            .map_err(|e| error(e, "`/set` shows the settings"))
    }

    fn regenerate(&mut self, out: &mut dyn Write) -> Outcome {
        let answered = self.conversation.messages.last().is_some_and(|m| m.role == "assistant");
        if !answered {
            return Err(error("there is no answer to give again", "type a message first"));
        }
        self.conversation.take_back();
        self.options.sampling.seed = self.options.sampling.seed.wrapping_add(1);
        self.answer(out)
    }

    fn stats(&self) {
        let mut lines = self.last.as_ref().map(answer::figures).unwrap_or_default();
        lines.push(format!("cache    {} of {} tokens", self.sequence.len(), self.engine.context()));
        lines.extend(describe(&self.engine));
        tell(&lines);
    }

    fn save(&self, name: &str) -> Outcome {
        let path = named_file(name, "/save FILE")?;
        let text = json!({ "messages": self.conversation.messages }).to_string();
        std::fs::write(path, text + "\n").map_err(|e| file(path, "written", &e))
    }

    fn load(&mut self, name: &str) -> Outcome {
        #[derive(serde::Deserialize)]
        struct Saved {
            messages: Vec<Message>,
        }
        let path = named_file(name, "/load FILE")?;
        let text = std::fs::read_to_string(path).map_err(|e| file(path, "read", &e))?;
        let saved: Saved = serde_json::from_str(&text).map_err(|e| {
            error(format!("`{}` is no saved conversation: {e}", path.display()), "`/save FILE` writes one")
        })?;
        self.conversation.replace(saved.messages);
        Ok(())
    }
}

fn named_file<'a>(name: &'a str, how: &str) -> Outcome<&'a Path> {
    if name.is_empty() {
        Err(error("a file name is missing", format!("`{how}`")))
    } else {
        Ok(Path::new(name))
    }
}
