//! Text from outside never becomes a control token.
//!
//! Before rendering, a marker character that occurs nowhere else is put inside everything in the messages that is spelt
//! like a control token, or could become one with what follows. After rendering the markers are taken out again, and
//! their places remembered: no control token may span one ([`Tokenizer::encode_rendered`]). The text itself is what it
//! would have been without.
//!
//! Some templates look for control tokens in what the assistant said, to take its reasoning out of the history. Where
//! marking a token there changes the text, that token is left unmarked in assistant messages.
//!
//! [`Tokenizer::encode_rendered`]: crate::Tokenizer::encode_rendered

use crate::Error;
use crate::special::{Allowed, SpecialTokens};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A rendered conversation, for [`crate::Tokenizer::encode_rendered`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    breaks: Vec<usize>,
}

impl Rendered {
    /// The text that the template gave.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte offsets, ascending, that no control token may span.
    pub(crate) fn breaks(&self) -> &[usize] {
        &self.breaks
    }

    fn without(marker: char, marked: &str) -> Self {
        let mut text = String::with_capacity(marked.len());
        let mut breaks = Vec::new();
        for (i, part) in marked.split(marker).enumerate() {
            if i > 0 {
                breaks.push(text.len());
            }
            text.push_str(part);
        }
        Rendered { text, breaks }
    }
}

/// Knows the control tokens.
pub(super) struct Protector {
    control: SpecialTokens,
}

/// Ids of control tokens that are left as they are.
type Exempt = BTreeSet<u32>;

impl Protector {
    pub(super) fn new(control: SpecialTokens) -> Self {
        Protector { control }
    }

    /// Renders `context`, of which `messages`, `tools` and all else may come from outside.
    pub(super) fn render(
        &self,
        source: &str,
        context: &Map<String, Value>,
        render: impl Fn(&Map<String, Value>) -> Result<String, Error>,
    ) -> Result<Rendered, Error> {
        let marker = free_marker(source, context)?;
        let attempt = |exempt: &Exempt| -> Result<Rendered, Error> {
            Ok(Rendered::without(marker, &render(&self.mark(context, marker, exempt))?))
        };
        let said = self.said_by_assistant(context);
        let marked = attempt(&Exempt::new());
        if said.is_empty() {
            return marked;
        }
        let plain = attempt(&said);
        if texts_agree(&marked, &plain) {
            return marked;
        }
        // Only the tokens that the template looks for stay unmarked.
        let matters = |&id: &u32| !texts_agree(&marked, &attempt(&Exempt::from([id])));
        let looked_for: Exempt = said.iter().copied().filter(matters).collect();
        let best = attempt(&looked_for);
        if texts_agree(&best, &plain) { best } else { plain }
    }

    /// The context with markers in all strings.
    fn mark(&self, context: &Map<String, Value>, marker: char, exempt: &Exempt) -> Map<String, Value> {
        let mut marked = self.mark_map(context, marker, &Exempt::new());
        let messages = context.get("messages").and_then(Value::as_array);
        let targets = marked.get_mut("messages").and_then(Value::as_array_mut);
        for (message, target) in messages.into_iter().flatten().zip(targets.into_iter().flatten()) {
            if message["role"] == "assistant" {
                *target = self.mark_value(message, marker, exempt);
            }
        }
        marked
    }

    fn mark_value(&self, value: &Value, marker: char, exempt: &Exempt) -> Value {
        match value {
            Value::String(text) => Value::String(self.mark_text(text, marker, exempt)),
            Value::Array(items) => items.iter().map(|v| self.mark_value(v, marker, exempt)).collect(),
            Value::Object(map) => Value::Object(self.mark_map(map, marker, exempt)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn mark_map(&self, map: &Map<String, Value>, marker: char, exempt: &Exempt) -> Map<String, Value> {
        let mark = |(key, value): (&String, &Value)| {
            (self.mark_text(key, marker, exempt), self.mark_value(value, marker, exempt))
        };
        map.iter().map(mark).collect()
    }

    /// Puts the marker behind the first character of everything that is a control token or, at the end (before
    /// white space that a template may trim), the beginning of one.
    fn mark_text(&self, text: &str, marker: char, exempt: &Exempt) -> String {
        let mut out = String::with_capacity(text.len());
        let trimmed = text.trim_end();
        for (at, c) in text.char_indices() {
            out.push(c);
            let begins =
                at < trimmed.len() && self.control.begins_at(trimmed, at) || self.control.begins_at(text, at);
            if begins && !self.is_exempt(text, at, exempt) {
                out.push(marker);
            }
        }
        out
    }

    fn is_exempt(&self, text: &str, at: usize, exempt: &Exempt) -> bool {
        let token = || self.control.find_at(text, at, Allowed::Unbroken(&[]));
        !exempt.is_empty() && token().is_some_and(|found| exempt.contains(&found.id))
    }

    /// The control tokens spelt in assistant messages.
    fn said_by_assistant(&self, context: &Map<String, Value>) -> Exempt {
        let mut said = Exempt::new();
        let messages = context.get("messages").and_then(Value::as_array).into_iter().flatten();
        for message in messages.filter(|m| m["role"] == "assistant") {
            each_string(message, &mut |text| {
                let found =
                    (0..text.len()).filter_map(|at| self.control.find_at(text, at, Allowed::Unbroken(&[])));
                said.extend(found.map(|f| f.id));
            });
        }
        said
    }
}

fn texts_agree(a: &Result<Rendered, Error>, b: &Result<Rendered, Error>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => a.text == b.text,
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

fn each_string(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|v| each_string(v, see)),
        Value::Object(map) => map.iter().for_each(|(key, v)| {
            see(key);
            each_string(v, see);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A character that occurs neither in the template nor in what it is given: one that Unicode reserves for internal use
/// (noncharacters), else one of private use.
fn free_marker(source: &str, context: &Map<String, Value>) -> Result<char, Error> {
    let candidate = |c: char| matches!(c as u32, 0xfdd0..=0xfdef | 0xe000..=0xf8ff | 0xf_0000..);
    let mut used = BTreeSet::new();
    let mut see = |text: &str| used.extend(text.chars().filter(|&c| candidate(c)));
    see(source);
    context.iter().for_each(|(key, value)| {
        see(key);
        each_string(value, &mut see);
    });
    let mut candidates =
        ('\u{fdd0}'..='\u{fdef}').chain('\u{e000}'..='\u{f8ff}').chain('\u{f0000}'..=char::MAX);
    candidates.find(|c| !used.contains(c)).ok_or_else(|| Error::Template {
        line: 0,
        reason: "the messages use every private character there is\nhint: send text instead of binary data"
            .into(),
    })
}
