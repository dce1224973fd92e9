//! One generation: text to standard output as it comes, figures afterwards.

use crate::error::{Failure, Outcome};
use crate::interrupt;
use crate::load::prefill_lines;
use crate::output::plural;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use zinc_engine::{Engine, Event, GenerateOptions, Sequence, Stats, StopReason};

/// What was generated.
pub struct Answer {
    /// The text, without a stop string.
    pub text: String,
    /// All tokens, an end-of-generation token and those of a stop string included.
    pub tokens: Vec<u32>,
    /// Figures.
    pub stats: Stats,
}

/// Continues `prompt` and writes the text to `out` piece by piece. Ends early on an interrupt.
pub fn generate(
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    options: &GenerateOptions,
    out: &mut dyn Write,
) -> Outcome<Answer> {
    interrupt::watch();
    let (mut text, mut tokens) = (String::new(), Vec::new());
    let mut broken = None;
    let stats = engine.generate(sequence, prompt, options, &mut |event| {
        let piece = match event {
            Event::Prefill { .. } => String::new(),
            Event::Token { id, text } => {
                tokens.push(id);
                text
            }
            Event::Rest { text } => text,
        };
        if broken.is_none() && !piece.is_empty() {
            broken = out.write_all(piece.as_bytes()).and_then(|()| out.flush()).err();
        }
        text.push_str(&piece);
        match interrupt::interrupted() || broken.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    match broken {
        Some(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Some(e) => Err(e.into()),
        None => Ok(Answer { text, tokens, stats }),
    }
}

/// A generation in lines for standard error.
pub fn figures(stats: &Stats) -> Vec<String> {
    let s = stats;
    let computed = s.prompt_tokens - s.reused_tokens;
    let mut lines = vec![
        format!(
            "prompt   {} ({} computed, {} reused) in {:.2} s, {:.1} tok/s",
            plural(s.prompt_tokens, "token"),
            computed,
            s.reused_tokens,
            s.prefill_seconds,
            s.prefill_rate()
        ),
        format!(
            "answer   {} in {:.2} s, {:.1} tok/s, {}",
            plural(s.generated, "token"),
            s.decode_seconds,
            s.decode_rate(),
            ending(&s.stop)
        ),
    ];
    lines.extend(prefill_lines(&s.prefill));
    if let Some(report) = &s.validation {
        lines.extend(report.to_string().lines().map(str::to_string));
    }
    if s.submissions > 0 {
        let chosen = &s.choices;
        lines.push(format!(
            "gpu      {}, {} dispatches and {} barriers a token; chosen by argmax {}, candidates {}, full row {}",
            plural(s.submissions as usize, "submission"),
            s.dispatches_per_token,
            s.barriers_per_token,
            chosen.gpu_argmax,
            chosen.candidates,
            chosen.full_row
        ));
    }
    lines
}

/// Why a generation ended, in words.
fn ending(stop: &StopReason) -> String {
    match stop {
        StopReason::EndOfGeneration(_) => "ended by the model".into(),
        StopReason::MaxTokens => "ended at `-n` tokens".into(),
        StopReason::StopString(s) => format!("ended by the stop string {s:?}"),
        StopReason::ContextFull => "ended at the end of the context".into(),
        StopReason::Cancelled => "interrupted".into(),
    }
}
