//! Qwen's calls in tags: `<function=name>`, `<parameter=key>`, the value between line breaks.

use super::json::{escaped, quoted};
use crate::stop::overlap;
use serde_json::Value;

const KEY: &str = "<parameter=";
const END: &str = "</parameter>";
const CALL_END: &str = "</function>";
/// What may come after a value; so a value may hold the tag that ends it.
const AFTER: [&str; 3] = [KEY, CALL_END, "</tool_call>"];

/// Makes JSON of parameters as they come.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    /// Parameters that are text whatever they look like.
    texts: Vec<String>,
    place: Place,
    /// Parameters so far.
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Between,
    /// A value of which nothing was taken.
    Value {
        text: bool,
    },
    /// Text of which the beginning was given out.
    Text,
}

impl Reader {
    /// After `<function=name>`. `texts`: the parameters whose schema says that they are text.
    pub(super) fn new(texts: Vec<String>) -> Reader {
        Reader { texts, place: Place::Between, count: 0 }
    }

    /// As [`super::Arguments::read`].
    pub(super) fn read(&mut self, text: &str, last: bool, json: &mut String) -> (usize, bool) {
        let mut taken = 0;
        loop {
            let rest = &text[taken..];
            let step = match self.place {
                Place::Between => self.between(rest, last, json),
                Place::Value { text: true } => self.begin_text(rest, last, json),
                Place::Value { text: false } => self.value(rest, last, json),
                Place::Text => self.text(rest, last, json),
            };
            match step {
                Step::Took(n) => taken += n,
                Step::Wait(n) => return (taken + n, false),
                Step::Done(n) => return (taken + n, true),
            }
        }
    }

    /// A key, or the end.
    fn between(&mut self, text: &str, last: bool, json: &mut String) -> Step {
        let rest = text.trim_start();
        let skipped = text.len() - rest.len();
        let begin = if self.count == 0 { "{" } else { "" };
        if let Some(after) = rest.strip_prefix(KEY)
            && let Some((key, _)) = after.split_once('>')
        {
            let key = key.trim();
            json.push_str(if self.count == 0 { "{" } else { "," });
            json.push_str(&quoted(key));
            json.push(':');
            self.count += 1;
            self.place = Place::Value { text: self.texts.iter().any(|t| t == key) };
            return Step::Took(skipped + KEY.len() + after.find('>').unwrap_or_default() + 1);
        }
        let may_go_on = rest.starts_with(KEY) || KEY.starts_with(rest) || CALL_END.starts_with(rest);
        if may_go_on && !last && !rest.starts_with(CALL_END) {
            return Step::Wait(0);
        }
        // What else stands there ends the call too.
        json.push_str(begin);
        json.push('}');
        Step::Done(if rest.starts_with(CALL_END) { skipped + CALL_END.len() } else { 0 })
    }

    /// A value whose kind is seen at its end.
    fn value(&mut self, text: &str, last: bool, json: &mut String) -> Step {
        let Found::End(at) = end(text, last) else { return Step::Wait(0) };
        json.push_str(&value(&text[..at]));
        self.place = Place::Between;
        Step::Took(at + END.len())
    }

    /// The line break before a text is no part of it.
    fn begin_text(&mut self, text: &str, last: bool, json: &mut String) -> Step {
        if text.is_empty() && !last {
            return Step::Wait(0);
        }
        json.push('"');
        self.place = Place::Text;
        Step::Took(usize::from(text.starts_with('\n')))
    }

    fn text(&mut self, text: &str, last: bool, json: &mut String) -> Step {
        match end(text, last) {
            Found::End(at) => {
                json.push_str(&escaped(text[..at].strip_suffix('\n').unwrap_or(&text[..at])));
                json.push('"');
                self.place = Place::Between;
                Step::Took(at + END.len())
            }
            Found::Until(sure) => {
                // A line break before the tag is no part of it either.
                let sure = if last { text.len() } else { text[..sure].trim_end_matches('\n').len() };
                json.push_str(&escaped(&text[..sure]));
                Step::Wait(sure)
            }
        }
    }
}

enum Step {
    Took(usize),
    Wait(usize),
    Done(usize),
}

enum Found {
    /// The tag that ends the value is there.
    End(usize),
    /// Up to there it is not.
    Until(usize),
}

/// The tag that ends a value: the one before the next parameter or the end.
fn end(text: &str, last: bool) -> Found {
    for (at, tag) in text.match_indices(END) {
        let next = text[at + tag.len()..].trim_start();
        if AFTER.iter().any(|mark| next.starts_with(mark)) || last && next.is_empty() {
            return Found::End(at);
        }
        if AFTER.iter().any(|mark| mark.starts_with(next)) {
            return Found::Until(at);
        }
    }
    Found::Until(text.len() - overlap(text, END))
}

/// The template writes text as it is and everything else as JSON; what is no number, object, array, `true`, `false` or `null` is text.
fn value(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    match serde_json::from_str(text) {
        Ok(Value::String(_)) | Err(_) => quoted(text),
        Ok(value) => value.to_string(),
    }
}
