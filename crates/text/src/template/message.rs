//! What a template is given.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One message, in the shape of OpenAI's chat API, which is what templates expect.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or what else the template knows. Not text from a user: templates build
    /// control tokens of it.
    pub role: String,
    /// A string or an array of parts (`{"type": "text", "text": …}`); null counts as an empty string.
    #[serde(default)]
    pub content: Value,
    /// All other fields: `reasoning_content`, `tool_calls`, `tool_call_id`, `name`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Message {
    /// A message of plain text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message { role: role.into(), content: Value::String(content.into()), fields: Map::new() }
    }
}

/// A conversation to be rendered.
#[derive(Debug, Clone, Default)]
pub struct RenderInput<'a> {
    /// The messages in order.
    pub messages: &'a [Message],
    /// An array of tool definitions as in OpenAI's API.
    pub tools: Option<&'a Value>,
    /// Whether the text is to end where the assistant begins to speak.
    pub add_generation_prompt: bool,
    /// More variables: `enable_thinking`, `reasoning_effort`, `documents`.
    pub extra: Map<String, Value>,
}

/// The template's variables. Fields that are null are left out; a missing content is the empty string; a tool
/// call's arguments, which the API has as a JSON string, become the object that templates expect.
pub(super) fn context(input: &RenderInput<'_>) -> Map<String, Value> {
    let mut context = input.extra.clone();
    context.insert("messages".into(), input.messages.iter().map(message).collect());
    let tools = input.tools.filter(|t| t.as_array().is_some_and(|t| !t.is_empty()));
    context.insert("tools".into(), tools.cloned().unwrap_or(Value::Null));
    context.entry("documents").or_insert(Value::Null);
    context.insert("add_generation_prompt".into(), input.add_generation_prompt.into());
    context
}

fn message(message: &Message) -> Value {
    let content = if message.content.is_null() { json!("") } else { message.content.clone() };
    let mut object = Map::from_iter([("role".into(), json!(message.role)), ("content".into(), content)]);
    for (key, value) in message.fields.iter().filter(|(_, v)| !v.is_null()) {
        object.insert(key.clone(), value.clone());
    }
    let calls = object.get_mut("tool_calls").and_then(Value::as_array_mut);
    for arguments in calls.into_iter().flatten().filter_map(|call| call.pointer_mut("/function/arguments")) {
        let parsed =
            arguments.as_str().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        if let Some(parsed) = parsed {
            *arguments = Value::Object(parsed);
        }
    }
    Value::Object(object)
}
