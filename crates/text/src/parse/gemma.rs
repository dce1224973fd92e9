//! Gemma's calls: `call:name{key:value,…}` with bare keys, and text between quotes of its own.

use super::json::{escaped, quoted};
use crate::stop::overlap;
use serde_json::{Number, Value};

/// How deep arguments may be nested.
const DEPTH: usize = 64;

/// Makes JSON of arguments as they come.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    quote: &'static str,
    /// What is open, from the outside: the mark that ends it.
    open: Vec<char>,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A key; before the first one the object may end.
    Key {
        first: bool,
    },
    /// A value; before the first one an array may end.
    Value {
        first: bool,
    },
    Text,
    After,
}

/// What a step did: whether it took something, or the call is over.
enum Step {
    Took(usize),
    Wait,
    Done(usize),
}

impl Reader {
    /// After the opening brace.
    pub(super) fn new(quote: &'static str) -> Reader {
        Reader { quote, open: Vec::new(), place: Place::Value { first: false } }
    }

    /// As [`super::Arguments::read`].
    pub(super) fn read(&mut self, text: &str, json: &mut String) -> (usize, bool) {
        if self.open.is_empty() {
            json.push('{');
            self.open.push('}');
            self.place = Place::Key { first: true };
        }
        let mut taken = 0;
        loop {
            let rest = &text[taken..];
            // White space is text between quotes alone.
            let trimmed = if self.place == Place::Text { rest } else { rest.trim_start() };
            let skipped = rest.len() - trimmed.len();
            let step = match self.place {
                Place::Key { first } => self.key(trimmed, first, json),
                Place::Value { first } => self.value(trimmed, first, json),
                Place::Text => self.text(trimmed, json),
                Place::After => self.after(trimmed, json),
            };
            match step {
                Step::Took(0) | Step::Wait => return (taken, false),
                Step::Took(n) => taken += skipped + n,
                Step::Done(n) => return (taken + skipped + n, true),
            }
        }
    }

    fn key(&mut self, text: &str, first: bool, json: &mut String) -> Step {
        if first && text.starts_with('}') {
            return self.close(json);
        }
        let (key, length) = match text.strip_prefix(self.quote) {
            None if self.quote.starts_with(text) => return Step::Wait,
            None => match text.find([':', ',', '{', '}', '[', ']']) {
                None => return Step::Wait,
                Some(at) if text[at..].starts_with(':') => (text[..at].trim(), at + 1),
                Some(_) => return Step::Done(0),
            },
            Some(inner) => {
                let Some((key, after)) = inner.split_once(self.quote) else { return Step::Wait };
                let colon = after.trim_start();
                match colon.chars().next() {
                    None => return Step::Wait,
                    Some(':') => (key, text.len() - colon.len() + 1),
                    Some(_) => return Step::Done(0),
                }
            }
        };
        json.push_str(&quoted(key));
        json.push(':');
        self.place = Place::Value { first: false };
        Step::Took(length)
    }

    fn value(&mut self, text: &str, first: bool, json: &mut String) -> Step {
        if text.starts_with(self.quote) {
            json.push('"');
            self.place = Place::Text;
            return Step::Took(self.quote.len());
        }
        match text.chars().next() {
            Some(']') if first => self.close(json),
            Some('{') => self.begin('{', '}', json),
            Some('[') => self.begin('[', ']', json),
            _ if self.quote.starts_with(text) => Step::Wait,
            _ => {
                let Some(at) = text.find([',', '}', ']']) else { return Step::Wait };
                json.push_str(&bare(text[..at].trim()));
                self.place = Place::After;
                // An empty value takes nothing, but what comes after it goes on.
                if at == 0 { self.after(text, json) } else { Step::Took(at) }
            }
        }
    }

    fn text(&mut self, text: &str, json: &mut String) -> Step {
        match text.split_once(self.quote) {
            Some((inner, _)) => {
                json.push_str(&escaped(inner));
                json.push('"');
                self.place = Place::After;
                Step::Took(inner.len() + self.quote.len())
            }
            None => {
                let sure = text.len() - overlap(text, self.quote);
                json.push_str(&escaped(&text[..sure]));
                Step::Took(sure)
            }
        }
    }

    fn after(&mut self, text: &str, json: &mut String) -> Step {
        match (text.chars().next(), self.open.last()) {
            (None, _) => Step::Wait,
            (Some(','), Some(end)) => {
                json.push(',');
                self.place =
                    if *end == '}' { Place::Key { first: false } } else { Place::Value { first: false } };
                Step::Took(1)
            }
            (Some(mark), Some(end)) if mark == *end => self.close(json),
            _ => Step::Done(0),
        }
    }

    fn begin(&mut self, begin: char, end: char, json: &mut String) -> Step {
        if self.open.len() == DEPTH {
            return Step::Done(0);
        }
        json.push(begin);
        self.open.push(end);
        self.place = if end == '}' { Place::Key { first: true } } else { Place::Value { first: true } };
        Step::Took(1)
    }

    fn close(&mut self, json: &mut String) -> Step {
        json.extend(self.open.pop());
        self.place = Place::After;
        if self.open.is_empty() { Step::Done(1) } else { Step::Took(1) }
    }
}

/// A word without quotes as JSON.
fn bare(word: &str) -> String {
    match word {
        "true" | "false" | "null" => word.into(),
        "None" => "null".into(),
        _ => match word.parse::<Number>() {
            Ok(number) => Value::Number(number).to_string(),
            Err(_) => quoted(word),
        },
    }
}
