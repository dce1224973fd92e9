//! Tool calls as JSON, in other orders of their fields than the one that is read as it comes.

use super::Tool;
use serde_json::{Map, Value};

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments: a JSON object as text.
    pub arguments: String,
}

impl Call {
    pub(super) fn new(name: &str, arguments: &Map<String, Value>) -> Call {
        // A map of JSON values is always writable.
        Call { name: name.into(), arguments: serde_json::to_string(arguments).unwrap_or_default() }
    }
}

/// One call as an object with `name` and `arguments` (or `parameters`).
pub(super) fn of_value(value: &Value) -> Option<Call> {
    let object = value.as_object()?;
    let function = object.get("function").and_then(Value::as_object).unwrap_or(object);
    let name = function.get("name")?.as_str()?;
    let arguments = match function.get("arguments").or_else(|| function.get("parameters")) {
        Some(Value::Object(map)) => map.clone(),
        // Some models write them as a string, as the API does.
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return None,
    };
    Some(Call::new(name, &arguments))
}

/// The body of a Hermes call: an object, or several one after the other.
pub(super) fn hermes(body: &str) -> Option<Vec<Call>> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(body).into_iter().collect();
    let calls: Option<Vec<Call>> = values.ok()?.iter().map(of_value).collect();
    calls.filter(|calls| !calls.is_empty())
}

/// Llama 3: objects separated by semicolons, of tools that were offered.
pub(super) fn llama3(body: &str, tools: &[Tool]) -> Option<Vec<Call>> {
    let body = body.trim().trim_start_matches("<|python_tag|>");
    let mut calls = Vec::new();
    let mut rest = body;
    while !rest.trim().is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let call =
            of_value(&values.next()?.ok()?).filter(|call| tools.iter().any(|t| t.name == call.name))?;
        calls.push(call);
        rest = rest[values.byte_offset()..].trim_start().trim_start_matches(';');
    }
    (!calls.is_empty()).then_some(calls)
}

/// Mistral: an array of calls, or a name, `[ARGS]` (older: nothing) and an object.
pub(super) fn mistral(body: &str) -> Option<Vec<Call>> {
    if let Ok(Value::Array(items)) = serde_json::from_str::<Value>(body.trim()) {
        let calls: Option<Vec<Call>> = items.iter().map(of_value).collect();
        return calls.filter(|calls| !calls.is_empty());
    }
    let one = |part: &str| {
        let at = part.find("[ARGS]").or_else(|| part.find('{'))?;
        let arguments = part[at..].trim_start_matches("[ARGS]");
        let name = part[..at].split("[CALL_ID]").next().unwrap_or_default().trim();
        let map: Map<String, Value> = serde_json::from_str(arguments.trim()).ok()?;
        (!name.is_empty()).then(|| Call::new(name, &map))
    };
    body.split("[TOOL_CALLS]").map(one).collect()
}
