//! Token counts and times in answers.

use crate::worker::Timings;
use serde_json::{Value, json};

/// What the choices of a request cost together.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    pub prompt: usize,
    pub cached: usize,
    pub completion: usize,
    pub reasoning: usize,
    timings: Option<Timings>,
}

impl Usage {
    /// Adds a choice. All have the same prompt, which counts once.
    pub fn add(&mut self, timings: &Timings, reasoning: usize) {
        self.prompt = timings.prompt_tokens;
        if self.timings.is_none() {
            self.cached = timings.cached_tokens;
        }
        self.completion += timings.generated_tokens;
        self.reasoning += reasoning;
        self.timings.get_or_insert_with(|| timings.clone());
    }

    /// Adds another request's usage: that of another prompt.
    pub fn join(&mut self, other: &Usage) {
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.completion += other.completion;
        self.reasoning += other.reasoning;
        if self.timings.is_none() {
            self.timings = other.timings.clone();
        }
    }

    /// `usage` of chats and completions.
    pub fn openai(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }

    /// `usage` of responses.
    pub fn responses(&self) -> Value {
        json!({
            "input_tokens": self.prompt,
            "input_tokens_details": {"cached_tokens": self.cached},
            "output_tokens": self.completion,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.prompt + self.completion,
        })
    }

    /// `usage` of messages.
    pub fn anthropic(&self) -> Value {
        json!({
            "input_tokens": self.prompt - self.cached.min(self.prompt),
            "cache_read_input_tokens": self.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": self.completion,
        })
    }

    /// `timings`, an addition of this server: those of the first choice.
    pub fn timings(&self) -> Value {
        let Some(t) = &self.timings else { return Value::Null };
        let rate = |n: usize, seconds: f64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        json!({
            "queue_ms": t.queue_seconds * 1e3,
            "prompt_n": t.prompt_tokens - t.cached_tokens,
            "cache_n": t.cached_tokens,
            "prompt_ms": t.prompt_seconds * 1e3,
            "prompt_per_second": rate(t.prompt_tokens - t.cached_tokens, t.prompt_seconds),
            "predicted_n": t.generated_tokens,
            "predicted_ms": t.decode_seconds * 1e3,
            "predicted_per_second": rate(t.generated_tokens.saturating_sub(1), t.decode_seconds),
            "prefill_path": t.prefill.path,
            "policy": t.prefill.policy,
            "prefill_rows": t.prefill.chunk,
            "prefill_fallbacks": t.prefill.fallbacks,
        })
    }
}
