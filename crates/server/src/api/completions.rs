//! `/v1/completions`: a text is continued.

use super::chat::{Envelope, finite};
use super::chat_types::StreamOptions;
use super::format::{ResponseFormat, one_of};
use super::generation::{CHOICES, Generation, Output, Request, finish_reason, start};
use super::input::{Body, OneOrMany};
use super::prompt::Prompt;
use super::sampling::{Sampling, alternatives, stops};
use super::sse::{self, Events, Gone};
use super::tools::Tools;
use super::usage::Usage;
use crate::access::Client;
use crate::app::Shared;
use crate::constrain::Grammar;
use crate::error::{ApiError, ApiResult, Shape};
use crate::loaded::Loaded;
use crate::worker::TokenLogprobs;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use zinc_text::{AnswerFormat, Delta, Tokenizer};

/// The body. What is not here is ignored.
#[derive(Debug, Deserialize)]
pub struct CompletionRequest {
    model: Option<String>,
    prompt: Prompts,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<usize>,
    max_tokens: Option<usize>,
    stop: Option<OneOrMany<String>>,
    logprobs: Option<usize>,
    echo: Option<bool>,
    suffix: Option<String>,
    response_format: Option<ResponseFormat>,
    grammar: Option<String>,
    #[serde(flatten)]
    sampling: Sampling,
}

/// A text, tokens, or several of either.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Prompts {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    Lists(Vec<Vec<u32>>),
}

impl Prompts {
    /// Their tokens.
    ///
    /// # Errors
    /// For the client: an id that the model does not have.
    pub fn read(self, loaded: &Loaded) -> ApiResult<Vec<Prompt>> {
        match self {
            Prompts::Text(text) => Ok(vec![Prompt::of_text(loaded, &text)]),
            Prompts::Tokens(tokens) => Ok(vec![Prompt::of_tokens(loaded, tokens)?]),
            Prompts::Texts(texts) => Ok(texts.iter().map(|t| Prompt::of_text(loaded, t)).collect()),
            Prompts::Lists(lists) => lists.into_iter().map(|l| Prompt::of_tokens(loaded, l)).collect(),
        }
    }
}

/// Tokens where `max_tokens` is absent, as OpenAI has it.
const MAX_TOKENS: usize = 16;

/// `POST /v1/completions`
pub async fn create(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Body(body): Body<CompletionRequest>,
) -> ApiResult<Response> {
    let loaded = app.model(body.model.as_deref())?;
    let envelope = Envelope::new("cmpl", &loaded);
    let streamed = body.stream.unwrap_or(false);
    let with_usage = body.stream_options.as_ref().and_then(|o| o.include_usage).unwrap_or(false);
    let echo = body.echo.unwrap_or(false);
    let mut runs = Vec::new();
    for request in requests(body, &loaded)? {
        let echoed = if echo { loaded.tokenizer.decode(&request.prompt.tokens) } else { String::new() };
        runs.push(Run { echoed, generation: start(&loaded, &client, request).await? });
    }
    if streamed {
        return Ok(sse::stream(&app, |events| stream(events, runs, envelope, loaded, with_usage)));
    }
    let mut usage = Usage::default();
    let mut choices = Vec::new();
    for run in runs {
        let (answers, cost) = run.generation.collect().await?;
        usage.join(&cost);
        for answer in answers {
            let text = run.echoed.clone() + &answer.content;
            let reason = finish_reason(answer.finish.as_ref(), false);
            let index = choices.len();
            let logprobs = legacy_logprobs(&answer.logprobs, &loaded.tokenizer, run.echoed.len());
            choices
                .push(json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}));
        }
    }
    let mut object = envelope.object("text_completion", choices.into());
    object["usage"] = usage.openai();
    object["timings"] = usage.timings();
    Ok(Json(object).into_response())
}

/// One prompt's generation.
struct Run {
    echoed: String,
    generation: Generation,
}

