//! The events of a streamed message.

use super::generation::{Generation, Output};
use super::messages::stop_reason;
use super::sse::{Events, Gone};
use crate::error::Shape;
use crate::id;
use serde_json::{Value, json};
use zinc_text::Delta;

/// Blocks come one after the other: the open one, if any, and how many came before it.
struct Blocks {
    events: Events,
    open: Option<Kind>,
    index: usize,
    called: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    ToolUse,
}

/// Sends a generation of one choice; `message` says nothing yet.
pub async fn run(events: Events, mut generation: Generation, message: Value) -> Result<(), Gone> {
    events.typed(&json!({"type": "message_start", "message": message})).await?;
    let mut blocks = Blocks { events, open: None, index: 0, called: false };
    loop {
        match generation.next().await {
            Ok(Some(Output::Step { deltas, .. })) => {
                for delta in deltas {
                    match delta {
                        Delta::Reasoning(text) => blocks.text(Kind::Thinking, text).await?,
                        Delta::Content(text) => blocks.text(Kind::Text, text).await?,
                        Delta::Call(name) => blocks.call(&name).await?,
                        Delta::Arguments(text) => blocks.arguments(&text).await?,
                    }
                }
            }
            Ok(Some(Output::End { finish, .. })) => {
                blocks.close().await?;
                let (reason, sequence) = stop_reason(Some(&finish), blocks.called);
                let delta = json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": sequence},
                    "usage": generation.usage.anthropic(),
                    "timings": generation.usage.timings(),
                });
                blocks.events.typed(&delta).await?;
            }
            Ok(None) => return blocks.events.typed(&json!({"type": "message_stop"})).await,
            Err(e) => return blocks.events.typed(&e.body(Shape::Anthropic)).await,
        }
    }
}

impl Blocks {
    async fn text(&mut self, kind: Kind, text: String) -> Result<(), Gone> {
        if self.open != Some(kind) {
            self.close().await?;
            let block = match kind {
                Kind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
                _ => json!({"type": "text", "text": ""}),
            };
            self.begin(block).await?;
            self.open = Some(kind);
        }
        self.delta(match kind {
            Kind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
            _ => json!({"type": "text_delta", "text": text}),
        })
        .await
    }

    async fn call(&mut self, name: &str) -> Result<(), Gone> {
        self.close().await?;
        self.called = true;
        self.begin(json!({"type": "tool_use", "id": id::new("toolu_"), "name": name, "input": {}})).await?;
        self.open = Some(Kind::ToolUse);
        Ok(())
    }

    async fn arguments(&self, text: &str) -> Result<(), Gone> {
        self.delta(json!({"type": "input_json_delta", "partial_json": text})).await
    }

    async fn close(&mut self) -> Result<(), Gone> {
        match self.open.take() {
            Some(_) => self.end().await,
            None => Ok(()),
        }
    }

    async fn begin(&self, block: Value) -> Result<(), Gone> {
        let event = json!({"type": "content_block_start", "index": self.index, "content_block": block});
        self.events.typed(&event).await
    }

    async fn delta(&self, delta: Value) -> Result<(), Gone> {
        let event = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        self.events.typed(&event).await
    }

    async fn end(&mut self) -> Result<(), Gone> {
        let event = json!({"type": "content_block_stop", "index": self.index});
        self.index += 1;
        self.events.typed(&event).await
    }
}
