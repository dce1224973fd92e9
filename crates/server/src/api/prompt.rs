//! From messages to tokens, by the model's own template and nothing else.

use crate::error::{ApiError, ApiResult};
use crate::loaded::Loaded;
use serde_json::{Map, Value};
use std::sync::Arc;
use zinc_text::{ControlTokens, Message, RenderInput};

/// A rendered conversation.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Its tokens.
    pub tokens: Arc<[u32]>,
    /// Whether it ends in the middle of the model's reasoning.
    pub in_reasoning: bool,
}

/// What a conversation is rendered from.
#[derive(Debug, Default)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub tools: Option<Value>,
    /// More variables for the template.
    pub variables: Map<String, Value>,
    /// The answer goes on where the last message, an assistant's, ends.
    pub continue_last: bool,
}

/// The roles that templates know. Templates make control tokens of a role, so nothing else is let through.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Fields of a message that templates read.
const FIELDS: [&str; 5] = ["name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"];

impl Conversation {
    /// The text that the template gives.
    ///
    /// # Errors
    /// For the client: the model has no template, or it refuses the messages.
    pub fn render(&self, loaded: &Loaded) -> ApiResult<(String, Prompt)> {
        let mut messages = self.messages.as_slice();
        let mut begun = String::new();
        if self.continue_last
            && let Some((last, before)) = messages.split_last()
            && last.role == "assistant"
        {
            begun = last.content.as_str().unwrap_or_default().to_owned();
            messages = before;
        }
        let input = RenderInput {
            messages,
            tools: self.tools.as_ref(),
            add_generation_prompt: true,
            extra: self.variables.clone(),
        };
        let rendered = loaded.template()?.render(&input).map_err(|e| ApiError::bad(e.to_string()))?;
        let mut tokens = loaded.tokenizer.encode_rendered(&rendered);
        tokens.extend(loaded.tokenizer.encode(&begun, ControlTokens::AsText));
        let text = rendered.text().to_owned() + &begun;
        let in_reasoning = loaded.format.reasons_after(&text);
        Ok((text, Prompt { tokens: tokens.into(), in_reasoning }))
    }
}

impl Prompt {
    /// A text to continue, BOS first where the model wants one.
    pub fn of_text(loaded: &Loaded, text: &str) -> Prompt {
        let tokenizer = &loaded.tokenizer;
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        let tokens = bos.into_iter().chain(tokenizer.encode(text, ControlTokens::AsText)).collect();
        Prompt { tokens, in_reasoning: false }
    }

    /// Token ids as they are.
    ///
    /// # Errors
    /// For the client: an id that the model does not have.
    pub fn of_tokens(loaded: &Loaded, tokens: Vec<u32>) -> ApiResult<Prompt> {
        match tokens.iter().find(|&&t| t >= loaded.summary.vocab) {
            Some(id) => Err(ApiError::field("prompt", format!("{id} is no token id of this model"))),
            None => Ok(Prompt { tokens: tokens.into(), in_reasoning: false }),
        }
    }
}

/// Checks a message of a client, joins its text parts, and leaves out what no template reads.
pub fn message(place: &str, value: &Value, knows_developer: bool) -> ApiResult<Message> {
    let wrong = |field: &str, message: String| Err(ApiError::field(format!("{place}{field}"), message));
    let Some(object) = value.as_object() else { return wrong("", "a message must be an object".into()) };
    let role = match object.get("role").and_then(Value::as_str) {
        Some("developer") if !knows_developer => "system",
        Some(role) if ROLES.contains(&role) => role,
        Some(role) => return wrong(".role", format!("the role `{role}` is unknown; there are {ROLES:?}")),
        None => return wrong(".role", "the role is missing".into()),
    };
    let mut message = Message::new(role, text_of(&format!("{place}.content"), &value["content"])?);
    for field in FIELDS {
        match object.get(field) {
            None | Some(Value::Null) => {}
            Some(calls) if field == "tool_calls" => {
                message.fields.insert(field.into(), tool_calls(place, calls)?);
            }
            Some(text @ Value::String(_)) => {
                let name = if field == "reasoning" { "reasoning_content" } else { field };
                message.fields.insert(name.into(), text.clone());
            }
            Some(_) => return wrong(&format!(".{field}"), "it must be a text".into()),
        }
    }
    Ok(message)
}

/// A content: a text, or an array of parts; none is empty.
pub fn text_of(place: &str, content: &Value) -> ApiResult<String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => text_of_parts(place, parts),
        _ => Err(ApiError::field(place, "it must be a text or an array of parts")),
    }
}

/// The texts of parts, a line break between two.
pub fn text_of_parts(place: &str, parts: &[Value]) -> ApiResult<String> {
    let mut texts = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or("text");
        let text = part.as_str().or_else(|| part["text"].as_str()).or_else(|| part["refusal"].as_str());
        match (kind, text) {
            ("text" | "input_text" | "output_text" | "refusal", Some(text)) => texts.push(text),
            _ => {
                let message = format!("a part of type `{kind}` is not supported: this model reads text");
                return Err(ApiError::field(format!("{place}[{i}]"), message));
            }
        }
    }
    Ok(texts.join("\n"))
}

fn tool_calls(place: &str, calls: &Value) -> ApiResult<Value> {
    let named = |call: &Value| call.pointer("/function/name").is_some_and(Value::is_string);
    match calls.as_array() {
        Some(list) if list.iter().all(named) => Ok(calls.clone()),
        _ => {
            let message = "it must be an array of `{\"id\": …, \"type\": \"function\", \"function\": {\"name\": …, \"arguments\": …}}`";
            Err(ApiError::field(format!("{place}.tool_calls"), message))
        }
    }
}
