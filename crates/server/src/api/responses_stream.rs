//! The events of a streamed response.

use super::chat::token_logprobs;
use super::generation::{Generation, Output};
use super::responses::{call_item, complete, message_item, reasoning_item, text_part};
use super::sse::{Events, Gone};
use crate::id;
use crate::loaded::Loaded;
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_text::Delta;

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
    kind: Kind,
    id: String,
    text: String,
    logprobs: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call { call_id: String, name: String },
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
                        Delta::Reasoning(text) => items.text(Kind::Reasoning, &text, Vec::new()).await?,
                        Delta::Content(text) => {
                            items.text(Kind::Message, &text, std::mem::take(&mut entries)).await?
                        }
                        Delta::Call(name) => items.call(name).await?,
                        Delta::Arguments(text) => items.arguments(&text).await?,
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
        items.text(Kind::Message, "", Vec::new()).await?;
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

    async fn text(&mut self, kind: Kind, text: &str, logprobs: Vec<Value>) -> Result<(), Gone> {
        if self.open.as_ref().is_none_or(|o| o.kind != kind) {
            self.close().await?;
            self.begin(kind.clone()).await?;
        }
        let index = self.done.len();
        let Some(open) = &mut self.open else { return Ok(()) };
        open.text.push_str(text);
        open.logprobs.extend(logprobs.iter().cloned());
        if text.is_empty() {
            return Ok(());
        }
        let mut event = json!({"item_id": open.id, "output_index": index, "content_index": 0, "delta": text});
        if kind == Kind::Reasoning {
            return self.send("response.reasoning_text.delta", event).await;
        }
        event["logprobs"] = logprobs.into();
        self.send("response.output_text.delta", event).await
    }

    async fn begin(&mut self, kind: Kind) -> Result<(), Gone> {
        let index = self.done.len();
        let (id, item, part) = match &kind {
            Kind::Reasoning => {
                let id = id::new("rs_");
                let item = reasoning_item(&id, "");
                (id, item, Some(json!({"type": "reasoning_text", "text": ""})))
            }
            Kind::Message => {
                let id = id::new("msg_");
                let item = message_item(&id, "in_progress", Vec::new());
                (id, item, Some(text_part("")))
            }
            Kind::Call { call_id, name } => {
                let id = id::new("fc_");
                let item = call_item(&id, call_id, "in_progress", name, "");
                (id, item, None)
            }
        };
        self.send("response.output_item.added", json!({"output_index": index, "item": item})).await?;
        if let Some(part) = part {
            let event = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
            self.send("response.content_part.added", event).await?;
        }
        self.open = Some(Open { kind, id, text: String::new(), logprobs: Vec::new() });
        Ok(())
    }

    async fn call(&mut self, name: String) -> Result<(), Gone> {
        self.close().await?;
        self.begin(Kind::Call { call_id: id::new("call_"), name }).await
    }

    async fn arguments(&mut self, text: &str) -> Result<(), Gone> {
        let index = self.done.len();
        let Some(open) = &mut self.open else { return Ok(()) };
        open.text.push_str(text);
        let event = json!({"item_id": open.id, "output_index": index, "delta": text});
        self.send("response.function_call_arguments.delta", event).await
    }

    async fn close(&mut self) -> Result<(), Gone> {
        let Some(Open { kind, id, text, logprobs }) = self.open.take() else { return Ok(()) };
        let place = json!({"item_id": id, "output_index": self.done.len()});
        let with = |fields: Value| {
            let mut event = place.clone();
            fields.as_object().into_iter().flatten().for_each(|(k, v)| event[k] = v.clone());
            event
        };
        match kind {
            Kind::Reasoning => {
                let part = json!({"type": "reasoning_text", "text": text});
                let done = with(json!({"content_index": 0, "text": text}));
                self.send("response.reasoning_text.done", done).await?;
                let ended = with(json!({"content_index": 0, "part": part}));
                self.send("response.content_part.done", ended).await?;
                self.finish_item(reasoning_item(&id, &text)).await
            }
            Kind::Message => {
                let mut part = text_part(&text);
                part["logprobs"] = logprobs.clone().into();
                let done = with(json!({"content_index": 0, "text": text, "logprobs": logprobs}));
                self.send("response.output_text.done", done).await?;
                let ended = with(json!({"content_index": 0, "part": part}));
                self.send("response.content_part.done", ended).await?;
                self.finish_item(message_item(&id, "completed", vec![part])).await
            }
            Kind::Call { call_id, name } => {
                let done = with(json!({"arguments": text, "name": name}));
                self.send("response.function_call_arguments.done", done).await?;
                self.finish_item(call_item(&id, &call_id, "completed", &name, &text)).await
            }
        }
    }

    async fn finish_item(&mut self, item: Value) -> Result<(), Gone> {
        let index = self.done.len();
        self.done.push(item.clone());
        self.send("response.output_item.done", json!({"output_index": index, "item": item})).await
    }
}
