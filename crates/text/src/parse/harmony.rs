//! GPT-OSS's channels: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.
//!
//! The analysis channel is reasoning, the final one content; a message on the commentary channel is a call where it is addressed to
//! a function, else a preamble, which is content.

use super::calls::Call;
use super::{Delta, Piece};
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Harmony {
    /// Between `<|start|>` or `<|channel|>` and `<|message|>`: channel, recipient.
    header: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Header,
    Reasoning,
    Content,
    /// Arguments of a call to this function.
    Call {
        name: String,
        arguments: String,
    },
}

impl Harmony {
    pub(super) fn new() -> Harmony {
        // The prompt ends with `<|start|>assistant`. What comes without a header is content.
        Harmony { header: String::new(), place: Place::Header }
    }

    pub(super) fn push(&mut self, piece: Piece<'_>) -> Vec<Delta> {
        match piece {
            Piece::Text("") => Vec::new(),
            Piece::Text(text) => match &mut self.place {
                Place::Header => {
                    self.header.push_str(text);
                    Vec::new()
                }
                Place::Reasoning => vec![Delta::Reasoning(text.into())],
                Place::Content => vec![Delta::Content(text.into())],
                Place::Call { arguments, .. } => {
                    arguments.push_str(text);
                    Vec::new()
                }
            },
            Piece::Control("<|start|>" | "<|end|>" | "<|call|>" | "<|return|>") => self.end_message(),
            Piece::Control("<|message|>") => {
                self.begin_message();
                Vec::new()
            }
            // `<|channel|>` and `<|constrain|>` stand inside of headers.
            Piece::Control(name) => {
                if matches!(self.place, Place::Header) {
                    self.header.push_str(name);
                }
                Vec::new()
            }
        }
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        // An answer that never got to a message: what the model said was not a header.
        let header = std::mem::take(&mut self.header);
        let bare =
            matches!(self.place, Place::Header) && !header.contains("<|channel|>") && !header.is_empty();
        match bare {
            true => vec![Delta::Content(header)],
            false => self.end_message(),
        }
    }

    fn begin_message(&mut self) {
        let header = std::mem::take(&mut self.header);
        let channel = header.split("<|channel|>").nth(1).unwrap_or_default();
        let channel = channel.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default();
        let function = header.split("to=functions.").nth(1);
        let function = function.and_then(|f| f.split(|c: char| c.is_whitespace() || c == '<').next());
        self.place = match (channel, function) {
            (_, Some(name)) => Place::Call { name: name.into(), arguments: String::new() },
            ("analysis", None) => Place::Reasoning,
            _ => Place::Content,
        };
    }

    fn end_message(&mut self) -> Vec<Delta> {
        self.header.clear();
        match std::mem::replace(&mut self.place, Place::Header) {
            Place::Call { name, arguments } => {
                let text = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
                match serde_json::from_str::<Map<String, Value>>(text) {
                    Ok(map) => vec![Delta::Call(Call::new(&name, &map))],
                    Err(_) => vec![Delta::Content(arguments)],
                }
            }
            _ => Vec::new(),
        }
    }
}
