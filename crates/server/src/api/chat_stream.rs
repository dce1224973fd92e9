//! The chunks of a streamed chat.

use super::chat::{Envelope, logprobs};
use super::generation::{Generation, Output, finish_reason};
use super::sse::{Events, Gone};
use crate::error::Shape;
use crate::id;
use crate::loaded::Loaded;
use crate::worker::TokenLogprobs;
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_text::Delta;

const OBJECT: &str = "chat.completion.chunk";

/// A stream under way.
struct Chunks {
    events: Events,
    envelope: Envelope,
    loaded: Arc<Loaded>,
    with_usage: bool,
    /// Calls so far, by choice.
    calls: Vec<usize>,
}

/// Sends a generation.
pub async fn run(
    events: Events,
    mut generation: Generation,
    envelope: Envelope,
    loaded: Arc<Loaded>,
    with_usage: bool,
) -> Result<(), Gone> {
    let calls = vec![0; generation.choices()];
    let mut chunks = Chunks { events, envelope, loaded, with_usage, calls };
    for choice in 0..chunks.calls.len() {
        chunks.delta(choice, json!({"role": "assistant", "content": ""}), Value::Null).await?;
    }
    loop {
        match generation.next().await {
            Ok(Some(Output::Step { choice, deltas, logprobs })) => {
                chunks.step(choice, deltas, logprobs).await?;
            }
            Ok(Some(Output::End { choice, finish })) => {
                let reason = finish_reason(Some(&finish), chunks.calls[choice] > 0);
                let ended =
                    json!([{"index": choice, "delta": {}, "logprobs": null, "finish_reason": reason}]);
                let mut chunk = chunks.chunk(ended);
                if generation.is_complete() {
                    chunk["timings"] = generation.usage.timings();
                }
                chunks.events.data(&chunk).await?;
            }
            Ok(None) => break,
            Err(e) => {
                chunks.events.data(&e.body(Shape::OpenAi)).await?;
                return chunks.events.done().await;
            }
        }
    }
    if with_usage {
        let mut chunk = chunks.chunk(json!([]));
        chunk["usage"] = generation.usage.openai();
        chunks.events.data(&chunk).await?;
    }
    chunks.events.done().await
}

impl Chunks {
    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = self.envelope.object(OBJECT, choices);
        if self.with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    async fn delta(&self, choice: usize, delta: Value, logprobs: Value) -> Result<(), Gone> {
        let choices = json!([{"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": null}]);
        self.events.data(&self.chunk(choices)).await
    }

    /// A token's deltas; its log-probabilities go with the first.
    async fn step(
        &mut self,
        choice: usize,
        deltas: Vec<Delta>,
        of_token: Option<TokenLogprobs>,
    ) -> Result<(), Gone> {
        let mut with = of_token.map_or(Value::Null, |l| logprobs(&[l], &self.loaded.tokenizer));
        if deltas.is_empty() && !with.is_null() {
            return self.delta(choice, json!({"content": ""}), with).await;
        }
        for delta in deltas {
            let with = with.take();
            match delta {
                Delta::Content(text) => self.delta(choice, json!({"content": text}), with).await?,
                Delta::Reasoning(text) => {
                    self.delta(choice, json!({"reasoning_content": text}), with).await?;
                }
                Delta::Call(name) => self.call(choice, &name, with).await?,
                Delta::Arguments(text) => self.arguments(choice, &text, with).await?,
            }
        }
        Ok(())
    }

    /// The first chunk of a call has its id and whole name, the next ones its arguments as they come.
    async fn call(&mut self, choice: usize, name: &str, logprobs: Value) -> Result<(), Gone> {
        let index = self.calls[choice];
        self.calls[choice] += 1;
        let begin = json!({"tool_calls": [{
            "index": index, "id": id::new("call_"), "type": "function",
            "function": {"name": name, "arguments": ""},
        }]});
        self.delta(choice, begin, logprobs).await
    }

    async fn arguments(&self, choice: usize, text: &str, logprobs: Value) -> Result<(), Gone> {
        let index = self.calls[choice].saturating_sub(1);
        let more = json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
        self.delta(choice, more, logprobs).await
    }
}
