//! `/v1/chat/completions`: the request and how it is read.

use super::format::{ResponseFormat, one_of};
use super::generation::Request;
use super::input::OneOrMany;
use super::prompt::{Conversation, message};
use super::sampling::{Sampling, alternatives, stops};
use super::tools::{ToolChoice, Tools};
use crate::constrain::Grammar;
use crate::error::{ApiError, ApiResult};
use crate::loaded::Loaded;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The body. What is not here is ignored.
#[derive(Debug, Deserialize)]
pub struct ChatRequest {
    pub model: Option<String>,
    pub messages: Vec<Value>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    n: Option<usize>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    stop: Option<OneOrMany<String>>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    response_format: Option<ResponseFormat>,
    /// llguidance's form of Lark.
    grammar: Option<String>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    #[serde(flatten)]
    thinking: Thinking,
    /// The answer goes on where the last message, an assistant's, ends.
    continue_final_message: Option<bool>,
    #[serde(flatten)]
    sampling: Sampling,
}

/// `stream_options`
#[derive(Debug, Default, Deserialize)]
pub struct StreamOptions {
    /// A last chunk with the token counts.
    pub include_usage: Option<bool>,
}

/// Whether and how much the model thinks, for its template.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Thinking {
    pub reasoning_effort: Option<String>,
    pub enable_thinking: Option<bool>,
    pub chat_template_kwargs: Option<Map<String, Value>>,
}

impl Thinking {
    /// The template's variables. An effort of `none` switches thinking off.
    pub fn variables(&self) -> Map<String, Value> {
        let mut variables = self.chat_template_kwargs.clone().unwrap_or_default();
        let mut enable = self.enable_thinking;
        if let Some(effort) = &self.reasoning_effort {
            if effort == "none" {
                enable = enable.or(Some(false));
            } else {
                let effort = if effort == "minimal" { "low" } else { effort };
                variables.entry("reasoning_effort").or_insert_with(|| effort.into());
            }
        }
        if let Some(enable) = enable {
            // Qwen's and Gemma's name, then that of DeepSeek and others.
            variables.entry("enable_thinking").or_insert(enable.into());
            variables.entry("thinking").or_insert(enable.into());
        }
        variables
    }
}

impl ChatRequest {
    /// The conversation and the tools that it offers.
    ///
    /// # Errors
    /// For the client.
    pub fn conversation(&self, loaded: &Loaded) -> ApiResult<(Conversation, Tools)> {
        if self.messages.is_empty() {
            return Err(ApiError::field("messages", "there must be at least one message"));
        }
        let choice = ToolChoice::of_openai(self.tool_choice.as_ref())?;
        let parallel = self.parallel_tool_calls.unwrap_or(true);
        let tools = Tools::new(self.tools.clone().unwrap_or_default(), choice, parallel)?;
        let knows = loaded.template_source.contains("developer");
        let one = |(i, m): (usize, &Value)| message(&format!("messages[{i}]"), m, knows);
        let messages: ApiResult<Vec<_>> = self.messages.iter().enumerate().map(one).collect();
        let conversation = Conversation {
            messages: messages?,
            tools: tools.for_template(),
            variables: self.thinking.variables(),
            continue_last: self.continue_final_message.unwrap_or(false),
        };
        Ok((conversation, tools))
    }

    /// What is to be generated.
    ///
    /// # Errors
    /// For the client.
    pub fn read(self, loaded: &Loaded) -> ApiResult<Request> {
        let (conversation, tools) = self.conversation(loaded)?;
        let logprobs = match (self.logprobs, self.top_logprobs) {
            (Some(true), top) => Some(top.unwrap_or(0)),
            (_, Some(top)) if top > 0 => {
                return Err(ApiError::field("top_logprobs", "it needs `logprobs` to be true"));
            }
            _ => None,
        };
        let asked = self.response_format.map(ResponseFormat::grammar).transpose()?.flatten();
        Ok(Request {
            prompt: conversation.render(loaded)?.1,
            choices: self.n.unwrap_or(1),
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            sampling: self.sampling.options(loaded.summary.vocab)?,
            stop: stops("stop", self.stop)?,
            ignore_end: self.sampling.ignore_eos.unwrap_or(false),
            logprobs: alternatives("top_logprobs", logprobs)?,
            grammar: one_of(asked, self.grammar.map(Grammar::Lark))?,
            format: tools.format(loaded.format),
            tools,
        })
    }
}
