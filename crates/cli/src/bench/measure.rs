//! Measuring prefill and decode, and checking what they compute.

use crate::error::Outcome;
use crate::load::tell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use zinc_engine::{Engine, Event, GenerateOptions, OpTime, Routing, Sequence, Want};

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reading a prompt.
    Prefill,
    /// Generating, greedy.
    Decode,
}

impl Kind {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Prefill => "prefill",
            Kind::Decode => "decode",
        }
    }
}

/// The repeats of one measurement.
pub struct Measured {
    pub kind: Kind,
    /// Tokens read or generated.
    pub tokens: usize,
    /// Tokens in the cache before.
    pub depth: usize,
    /// Seconds of each repeat.
    pub seconds: Vec<f64>,
    /// Whether all logits were finite.
    pub finite: bool,
    /// Whether every repeat, those of the warm-up included, gave the same bits and tokens.
    pub repeatable: bool,
    /// Hash of the logits after the last token and of the tokens.
    pub hash: u64,
    /// Tokens a second in each quarter of the last repeat of a decode of at least [`QUARTERED`] tokens: whether the rate falls.
    pub quarters: Option<[f64; 4]>,
}

/// A warm-up lasts that long: a device's clocks rise for a while after a pause.
const CLOCKS: Duration = Duration::from_millis(300);

/// Below this a quarter is too short to say anything.
const QUARTERED: usize = 64;

impl Measured {
    /// Whether the output was as it must be.
    pub fn sound(&self) -> bool {
        self.finite && self.repeatable
    }

    /// Tokens a second of each repeat, ascending.
    pub fn rates(&self) -> Vec<f64> {
        let mut rates: Vec<f64> = self.seconds.iter().map(|s| self.tokens as f64 / s.max(1e-9)).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }

    /// Middle of the rates.
    pub fn median(&self) -> f64 {
        middle(&self.rates())
    }
}

/// The median of ascending numbers; 0 of none.
pub fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// One run's seconds and output.
struct Run {
    seconds: f64,
    logits: Vec<f32>,
    tokens: Vec<u32>,
    quarters: Option<[f64; 4]>,
}

/// A loaded model under measurement.
pub struct Bench {
    pub engine: Engine,
    sequence: Sequence,
    warm_up: usize,
    repeats: usize,
}

impl Bench {
    pub fn new(engine: Engine, warm_up: u32, repeats: u32) -> Outcome<Bench> {
        let sequence = engine.sequence()?;
        Ok(Bench { engine, sequence, warm_up: warm_up as usize, repeats: repeats as usize })
    }

    /// GPU time of each dispatch of a step of `tokens` tokens (1: a decode step) after `depth` others.
    pub fn profile(&mut self, tokens: usize, depth: usize) -> Outcome<Vec<OpTime>> {
        let text = text(&self.engine, depth + tokens);
        self.fill(&text[..depth])?;
        Ok(self.engine.profile_step(&mut self.sequence, &text[depth..])?)
    }

    /// Reads `tokens` tokens after `depth` others.
    pub fn prefill(&mut self, tokens: usize, depth: usize) -> Outcome<Measured> {
        let text = text(&self.engine, depth + tokens);
        self.validate(&text, depth)?;
        self.repeat(Kind::Prefill, tokens, depth, |bench| {
            bench.fill(&text[..depth])?;
            let start = Instant::now();
            let logits = bench.engine.forward(&mut bench.sequence, &text[depth..], Want::Last)?;
            Ok(Run {
                seconds: start.elapsed().as_secs_f64(),
                logits: logits.values,
                tokens: Vec::new(),
                quarters: None,
            })
        })
    }

    /// Reads `tokens` tokens and counts by layer which experts they choose.
    pub fn routing(&mut self, tokens: usize) -> Outcome<Vec<Routing>> {
        let text = text(&self.engine, tokens);
        self.sequence.truncate(0);
        Ok(self.engine.routing(&mut self.sequence, &text)?)
    }

    /// In validate mode compares reading `text` after its first `depth` tokens with other paths, and tells what came of it.
    fn validate(&mut self, text: &[u32], depth: usize) -> Outcome {
        self.fill(&text[..depth])?;
        if let Some(report) = self.engine.validate_prompt(&mut self.sequence, text)? {
            tell(&[report.to_string().trim_end().to_string()]);
        }
        Ok(())
    }

