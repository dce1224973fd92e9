//! `/v1/chat/completions`

use super::chat_stream;
use super::chat_types::ChatRequest;
use super::generation::{Answer, finish_reason, start};
use super::input::Body;
use super::sse;
use crate::access::Client;
use crate::app::Shared;
use crate::error::ApiResult;
use crate::id;
use crate::loaded::Loaded;
use crate::worker::TokenLogprobs;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use zinc_text::{Call, Tokenizer};

/// What answers and chunks have in common.
#[derive(Clone)]
pub struct Envelope {
    pub id: String,
    pub created: u64,
    pub model: String,
}

impl Envelope {
    /// A new answer's.
    pub fn new(prefix: &str, loaded: &Loaded) -> Envelope {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Envelope { id: id::new(prefix), created, model: loaded.name.clone() }
    }

    /// An object with these choices.
    pub fn object(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        })
    }
}

/// Names what computed an answer.
const FINGERPRINT: &str = concat!("zinc-", env!("CARGO_PKG_VERSION"));

/// `POST /v1/chat/completions`
pub async fn create(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Body(body): Body<ChatRequest>,
) -> ApiResult<Response> {
    let loaded = app.model(body.model.as_deref())?;
    let envelope = Envelope::new("chatcmpl", &loaded);
    let streamed = body.stream.unwrap_or(false);
    let with_usage = body.stream_options.as_ref().and_then(|o| o.include_usage).unwrap_or(false);
    let generation = start(&loaded, &client, body.read(&loaded)?).await?;
    if streamed {
        return Ok(sse::stream(&app, |events| {
            chat_stream::run(events, generation, envelope, loaded, with_usage)
        }));
    }
    let (answers, usage) = generation.collect().await?;
    let choices = answers.iter().enumerate().map(|(i, a)| choice(i, a, &loaded)).collect();
    let mut object = envelope.object("chat.completion", choices);
    object["usage"] = usage.openai();
    object["timings"] = usage.timings();
    Ok(Json(object).into_response())
}

fn choice(index: usize, answer: &Answer, loaded: &Arc<Loaded>) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.content});
    if answer.content.is_empty() && !answer.calls.is_empty() {
        message["content"] = Value::Null;
    }
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = json!(answer.reasoning);
    }
    if !answer.calls.is_empty() {
        message["tool_calls"] = answer.calls.iter().map(tool_call).collect();
    }
    let logprobs = match answer.logprobs.as_slice() {
        [] => Value::Null,
        list => logprobs(list, &loaded.tokenizer),
    };
    json!({
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": finish_reason(answer.finish.as_ref(), !answer.calls.is_empty()),
    })
}

/// A whole call.
pub fn tool_call(call: &Call) -> Value {
    json!({
        "id": id::new("call_"),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

/// `logprobs` of a choice.
pub fn logprobs(list: &[TokenLogprobs], tokenizer: &Tokenizer) -> Value {
    let content: Vec<Value> = list.iter().map(|l| token_logprobs(l, tokenizer)).collect();
    json!({"content": content, "refusal": null})
}

/// An entry of `logprobs`.
pub fn token_logprobs(of_token: &TokenLogprobs, tokenizer: &Tokenizer) -> Value {
    let entry = |token: u32, logprob: f32| {
        json!({
            "token": tokenizer.token_text(token),
            "logprob": finite(logprob),
            "bytes": tokenizer.token_bytes(token),
        })
    };
    let mut value = entry(of_token.token, of_token.logprob);
    value["top_logprobs"] = of_token.top.iter().map(|t| entry(t.0, t.1)).collect();
    value
}

/// JSON has no −∞; OpenAI writes −9999.
pub fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}
