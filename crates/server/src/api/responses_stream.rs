//! The events of a streamed response.

use super::chat::token_logprobs;
use super::generation::{Generation, Output};
use super::responses::{call_item, complete, message_item, reasoning_item, text_part};
use super::sse::{Events, Gone};
use crate::id;
use crate::loaded::Loaded;
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_text::{Call, Delta};

/// A stream under way.
struct Items {
    events: Events,
    sequence: u64,
    done: Vec<Value>,
    open: Option<Open>,
    loaded: Arc<Loaded>,
}

/// The item that grows.
struct Open {
    reasoning: bool,
    id: String,
    text: String,
    logprobs: Vec<Value>,
}

/// Sends a generation of one choice; `response` says nothing yet.
pub async fn run(
    events: Events,
    mut generation: Generation,
    mut response: Value,
    loaded: Arc<Loaded>,
) -> Result<(), Gone> {
    let mut items = Items { events, sequence: 0, done: Vec::new(), open: None, loaded };
    items.send("response.created", json!({"response": response})).await?;
    items.send("response.in_progress", json!({"response": response})).await?;
    let mut ended = None;
    loop {
        match generation.next().await {
            Ok(Some(Output::Step { deltas, logprobs, .. })) => {
                let entry = |l| token_logprobs(&l, &items.loaded.tokenizer);
                let mut entries: Vec<Value> = logprobs.map(entry).into_iter().collect();
                for delta in deltas {
                    match delta {
                        Delta::Reasoning(text) => items.text(true, &text, Vec::new()).await?,
                        Delta::Content(text) => {
                            items.text(false, &text, std::mem::take(&mut entries)).await?
                        }
                        Delta::Call(call) => items.call(&call).await?,
                    }
                }
            }
            Ok(Some(Output::End { finish, .. })) => ended = Some(finish),
            Ok(None) => break,
            Err(e) => {
                response["status"] = "failed".into();
                response["error"] = json!({"code": "server_error", "message": e.message});
                return items.send("response.failed", json!({"response": response})).await;
            }
        }
    }
    // A response has a message, be it empty, or a call.
    if items.open.is_none() && !items.done.iter().any(|i| i["type"] != "reasoning") {
        items.text(false, "", Vec::new()).await?;
    }
    items.close().await?;
    let response = complete(response, std::mem::take(&mut items.done), ended.as_ref(), &generation.usage);
    let name = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    items.send(name, json!({"response": response})).await
}

impl Items {
    async fn send(&mut self, name: &str, mut event: Value) -> Result<(), Gone> {
        event["type"] = name.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.events.typed(&event).await
    }

    async fn text(&mut self, reasoning: bool, text: &str, logprobs: Vec<Value>) -> Result<(), Gone> {
        if self.open.as_ref().is_none_or(|o| o.reasoning != reasoning) {
            self.close().await?;
            self.begin(reasoning).await?;
        }
        let index = self.done.len();
        let Some(open) = &mut self.open else { return Ok(()) };
        open.text.push_str(text);
        open.logprobs.extend(logprobs.iter().cloned());
        if text.is_empty() {
            return Ok(());
        }
        let mut event = json!({"item_id": open.id, "output_index": index, "content_index": 0, "delta": text});
        if !reasoning {
            event["logprobs"] = logprobs.into();
        }
        self.send(
            if reasoning { "response.reasoning_text.delta" } else { "response.output_text.delta" },
            event,
        )
        .await
    }

    async fn begin(&mut self, reasoning: bool) -> Result<(), Gone> {
        let index = self.done.len();
        let id = id::new(if reasoning { "rs_" } else { "msg_" });
        let item = match reasoning {
            true => reasoning_item(&id, ""),
            false => message_item(&id, "in_progress", Vec::new()),
        };
        self.send("response.output_item.added", json!({"output_index": index, "item": item})).await?;
        let part = match reasoning {
            true => json!({"type": "reasoning_text", "text": ""}),
            false => text_part(""),
        };
        let event = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.send("response.content_part.added", event).await?;
        self.open = Some(Open { reasoning, id, text: String::new(), logprobs: Vec::new() });
        Ok(())
    }

    async fn close(&mut self) -> Result<(), Gone> {
        let Some(Open { reasoning, id, text, logprobs }) = self.open.take() else { return Ok(()) };
        let place = json!({"item_id": id, "output_index": self.done.len(), "content_index": 0});
        let with = |key: &str, value: Value| {
            let mut event = place.clone();
            event[key] = value;
            event
        };
        let (name, part, item) = match reasoning {
            true => {
                let part = json!({"type": "reasoning_text", "text": text});
                ("response.reasoning_text.done", part, reasoning_item(&id, &text))
            }
            false => {
                let mut part = text_part(&text);
                part["logprobs"] = logprobs.into();
                ("response.output_text.done", part.clone(), message_item(&id, "completed", vec![part]))
            }
        };
        let mut done = with("text", text.into());
        if !reasoning {
            done["logprobs"] = part["logprobs"].clone();
        }
        self.send(name, done).await?;
        self.send("response.content_part.done", with("part", part)).await?;
        self.finish_item(item).await
    }

    async fn call(&mut self, call: &Call) -> Result<(), Gone> {
        self.close().await?;
        let (id, call_id) = (id::new("fc_"), id::new("call_"));
        let index = self.done.len();
        let begun = call_item(&id, &call_id, "in_progress", &call.name, "");
        self.send("response.output_item.added", json!({"output_index": index, "item": begun})).await?;
        let place = json!({"item_id": id, "output_index": index});
        let mut delta = place.clone();
        delta["delta"] = call.arguments.clone().into();
        self.send("response.function_call_arguments.delta", delta).await?;
        let mut done = place;
        done["arguments"] = call.arguments.clone().into();
        done["name"] = call.name.clone().into();
        self.send("response.function_call_arguments.done", done).await?;
        self.finish_item(call_item(&id, &call_id, "completed", &call.name, &call.arguments)).await
    }

    async fn finish_item(&mut self, item: Value) -> Result<(), Gone> {
        let index = self.done.len();
        self.done.push(item.clone());
        self.send("response.output_item.done", json!({"output_index": index, "item": item})).await
    }
}