    /// Generates `tokens` tokens after `depth` others (at least one), as `run` does. The first token of a generation belongs to the
    /// prefill, so one more is generated and `tokens` steps are timed.
    pub fn decode(&mut self, tokens: usize, depth: usize) -> Outcome<Measured> {
        let prompt = text(&self.engine, depth.max(1));
        let options =
            GenerateOptions { max_tokens: tokens + 1, ignore_end: true, ..GenerateOptions::default() };
        self.repeat(Kind::Decode, tokens, depth, |bench| {
            let mut generated = Vec::new();
            let mut times = Vec::new();
            let stats = bench.engine.generate(&mut bench.sequence, &prompt, &options, &mut |event| {
                if let Event::Token { id, .. } = event {
                    generated.push(id);
                    times.push(Instant::now());
                }
                ControlFlow::Continue(())
            })?;
            // A generation leaves its last token unread; the logits after it are part of what is checked.
            let last = generated.last().copied().into_iter().collect::<Vec<u32>>();
            let logits = bench.engine.forward(&mut bench.sequence, &last, Want::Last)?;
            Ok(Run {
                seconds: stats.decode_seconds,
                logits: logits.values,
                tokens: generated,
                quarters: quarters(&times),
            })
        })
    }

    fn repeat(
        &mut self,
        kind: Kind,
        tokens: usize,
        depth: usize,
        mut once: impl FnMut(&mut Bench) -> Outcome<Run>,
    ) -> Outcome<Measured> {
        let mut seconds = Vec::new();
        let (mut finite, mut repeatable, mut hash, mut quarters) = (true, true, None, None);
        let (started, mut warmed) = (Instant::now(), 0);
        while seconds.len() < self.repeats {
            let warm = warmed < self.warm_up || self.warm_up > 0 && started.elapsed() < CLOCKS;
            let run = once(self)?;
            finite &= !run.logits.is_empty() && run.logits.iter().all(|v| v.is_finite());
            let this = fingerprint(&run);
            repeatable &= *hash.get_or_insert(this) == this;
            if warm {
                warmed += 1;
            } else {
                seconds.push(run.seconds);
                quarters = run.quarters;
            }
        }
        Ok(Measured {
            kind,
            tokens,
            depth,
            seconds,
            finite,
            repeatable,
            hash: hash.unwrap_or_default(),
            quarters,
        })
    }

    /// Leaves exactly `tokens` in the sequence.
    fn fill(&mut self, tokens: &[u32]) -> Outcome {
        let common = self.sequence.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.sequence.truncate(common);
        let have = self.sequence.len(); // 0 where a recurrent state cannot be cut
        self.engine.forward(&mut self.sequence, &tokens[have..], Want::None)?;
        Ok(())
    }
}

/// The first `n` tokens of an endless text: ordinary tokens in an order without pattern, the same for a model each time.
pub fn text(engine: &Engine, n: usize) -> Vec<u32> {
    let vocab = u64::from(engine.summary().vocab);
    let tokenizer = engine.tokenizer().ok();
    let ordinary = |id: &u32| tokenizer.is_none_or(|t| !t.is_control(*id));
    let mut state = 1u64;
    let ids = std::iter::from_fn(|| {
        // The generator of Knuth's MMIX; its upper bits are good enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(((state >> 33) % vocab) as u32)
    });
    // A vocabulary of control tokens alone would never yield one; then they serve too.
    let plain: Vec<u32> = ids.take(16 * n + 64).collect();
    let text: Vec<u32> = plain.iter().copied().filter(ordinary).take(n).collect();
    if text.len() == n { text } else { plain[..n].to_vec() }
}

/// Tokens a second in each quarter, from the times of the tokens.
fn quarters(times: &[Instant]) -> Option<[f64; 4]> {
    let steps = times.len().checked_sub(1).filter(|&n| n >= QUARTERED)?;
    Some(std::array::from_fn(|q| {
        let (from, to) = (q * steps / 4, (q + 1) * steps / 4);
        (to - from) as f64 / (times[to] - times[from]).as_secs_f64().max(1e-9)
    }))
}

fn fingerprint(run: &Run) -> u64 {
    fnv(run.logits.iter().map(|v| v.to_bits()).chain(run.tokens.iter().copied()))
}

/// FNV-1a (64 bits) over the bytes of words.
pub fn fnv(words: impl Iterator<Item = u32>) -> u64 {
    words
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(middle(&[]), 0.0);
        assert_eq!(middle(&[1.0, 5.0, 9.0]), 5.0);
        assert_eq!(middle(&[1.0, 5.0, 6.0, 9.0]), 5.5);
    }
}