fn requests(body: CompletionRequest, loaded: &Loaded) -> ApiResult<Vec<Request>> {
    if body.suffix.is_some_and(|s| !s.is_empty()) {
        return Err(ApiError::field("suffix", "text is continued at its end only"));
    }
    let logprobs = alternatives("logprobs", body.logprobs)?;
    let prompts = body.prompt.read(loaded)?;
    if prompts.is_empty() || prompts.len() > CHOICES {
        return Err(ApiError::field("prompt", format!("there must be from 1 to {CHOICES} prompts")));
    }
    let asked = body.response_format.map(ResponseFormat::grammar).transpose()?.flatten();
    let grammar = one_of(asked, body.grammar.map(Grammar::Lark))?;
    let (sampling, stop) = (body.sampling.options(loaded.summary.vocab)?, stops("stop", body.stop)?);
    let request = |prompt| Request {
        prompt,
        choices: body.n.unwrap_or(1),
        max_tokens: Some(body.max_tokens.unwrap_or(MAX_TOKENS)),
        sampling: sampling.clone(),
        stop: stop.clone(),
        ignore_end: body.sampling.ignore_eos.unwrap_or(false),
        logprobs,
        grammar: grammar.clone(),
        format: AnswerFormat::default(),
        tools: Tools::default(),
    };
    Ok(prompts.into_iter().map(request).collect())
}

/// Sends the prompts' generations one after the other; they run at the same time.
async fn stream(
    events: Events,
    runs: Vec<Run>,
    envelope: Envelope,
    loaded: Arc<Loaded>,
    with_usage: bool,
) -> Result<(), Gone> {
    let chunk = |choices: Value| {
        let mut chunk = envelope.object("text_completion", choices);
        if with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let piece = |index: usize, text: String, logprobs: Value, reason: Value| {
        chunk(json!([{"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}]))
    };
    let (mut first, mut usage) = (0, Usage::default());
    for Run { echoed, mut generation } in runs {
        let choices = generation.choices();
        let mut offsets = vec![echoed.len(); choices];
        for i in (0..choices).filter(|_| !echoed.is_empty()) {
            events.data(&piece(first + i, echoed.clone(), Value::Null, Value::Null)).await?;
        }
        loop {
            match generation.next().await {
                Ok(Some(Output::Step { choice, deltas, logprobs })) => {
                    let text = content(deltas);
                    let logprobs: Vec<TokenLogprobs> = logprobs.into_iter().collect();
                    if !text.is_empty() || !logprobs.is_empty() {
                        let logprobs = legacy_logprobs(&logprobs, &loaded.tokenizer, offsets[choice]);
                        offsets[choice] += text.len();
                        events.data(&piece(first + choice, text, logprobs, Value::Null)).await?;
                    }
                }
                Ok(Some(Output::End { choice, finish })) => {
                    let reason = finish_reason(Some(&finish), false).into();
                    let mut last = piece(first + choice, String::new(), Value::Null, reason);
                    if generation.is_complete() {
                        last["timings"] = generation.usage.timings();
                    }
                    events.data(&last).await?;
                }
                Ok(None) => break,
                Err(e) => {
                    events.data(&e.body(Shape::OpenAi)).await?;
                    return events.done().await;
                }
            }
        }
        first += choices;
        usage.join(&generation.usage);
    }
    if with_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage.openai();
        events.data(&last).await?;
    }
    events.done().await
}

fn content(deltas: Vec<Delta>) -> String {
    let text = |delta| match delta {
        Delta::Content(text) => text,
        Delta::Reasoning(_) | Delta::Call(_) | Delta::Arguments(_) => String::new(),
    };
    deltas.into_iter().map(text).collect()
}

/// `logprobs` as completions have them; `offset` is where the text begins.
fn legacy_logprobs(list: &[TokenLogprobs], tokenizer: &Tokenizer, offset: usize) -> Value {
    if list.is_empty() {
        return Value::Null;
    }
    let (mut offsets, mut at) = (Vec::new(), offset);
    for l in list {
        offsets.push(at);
        at += tokenizer.token_bytes(l.token).len();
    }
    let top = |l: &TokenLogprobs| -> Map<String, Value> {
        l.top.iter().map(|t| (tokenizer.token_text(t.0), finite(t.1).into())).collect()
    };
    json!({
        "tokens": list.iter().map(|l| tokenizer.token_text(l.token)).collect::<Vec<_>>(),
        "token_logprobs": list.iter().map(|l| finite(l.logprob)).collect::<Vec<_>>(),
        "top_logprobs": list.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}
