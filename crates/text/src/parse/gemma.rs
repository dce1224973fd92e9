//! Gemma's calls: `call:name{key:value,…}` with bare keys, and text between quotes of its own.

use super::calls::Call;
use serde_json::{Map, Number, Value};

/// How deep arguments may be nested.
const DEPTH: usize = 64;

pub(super) fn parse(body: &str, quote: &str) -> Option<Vec<Call>> {
    let (name, rest) = body.trim().strip_prefix("call:")?.split_once('{')?;
    let mut reader = Reader { rest, quote };
    let map = reader.object(DEPTH)?;
    reader.rest.trim().is_empty().then(|| vec![Call::new(name.trim(), &map)])
}

struct Reader<'a> {
    rest: &'a str,
    quote: &'a str,
}

impl<'a> Reader<'a> {
    fn eat(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(mark).map(|rest| self.rest = rest).is_some()
    }

    /// After the opening brace.
    fn object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        if self.eat("}") {
            return Some(map);
        }
        loop {
            let key = match self.text() {
                Some(key) => key.to_owned(),
                None => self.until(&[':'])?.trim().to_owned(),
            };
            if !self.eat(":") {
                return None;
            }
            map.insert(key, self.value(depth.checked_sub(1)?)?);
            if self.eat("}") {
                return Some(map);
            }
            if !self.eat(",") {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        if self.eat("]") {
            return Some(items);
        }
        loop {
            items.push(self.value(depth.checked_sub(1)?)?);
            if self.eat("]") {
                return Some(items);
            }
            if !self.eat(",") {
                return None;
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if self.eat("{") {
            return self.object(depth).map(Value::Object);
        }
        if self.eat("[") {
            return self.array(depth).map(Value::Array);
        }
        if let Some(text) = self.text() {
            return Some(Value::String(text.into()));
        }
        let word = self.until(&[',', '}', ']'])?.trim();
        Some(match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ => match word.parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::String(word.into()),
            },
        })
    }

    /// Text between the quotes.
    fn text(&mut self) -> Option<&'a str> {
        let inner = self.rest.trim_start().strip_prefix(self.quote)?;
        let (text, rest) = inner.split_once(self.quote)?;
        self.rest = rest;
        Some(text)
    }

    fn until(&mut self, ends: &[char]) -> Option<&'a str> {
        let at = self.rest.find(ends)?;
        let (word, rest) = self.rest.split_at(at);
        self.rest = rest;
        Some(word)
    }
}
