//! `/v1/responses`: the request and how it is read.

use super::chat_types::Thinking;
use super::format::ResponseFormat;
use super::generation::Request;
use super::prompt::{Conversation, message, text_of};
use super::sampling::{Sampling, alternatives};
use super::tools::{ToolChoice, Tools, function};
use crate::error::{ApiError, ApiResult};
use crate::loaded::Loaded;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zinc_text::Message;

/// The body. What is not here is ignored.
#[derive(Debug, Deserialize)]
pub struct ResponsesRequest {
    pub model: Option<String>,
    pub input: Value,
    pub instructions: Option<String>,
    pub stream: Option<bool>,
    pub max_output_tokens: Option<usize>,
    text: Option<TextOptions>,
    pub tools: Option<Vec<Value>>,
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    reasoning: Option<Reasoning>,
    #[serde(flatten)]
    thinking: Thinking,
    pub previous_response_id: Option<String>,
    background: Option<bool>,
    pub metadata: Option<Value>,
    top_logprobs: Option<usize>,
    include: Option<Vec<String>>,
    #[serde(flatten)]
    pub sampling: Sampling,
}

#[derive(Debug, Deserialize)]
struct TextOptions {
    format: Option<ResponseFormat>,
}

#[derive(Debug, Deserialize)]
struct Reasoning {
    effort: Option<String>,
}

impl ResponsesRequest {
    /// What is to be generated.
    ///
    /// # Errors
    /// For the client.
    pub fn read(&self, loaded: &Loaded) -> ApiResult<Request> {
        if self.previous_response_id.is_some() {
            let message = "responses are not kept here\nhint: send the whole conversation as `input`";
            return Err(ApiError::field("previous_response_id", message));
        }
        if self.background == Some(true) {
            return Err(ApiError::field("background", "responses are computed while the client waits"));
        }
        let tools = self.tools()?;
        let conversation = Conversation {
            messages: self.messages(loaded)?,
            tools: tools.for_template(),
            variables: self.variables(),
            continue_last: false,
        };
        let wanted = self.include.iter().flatten().any(|i| i == "message.output_text.logprobs");
        let logprobs = wanted.then(|| self.top_logprobs.unwrap_or(0));
        let asked = self.text.as_ref().and_then(|t| t.format.clone()).map(ResponseFormat::grammar);
        Ok(Request {
            prompt: conversation.render(loaded)?.1,
            choices: 1,
            max_tokens: self.max_output_tokens,
            sampling: self.sampling.options(loaded.summary.vocab)?,
            stop: Vec::new(),
            ignore_end: self.sampling.ignore_eos.unwrap_or(false),
            logprobs: alternatives("top_logprobs", logprobs)?,
            grammar: asked.transpose()?.flatten(),
            format: tools.format(loaded.format),
            tools,
        })
    }

    fn variables(&self) -> Map<String, Value> {
        let mut thinking = self.thinking.clone();
        if let Some(effort) = self.reasoning.as_ref().and_then(|r| r.effort.clone()) {
            thinking.reasoning_effort = Some(effort);
        }
        thinking.variables()
    }

    /// Functions in the flat form that responses have; other kinds of tools run elsewhere and are refused.
    fn tools(&self) -> ApiResult<Tools> {
        let mut definitions = Vec::new();
        for (i, tool) in self.tools.iter().flatten().enumerate() {
            if tool["type"].as_str() != Some("function") {
                return Err(ApiError::field(format!("tools[{i}].type"), "only functions can be called here"));
            }
            definitions.push(function(tool, "parameters"));
        }
        let choice = ToolChoice::of_openai(self.tool_choice.as_ref())?;
        Tools::new(definitions, choice, self.parallel_tool_calls.unwrap_or(true))
    }

    fn messages(&self, loaded: &Loaded) -> ApiResult<Vec<Message>> {
        let mut messages = Vec::new();
        if let Some(text) = &self.instructions {
            messages.push(Message::new("system", text.as_str()));
        }
        match &self.input {
            Value::String(text) => messages.push(Message::new("user", text.as_str())),
            Value::Array(items) => {
                let knows = loaded.template_source.contains("developer");
                for (i, item) in items.iter().enumerate() {
                    read_item(&format!("input[{i}]"), item, knows, &mut messages)?;
                }
            }
            _ => return Err(ApiError::field("input", "it must be a text or an array of items")),
        }
        match messages.is_empty() {
            true => Err(ApiError::field("input", "there must be at least one message")),
            false => Ok(messages),
        }
    }
}

/// An item: a message, a call (which joins the assistant's message before it), a call's result, or reasoning.
fn read_item(place: &str, item: &Value, knows_developer: bool, out: &mut Vec<Message>) -> ApiResult<()> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => out.push(message(place, item, knows_developer)?),
        "function_call" if item["name"].is_string() => {
            if out.last().is_none_or(|m| m.role != "assistant") {
                out.push(Message::new("assistant", ""));
            }
            let call = json!({
                "id": item["call_id"], "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"]},
            });
            if let Some(last) = out.last_mut() {
                let calls = last.fields.entry("tool_calls").or_insert_with(|| json!([]));
                calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
            }
        }
        "function_call_output" => {
            let mut result = Message::new("tool", text_of(&format!("{place}.output"), &item["output"])?);
            result.fields.insert("tool_call_id".into(), item["call_id"].clone());
            out.push(result);
        }
        // Templates drop the reasoning of earlier turns.
        "reasoning" => {}
        other => {
            let message = format!("an item of type `{other}` is not supported");
            return Err(ApiError::field(format!("{place}.type"), message));
        }
    }
    Ok(())
}
