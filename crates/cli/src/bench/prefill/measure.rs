//! Measuring one way, prompt by prompt.

use super::super::measure::{fnv, text};
use super::Way;
use crate::error::Outcome;
use std::ops::ControlFlow;
use std::time::Instant;
use zinc_engine::{Engine, Event, GenerateOptions, Products, Sequence, Stats, Want};

/// How much to measure.
pub struct Limits {
    pub repeats: usize,
    /// Seconds of a cell at most.
    pub seconds: f64,
    /// Tokens to generate.
    pub generate: usize,
}

/// A way and a prompt.
pub struct Tried {
    pub way: Way,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// The path that ran: `batched`, `per-token`.
    pub path: &'static str,
    /// Tokens of a step at most.
    pub chunk: u32,
    /// The products of the widest step.
    pub products: Vec<Products>,
    /// What came out, or why nothing was measured.
    pub outcome: Result<Figures, String>,
}

/// What came out.
pub struct Figures {
    /// Seconds to the first generated token, a repeat each.
    pub first: Vec<f64>,
    /// Seconds to the last generated token.
    pub total: Vec<f64>,
    /// The logits after the prompt.
    pub logits: Vec<f32>,
    /// Hash of their bits.
    pub hash: u64,
    /// The tokens generated.
    pub tokens: Vec<u32>,
    /// Their text, where the model has a tokenizer.
    pub text: Option<String>,
    /// Whether every repeat generated the same tokens.
    pub repeatable: bool,
}

/// A first run that takes more than this part of the budget is the only one that warms up. Shorter ones may be the compilation of pipelines.
const LONG: f64 = 0.25;

/// Measures a way on prompts of these lengths, ascending.
pub fn way(engine: &mut Engine, way: &Way, prompts: &[u32], limits: &Limits) -> Outcome<Vec<Tried>> {
    let set = engine.set_steps(way.rows, way.cut.clone());
    let mut sequence = engine.sequence()?;
    let mut tried: Vec<Tried> = Vec::new();
    for &prompt in prompts {
        let path = engine.prefill_path();
        let needed = prompt as usize + limits.generate;
        // A prompt takes at least as long a token as the shorter one before it.
        let expected = tried.iter().rev().find_map(|t| Some((t.outcome.as_ref().ok()?, t.prompt)));
        let expected = expected.map_or(0.0, |(f, n)| middle(&f.first) * f64::from(prompt) / n as f64);
        let outcome = match &set {
            Err(e) => Err(e.to_string().lines().next().unwrap_or_default().to_string()),
            Ok(()) if needed > engine.context() => {
                Err(format!("{needed} tokens are more than the context of {}", engine.context()))
            }
            Ok(()) if expected > limits.seconds => Err(format!("a run would take about {expected:.0} s")),
            Ok(()) => {
                let text = text(engine, prompt as usize);
                cell(engine, &mut sequence, &text, limits)?
            }
        };
        let products = if set.is_ok() { engine.products(prompt.min(path.chunk))? } else { Vec::new() };
        tried.push(Tried {
            way: way.clone(),
            prompt: prompt as usize,
            path: path.path,
            chunk: path.chunk,
            products,
            outcome,
        });
    }
    Ok(tried)
}

/// Measures a prompt; or says why not.
fn cell(
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    limits: &Limits,
) -> Outcome<Result<Figures, String>> {
    let begin = Instant::now();
    sequence.truncate(0);
    let logits = engine.forward(sequence, prompt, Want::Last)?.values;
    let once = begin.elapsed().as_secs_f64();
    if once > limits.seconds {
        return Ok(Err(format!("one run took {once:.0} s")));
    }
    if once < LONG * limits.seconds {
        generate(engine, sequence, prompt, limits.generate)?;
    }
    let (mut first, mut total, mut generated, mut repeatable) = (Vec::new(), Vec::new(), Vec::new(), true);
    while first.is_empty() || first.len() < limits.repeats && begin.elapsed().as_secs_f64() < limits.seconds {
        let (stats, tokens) = generate(engine, sequence, prompt, limits.generate)?;
        first.push(stats.prefill_seconds);
        total.push(stats.prefill_seconds + stats.decode_seconds);
        repeatable &= generated.is_empty() || generated == tokens;
        generated = tokens;
    }
    let text = engine.tokenizer().ok().map(|t| t.decode(&generated));
    let hash = fnv(logits.iter().map(|v| v.to_bits()));
    Ok(Ok(Figures { first, total, logits, hash, tokens: generated, text, repeatable }))
}

/// Reads the prompt anew and generates `n` tokens.
fn generate(
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    n: usize,
) -> Outcome<(Stats, Vec<u32>)> {
    sequence.truncate(0);
    let options = GenerateOptions { max_tokens: n, ignore_end: true, ..GenerateOptions::default() };
    let mut tokens = Vec::new();
    let stats = engine.generate(sequence, prompt, &options, &mut |event| {
        if let Event::Token { id, .. } = event {
            tokens.push(id);
        }
        ControlFlow::Continue(())
    })?;
    Ok((stats, tokens))
}

/// The median, whatever the order; 0 of none.
pub fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    super::super::measure::middle(&sorted)
}
