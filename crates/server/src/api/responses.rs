//! `/v1/responses`: OpenAI's newer API, without state on the server.

use super::chat::{Envelope, token_logprobs};
use super::generation::{Answer, start};
use super::input::Body;
use super::responses_stream;
use super::responses_types::ResponsesRequest;
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
use zinc_text::Tokenizer;

/// `POST /v1/responses`
pub async fn create(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Body(body): Body<ResponsesRequest>,
) -> ApiResult<Response> {
    let loaded = app.model(body.model.as_deref())?;
    let request = body.read(&loaded)?;
    let response =
        begun(&body, &Envelope::new("resp_", &loaded), request.sampling.temperature, request.sampling.top_p);
    let generation = start(&loaded, &client, request).await?;
    if body.stream.unwrap_or(false) {
        return Ok(sse::stream(&app, |events| responses_stream::run(events, generation, response, loaded)));
    }
    let (answers, usage) = generation.collect().await?;
    let answer = answers.into_iter().next().unwrap_or_default();
    let output = items(&answer, &loaded.tokenizer);
    Ok(Json(complete(response, output, answer.finish.as_ref(), &usage)).into_response())
}

/// A response that says nothing yet.
fn begun(body: &ResponsesRequest, envelope: &Envelope, temperature: f32, top_p: f32) -> Value {
    json!({
        "id": envelope.id,
        "object": "response",
        "created_at": envelope.created,
        "status": "in_progress",
        "model": envelope.model,
        "output": [],
        "error": null,
        "incomplete_details": null,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata.clone().unwrap_or_else(|| json!({})),
        "parallel_tool_calls": body.parallel_tool_calls.unwrap_or(true),
        "previous_response_id": null,
        "store": false,
        "temperature": temperature,
        "top_p": top_p,
        "tool_choice": body.tool_choice.clone().unwrap_or_else(|| json!("auto")),
        "tools": body.tools.clone().unwrap_or_default(),
        "truncation": "disabled",
        "usage": null,
    })
}

/// Fills in how a response ended.
pub fn complete(mut response: Value, output: Vec<Value>, finish: Option<&Finish>, usage: &Usage) -> Value {
    let cut = finish == Some(&Finish::Length);
    response["status"] = if cut { "incomplete" } else { "completed" }.into();
    if cut {
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response["output"] = output.into();
    response["usage"] = usage.responses();
    response["timings"] = usage.timings();
    response
}

fn items(answer: &Answer, tokenizer: &Tokenizer) -> Vec<Value> {
    let mut items = Vec::new();
    if !answer.reasoning.is_empty() {
        items.push(reasoning_item(&id::new("rs_"), &answer.reasoning));
    }
    if !answer.content.is_empty() || answer.calls.is_empty() {
        let mut part = text_part(&answer.content);
        part["logprobs"] = answer.logprobs.iter().map(|l| token_logprobs(l, tokenizer)).collect();
        items.push(message_item(&id::new("msg_"), "completed", vec![part]));
    }
    for call in &answer.calls {
        items.push(call_item(&id::new("fc_"), &id::new("call_"), "completed", &call.name, &call.arguments));
    }
    items
}

pub fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub fn message_item(id: &str, status: &str, content: Vec<Value>) -> Value {
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

pub fn reasoning_item(id: &str, text: &str) -> Value {
    let content = if text.is_empty() { json!([]) } else { json!([{"type": "reasoning_text", "text": text}]) };
    json!({"id": id, "type": "reasoning", "summary": [], "content": content})
}

pub fn call_item(id: &str, call_id: &str, status: &str, name: &str, arguments: &str) -> Value {
    json!({
        "id": id, "type": "function_call", "status": status,
        "call_id": call_id, "name": name, "arguments": arguments,
    })
}
