//! From a request that was understood to the deltas of its choices.

use super::prompt::Prompt;
use super::tools::Tools;
use super::usage::Usage;
use crate::access::{Client, RequestNumber};
use crate::calls::ends_with_mark;
use crate::constrain::{Grammar, When};
use crate::error::{ApiError, ApiResult};
use crate::loaded::Loaded;
use crate::worker::{Done, Event, Finish, Job, Refused, TokenEvent, TokenLogprobs};
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zinc_engine::SamplingOptions;
use zinc_text::{AnswerFormat, AnswerParser, Delta, Piece};

/// Choices of a request at most.
pub const CHOICES: usize = 128;

/// What is to be generated.
pub struct Request {
    pub prompt: Prompt,
    pub choices: usize,
    /// `None`: as many as the context holds.
    pub max_tokens: Option<usize>,
    pub sampling: SamplingOptions,
    pub stop: Vec<String>,
    pub ignore_end: bool,
    pub logprobs: Option<usize>,
    pub grammar: Option<Grammar>,
    /// The marks to look for; the default finds none.
    pub format: AnswerFormat,
    pub tools: Tools,
}

/// What happens in a generation.
pub enum Output {
    /// A token's deltas, which may be none, and its log-probabilities.
    Step { choice: usize, deltas: Vec<Delta>, logprobs: Option<TokenLogprobs> },
    /// A choice is complete; its last deltas came before.
    End { choice: usize, finish: Finish },
}

/// A generation under way. Dropping it cancels it.
pub struct Generation {
    events: UnboundedReceiver<(usize, Event)>,
    choices: Vec<Choice>,
    open: usize,
    /// Filled as choices end.
    pub usage: Usage,
    began: Instant,
    number: RequestNumber,
}

struct Choice {
    parser: AnswerParser,
    /// Tokens while the model reasoned.
    reasoning: usize,
    /// An end that was not handed out yet.
    end: Option<Finish>,
}

/// Checks lengths, compiles the grammar and queues the choices.
///
/// # Errors
/// For the client: a prompt that is empty or too long, a grammar that does not compile, a full queue.
pub async fn start(loaded: &Arc<Loaded>, client: &Client, request: Request) -> ApiResult<Generation> {
    let (length, context) = (request.prompt.tokens.len(), loaded.context());
    if length == 0 {
        return Err(ApiError::bad("the prompt has no tokens"));
    }
    if length > context {
        return Err(ApiError::context_length(length, context));
    }
    if request.max_tokens == Some(0) {
        return Err(ApiError::field("max_tokens", "it must be at least 1"));
    }
    if request.choices == 0 || request.choices > CHOICES {
        return Err(ApiError::field("n", format!("it must be from 1 to {CHOICES}")));
    }
    let (sender, events) = unbounded_channel();
    let mut jobs = Vec::new();
    for choice in 0..request.choices {
        let mut sampling = request.sampling.clone();
        sampling.seed = sampling.seed.wrapping_add(choice as u64);
        jobs.push(Job {
            prompt: request.prompt.tokens.clone(),
            max_tokens: request.max_tokens.unwrap_or(context),
            sampling,
            stop: request.stop.clone(),
            ignore_end: request.ignore_end,
            logprobs: request.logprobs,
            constraint: None,
            client: client.name.clone(),
            arrived: Instant::now(),
            choice,
            sink: sender.clone(),
        });
    }
    let jobs = constrain(loaded.clone(), &request, jobs).await?;
    loaded.worker.submit(jobs).map_err(refused)?;
    let parser = request.parser();
    let choices =
        (0..request.choices).map(|_| Choice { parser: parser.clone(), reasoning: 0, end: None }).collect();
    Ok(Generation {
        events,
        choices,
        open: request.choices,
        usage: Usage::default(),
        began: Instant::now(),
        number: client.request.clone(),
    })
}

impl Request {
    fn parser(&self) -> AnswerParser {
        AnswerParser::new(self.format, self.prompt.in_reasoning, self.tools.offered())
    }

    /// What the answer must look like, if anything, and when.
    fn constraint(&self, loaded: &Loaded) -> ApiResult<Option<(Grammar, When)>> {
        let reasons = || match self.format.reasoning_end().filter(|_| self.prompt.in_reasoning) {
            Some(end) => When::after(end),
            None => When::Always,
        };
        let tools = self.format.tools();
        Ok(match (&self.grammar, tools) {
            (Some(_), _) if self.tools.forced() => {
                return Err(ApiError::bad(
                    "only one of `response_format`, `grammar` and a forced tool can be given",
                ));
            }
            (Some(grammar), _) => {
                let channels = self.format.has_channels();
                let when = if channels { When::after("<|channel|>final<|message|>") } else { reasons() };
                Some((grammar.clone(), when))
            }
            (None, Some(format)) if self.tools.forced() => {
                Some((self.tools.grammar(format, &loaded.tokenizer)?, reasons()))
            }
            (None, Some(format)) if self.tools.strict() => {
                let when = When::in_calls(self.parser(), ends_with_mark(format));
                Some((self.tools.grammar(format, &loaded.tokenizer)?, when))
            }
            (None, _) => None,
        })
    }
}

