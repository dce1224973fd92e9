//! `/v1/messages` and `/v1/messages/count_tokens`: Anthropic's API.

use super::generation::{Answer, start};
use super::input::Body;
use super::messages_stream;
use super::messages_types::MessagesRequest;
use super::sse;
use super::usage::Usage;
use crate::access::Client;
use crate::app::Shared;
use crate::error::ApiResult;
use crate::id;
use crate::worker::Finish;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

/// `POST /v1/messages`
pub async fn create(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Body(body): Body<MessagesRequest>,
) -> ApiResult<Response> {
    let loaded = app.model(body.model.as_deref())?;
    let streamed = body.stream.unwrap_or(false);
    let request = body.read(&loaded)?;
    let prompt = request.prompt.tokens.len();
    let generation = start(&loaded, &client, request).await?;
    let message = empty(&loaded.name, prompt);
    if streamed {
        return Ok(sse::stream(&app, |events| messages_stream::run(events, generation, message)));
    }
    let (answers, usage) = generation.collect().await?;
    let answer = answers.into_iter().next().unwrap_or_default();
    Ok(Json(whole(message, &answer, &usage)).into_response())
}

/// `POST /v1/messages/count_tokens`
pub async fn count_tokens(
    State(app): State<Shared>,
    Body(body): Body<MessagesRequest>,
) -> ApiResult<Json<Value>> {
    let loaded = app.model(body.model.as_deref())?;
    let (_, prompt) = body.conversation()?.0.render(&loaded)?;
    Ok(Json(json!({"input_tokens": prompt.tokens.len()})))
}

/// A message that says nothing yet.
fn empty(model: &str, prompt: usize) -> Value {
    json!({
        "id": id::new("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {"input_tokens": prompt, "output_tokens": 0},
    })
}

fn whole(mut message: Value, answer: &Answer, usage: &Usage) -> Value {
    let mut content = Vec::new();
    if !answer.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": answer.reasoning, "signature": ""}));
    }
    if !answer.content.is_empty() {
        content.push(json!({"type": "text", "text": answer.content}));
    }
    for call in &answer.calls {
        // An answer that ended before the call did; Anthropic's guide wraps such arguments so.
        let cut = |_| json!({"INVALID_JSON": call.arguments});
        let input = serde_json::from_str(&call.arguments).unwrap_or_else(cut);
        content.push(json!({"type": "tool_use", "id": id::new("toolu_"), "name": call.name, "input": input}));
    }
    message["content"] = content.into();
    let (reason, sequence) = stop_reason(answer.finish.as_ref(), !answer.calls.is_empty());
    message["stop_reason"] = reason;
    message["stop_sequence"] = sequence;
    message["usage"] = usage.anthropic();
    message["timings"] = usage.timings();
    message
}

/// `stop_reason` and `stop_sequence`.
pub fn stop_reason(finish: Option<&Finish>, called: bool) -> (Value, Value) {
    match finish {
        Some(Finish::Length) => (json!("max_tokens"), Value::Null),
        Some(Finish::Stop(text)) => (json!("stop_sequence"), json!(text)),
        _ if called => (json!("tool_use"), Value::Null),
        _ => (json!("end_turn"), Value::Null),
    }
}
