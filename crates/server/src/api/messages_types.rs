//! `/v1/messages`: Anthropic's request and how it is read.

use super::chat_types;
use super::generation::Request;
use super::input::OneOrMany;
use super::prompt::{Conversation, text_of, text_of_parts};
use super::sampling::{Sampling, stops};
use super::tools::{ToolChoice, Tools, function};
use crate::error::{ApiError, ApiResult};
use crate::loaded::Loaded;
use serde::Deserialize;
use serde_json::{Value, json};
use zinc_text::Message;

/// The body. What is not here is ignored.
#[derive(Debug, Deserialize)]
pub struct MessagesRequest {
    pub model: Option<String>,
    messages: Vec<Value>,
    system: Option<Value>,
    max_tokens: Option<usize>,
    pub stream: Option<bool>,
    stop_sequences: Option<Vec<String>>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    thinking: Option<Thinking>,
}

#[derive(Debug, Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl MessagesRequest {
    /// The conversation and its tools, in the shape that templates expect.
    ///
    /// # Errors
    /// For the client.
    pub fn conversation(&self) -> ApiResult<(Conversation, Tools)> {
        if self.messages.is_empty() {
            return Err(ApiError::field("messages", "there must be at least one message"));
        }
        let mut messages = Vec::new();
        if let Some(system) = &self.system {
            messages.push(Message::new("system", text_of("system", system)?));
        }
        for (i, message) in self.messages.iter().enumerate() {
            read_message(&format!("messages[{i}]"), message, &mut messages)?;
        }
        let tools = self.tools()?;
        let kind = self.thinking.as_ref().and_then(|t| t.kind.as_deref());
        let thinking =
            chat_types::Thinking { enable_thinking: kind.map(|k| k != "disabled"), ..Default::default() };
        let conversation = Conversation {
            messages,
            tools: tools.for_template(),
            variables: thinking.variables(),
            continue_last: true,
        };
        Ok((conversation, tools))
    }

    fn tools(&self) -> ApiResult<Tools> {
        let definitions = self.tools.iter().flatten().map(|t| function(t, "input_schema")).collect();
        let choice = self.tool_choice.as_ref().filter(|c| !c.is_null());
        let parallel = !choice.is_some_and(|c| c["disable_parallel_tool_use"] == true);
        let choice = match choice.map(|c| (c["type"].as_str(), c["name"].as_str())) {
            None | Some((Some("auto"), _)) => ToolChoice::Auto,
            Some((Some("none"), _)) => ToolChoice::None,
            Some((Some("any"), _)) => ToolChoice::Required,
            Some((Some("tool"), Some(name))) => ToolChoice::Named(name.into()),
            _ => {
                let message = "its type must be `auto`, `any`, `none` or, with a name, `tool`";
                return Err(ApiError::field("tool_choice", message));
            }
        };
        Tools::new(definitions, choice, parallel)
    }

    /// What is to be generated.
    ///
    /// # Errors
    /// For the client.
    pub fn read(self, loaded: &Loaded) -> ApiResult<Request> {
        let (conversation, tools) = self.conversation()?;
        let sampling = Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            ..Sampling::default()
        };
        Ok(Request {
            prompt: conversation.render(loaded)?.1,
            choices: 1,
            max_tokens: Some(self.max_tokens.ok_or_else(|| ApiError::field("max_tokens", "it is missing"))?),
            sampling: sampling.options(loaded.summary.vocab)?,
            stop: stops("stop_sequences", self.stop_sequences.map(OneOrMany::Many))?,
            ignore_end: false,
            logprobs: None,
            grammar: None,
            format: tools.format(loaded.format),
            tools,
        })
    }
}

/// A message: its texts, thoughts and calls become one message, results of tools one each.
fn read_message(place: &str, value: &Value, out: &mut Vec<Message>) -> ApiResult<()> {
    let role = match value["role"].as_str() {
        Some(role @ ("user" | "assistant" | "system")) => role,
        _ => return Err(ApiError::field(format!("{place}.role"), "it must be `user` or `assistant`")),
    };
    let blocks = match &value["content"] {
        Value::String(text) => {
            out.push(Message::new(role, text.as_str()));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        _ => {
            return Err(ApiError::field(
                format!("{place}.content"),
                "it must be a text or an array of blocks",
            ));
        }
    };
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for (i, block) in blocks.iter().enumerate() {
        match block["type"].as_str() {
            Some("tool_result") => {
                let place = format!("{place}.content[{i}].content");
                let mut message = Message::new("tool", text_of(&place, &block["content"])?);
                message.fields.insert("tool_call_id".into(), block["tool_use_id"].clone());
                out.push(message);
            }
            Some("tool_use") if block["name"].is_string() => calls.push(json!({
                "id": block["id"], "type": "function",
                "function": {"name": block["name"], "arguments": block["input"]},
            })),
            Some("thinking") => thoughts.extend(block["thinking"].as_str().map(str::to_owned)),
            Some("redacted_thinking") => {}
            _ => texts.push(text_of_parts(&format!("{place}.content[{i}]"), std::slice::from_ref(block))?),
        }
    }
    if texts.is_empty() && calls.is_empty() && thoughts.is_empty() {
        return Ok(());
    }
    let mut message = Message::new(role, texts.join("\n"));
    if !calls.is_empty() {
        message.fields.insert("tool_calls".into(), calls.into());
    }
    if !thoughts.is_empty() {
        message.fields.insert("reasoning_content".into(), thoughts.join("\n").into());
    }
    out.push(message);
    Ok(())
}