/// Compiles the grammar, off the threads that answer: a large schema takes a while. Each choice has a copy.
async fn constrain(loaded: Arc<Loaded>, request: &Request, mut jobs: Vec<Job>) -> ApiResult<Vec<Job>> {
    let Some((grammar, when)) = request.constraint(&loaded)? else { return Ok(jobs) };
    let field = if request.grammar.is_some() { "response_format" } else { "tools" };
    let compiled = tokio::task::spawn_blocking(move || {
        let wrong = |e| ApiError::field(field, format!("the grammar cannot be used: {e}"));
        let compiled = loaded.grammars()?.compile(&grammar, when).map_err(wrong)?;
        jobs.iter_mut().for_each(|job| job.constraint = Some(compiled.clone()));
        Ok(jobs)
    });
    compiled.await.map_err(|_| ApiError::bad("the grammar cannot be compiled"))?
}

fn refused(why: Refused) -> ApiError {
    match why {
        Refused::Full { waiting } => ApiError {
            code: Some("queue_full"),
            retry_after: Some(2),
            ..ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("the queue is full: {waiting} wait\nhint: try again later"),
            )
        },
        Refused::Stopped => ApiError::unavailable("the engine has stopped", None),
    }
}

impl Generation {
    /// What happens next; `None` when all choices are complete.
    ///
    /// # Errors
    /// For the client: the generation failed.
    pub async fn next(&mut self) -> ApiResult<Option<Output>> {
        for (choice, state) in self.choices.iter_mut().enumerate() {
            if let Some(finish) = state.end.take() {
                self.open -= 1;
                if self.open == 0 {
                    self.log();
                }
                return Ok(Some(Output::End { choice, finish }));
            }
        }
        if self.open == 0 {
            return Ok(None);
        }
        match self.events.recv().await {
            Some((choice, Event::Token(token))) => Ok(Some(self.step(choice, token))),
            Some((choice, Event::Done(done))) => Ok(Some(self.done(choice, done))),
            Some((_, Event::Failed(message))) => Err(ApiError::internal(message)),
            None => Err(ApiError::internal("the engine has stopped")),
        }
    }

    /// How many choices there are.
    pub fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Whether every choice has ended.
    pub fn is_complete(&self) -> bool {
        self.open == 0
    }

    fn step(&mut self, choice: usize, token: TokenEvent) -> Output {
        let state = &mut self.choices[choice];
        let mut deltas = Vec::new();
        if let Some(name) = &token.control {
            deltas.extend(state.parser.push(Piece::Control(name)));
        }
        deltas.extend(state.parser.push(Piece::Text(&token.text)));
        if deltas.iter().any(|d| matches!(d, Delta::Reasoning(_))) {
            state.reasoning += 1;
        }
        Output::Step { choice, deltas, logprobs: token.logprobs }
    }

    fn done(&mut self, choice: usize, done: Done) -> Output {
        let state = &mut self.choices[choice];
        let mut deltas = state.parser.push(Piece::Text(&done.rest));
        deltas.extend(state.parser.finish());
        self.usage.add(&done.timings, state.reasoning);
        state.end = Some(done.finish);
        Output::Step { choice, deltas, logprobs: None }
    }

    fn log(&self) {
        let (prompt, cached, generated) = (self.usage.prompt, self.usage.cached, self.usage.completion);
        let milliseconds = self.began.elapsed().as_millis() as u64;
        tracing::info!(request = %self.number.0, prompt, cached, generated, choices = self.choices.len(), milliseconds, "generated");
    }

    /// Everything, when it is complete.
    ///
    /// # Errors
    /// As [`Generation::next`].
    pub async fn collect(mut self) -> ApiResult<(Vec<Answer>, Usage)> {
        let mut answers: Vec<Answer> = self.choices.iter().map(|_| Answer::default()).collect();
        while let Some(output) = self.next().await? {
            match output {
                Output::Step { choice, deltas, logprobs } => {
                    let answer = &mut answers[choice];
                    answer.logprobs.extend(logprobs);
                    deltas.into_iter().for_each(|d| answer.add(d));
                }
                Output::End { choice, finish } => answers[choice].finish = Some(finish),
            }
        }
        Ok((answers, self.usage))
    }
}

/// A whole answer.
#[derive(Debug, Default)]
pub struct Answer {
    pub reasoning: String,
    pub content: String,
    pub calls: Vec<zinc_text::Call>,
    pub logprobs: Vec<TokenLogprobs>,
    pub finish: Option<Finish>,
}

impl Answer {
    fn add(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(text) => self.reasoning.push_str(&text),
            Delta::Content(text) => self.content.push_str(&text),
            Delta::Call(name) => self.calls.push(zinc_text::Call { name, arguments: String::new() }),
            Delta::Arguments(text) => {
                if let Some(call) = self.calls.last_mut() {
                    call.arguments.push_str(&text);
                }
            }
        }
    }
}

/// OpenAI's `finish_reason`.
pub fn finish_reason(finish: Option<&Finish>, called: bool) -> &'static str {
    match finish {
        Some(Finish::Length) => "length",
        _ if called => "tool_calls",
        _ => "stop",
    }
}
