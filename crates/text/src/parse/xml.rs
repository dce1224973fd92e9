//! Qwen's calls in tags: `<function=name>`, `<parameter=key>`, the value between line breaks.

use super::calls::Call;
use serde_json::{Map, Value};

pub(super) fn parse(body: &str) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix("<function=")?.split_once('>')?;
        let end = after.find("</function>")?;
        calls.push(Call::new(name.trim(), &parameters(&after[..end])?));
        rest = after[end + "</function>".len()..].trim_start();
    }
    (!calls.is_empty()).then_some(calls)
}

fn parameters(body: &str) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        // The end is the tag before the next parameter or before the end, so that a value may hold the tag's text.
        let end = after
            .match_indices("</parameter>")
            .map(|(at, tag)| (at, after[at + tag.len()..].trim_start()))
            .find(|(_, next)| next.is_empty() || next.starts_with("<parameter="));
        let (at, next) = end?;
        map.insert(key.trim().into(), value(&after[..at]));
        rest = next;
    }
    Some(map)
}

/// The template writes text as it is and everything else as JSON; what is no number, object, array, `true`, `false` or `null` is text.
fn value(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    match serde_json::from_str(text) {
        Ok(Value::String(_)) | Err(_) => Value::String(text.into()),
        Ok(value) => value,
    }
}
