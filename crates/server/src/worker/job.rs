//! What the engine's thread is given, and what it answers.

use crate::constrain::Constraint;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use zinc_engine::{PrefillPath, SamplingOptions};

/// One choice of a request.
pub struct Job {
    /// Tokens of the prompt; at least one, and at most the context.
    pub prompt: Arc<[u32]>,
    /// Tokens to generate at most; at least 1.
    pub max_tokens: usize,
    /// How tokens are chosen, checked.
    pub sampling: SamplingOptions,
    /// The answer ends before any of these.
    pub stop: Vec<String>,
    /// Go on after an end-of-generation token.
    pub ignore_end: bool,
    /// Give each token's log-probability and that many alternatives.
    pub logprobs: Option<usize>,
    /// What the answer must look like.
    pub constraint: Option<Constraint>,
    /// Who asks; the scheduler is fair between these.
    pub client: Arc<str>,
    /// When the request came.
    pub arrived: Instant,
    /// Number of this choice.
    pub choice: usize,
    /// Where events go. A closed one cancels the job.
    pub sink: UnboundedSender<(usize, Event)>,
}

/// What happens to a job.
#[derive(Debug)]
pub enum Event {
    /// A token was chosen.
    Token(TokenEvent),
    /// The answer is complete.
    Done(Done),
    /// It ended with an error.
    Failed(String),
}

/// A chosen token.
#[derive(Debug)]
pub struct TokenEvent {
    /// Text that is certain now; often that of earlier tokens.
    pub text: String,
    /// The name of a control token.
    pub control: Option<String>,
    /// Where asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// Log-probabilities (natural) of the model's own distribution: before bias, penalties, filters and temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token.
    pub token: u32,
    /// Its log-probability.
    pub logprob: f32,
    /// The most likely tokens.
    pub top: Vec<(u32, f32)>,
}

/// Why an answer is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it, or the grammar was complete.
    End,
    /// A stop string.
    Stop(String),
    /// `max_tokens`, or the end of the context.
    Length,
}

/// The end of an answer.
#[derive(Debug)]
pub struct Done {
    /// Why.
    pub finish: Finish,
    /// Text that was held back.
    pub rest: String,
    /// Figures.
    pub timings: Timings,
}

/// A choice in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens that were computed for an earlier request.
    pub cached_tokens: usize,
    /// Tokens generated, an end-of-generation token included.
    pub generated_tokens: usize,
    /// Seconds between the request and its first step.
    pub queue_seconds: f64,
    /// Seconds from then to the first token.
    pub prompt_seconds: f64,
    /// Seconds for the tokens after the first.
    pub decode_seconds: f64,
    /// How the prompt was processed.
    pub prefill: PrefillPath,
}
