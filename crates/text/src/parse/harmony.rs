//! GPT-OSS's channels: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.
//!
//! The analysis channel is reasoning, the final one content; a message on the commentary channel is a call where it is addressed to
//! a function, else a preamble, which is content.

use super::{Delta, Piece};

/// What a header says before the name of a function.
const RECIPIENT: &str = "to=functions.";

#[derive(Debug, Clone)]
pub(super) struct Harmony {
    /// Between `<|start|>` or `<|channel|>` and `<|message|>`: channel, recipient.
    header: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Header,
    Reasoning,
    Content,
    /// Arguments of a call; whether there were any yet.
    Call {
        begun: bool,
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
                Place::Call { begun } => {
                    let text = if *begun { text } else { text.trim_start() };
                    *begun |= !text.is_empty();
                    if text.is_empty() { Vec::new() } else { vec![Delta::Arguments(text.into())] }
                }
            },
            Piece::Control("<|start|>" | "<|end|>" | "<|call|>" | "<|return|>") => self.end_message(),
            Piece::Control("<|message|>") => self.begin_message(),
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

    /// The header after the recipient's mark, while the header lasts.
    pub(super) fn opened(&self) -> Option<&str> {
        let header = matches!(self.place, Place::Header).then_some(&self.header)?;
        header.split_once(RECIPIENT).map(|(_, after)| after)
    }

    fn begin_message(&mut self) -> Vec<Delta> {
        let header = std::mem::take(&mut self.header);
        let channel = header.split("<|channel|>").nth(1).unwrap_or_default();
        let word = |text: &str| text.split(|c: char| c.is_whitespace() || c == '<').next().map(str::to_owned);
        let function = header.split_once(RECIPIENT).and_then(|(_, after)| word(after));
        match (word(channel).as_deref(), function) {
            (_, Some(name)) => {
                self.place = Place::Call { begun: false };
                return vec![Delta::Call(name)];
            }
            (Some("analysis"), None) => self.place = Place::Reasoning,
            _ => self.place = Place::Content,
        }
        Vec::new()
    }

    fn end_message(&mut self) -> Vec<Delta> {
        self.header.clear();
        match std::mem::replace(&mut self.place, Place::Header) {
            Place::Call { begun: false } => vec![Delta::Arguments("{}".into())],
            _ => Vec::new(),
        }
    }
}
