//! Choosing the next token from logits: a full row, or the candidates that a GPU returned where they decide it beyond doubt.

mod filters;
mod options;
mod rng;
#[cfg(test)]
mod tests;

use filters::{Beyond, Head, by_logit, choose};
pub use options::SamplingOptions;
use rng::SplitMix64;
use std::collections::BTreeMap;

/// The most likely tokens of a row and what is known of the rest, as the GPU's top-k returns them.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    /// Token and logit in order of falling logit, equal logits in order of id.
    pub tokens: Vec<(u32, f32)>,
    /// log Σ exp of the whole row of logits.
    pub log_sum_exp: f64,
    /// Elements of the row.
    pub vocab: usize,
}

impl Candidates {
    /// The `k` best of a row, on the CPU.
    pub fn of_row(logits: &[f32], k: usize) -> Candidates {
        let mut tokens: Vec<(u32, f32)> = logits.iter().enumerate().map(|(i, &l)| (i as u32, l)).collect();
        if k < tokens.len() {
            tokens.select_nth_unstable_by(k, by_logit);
            tokens.truncate(k);
        }
        tokens.sort_unstable_by(by_logit);
        let max = tokens.first().map_or(0.0, |t| f64::from(t.1));
        let sum: f64 = logits.iter().map(|&l| (f64::from(l) - max).exp()).filter(|w| !w.is_nan()).sum();
        Candidates { tokens, log_sum_exp: max + sum.ln(), vocab: logits.len() }
    }
}

/// A row of logits without a finite value: the model or a kernel is broken, and no token is a sensible answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the logits hold no finite value\nhint: `zinc check --ops` tests the kernels on this device")]
pub struct NotFinite;

/// Options, the state of the draws, and the tokens seen so far.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplingOptions,
    rng: SplitMix64,
    seen: Vec<u32>,
    /// Drawn for a choice that the candidates did not decide: the full row takes the same draw.
    pending: Option<f64>,
}

/// Candidates that a full row is first reduced to; most choices need no more, and sorting 150,000 logits takes milliseconds.
const FIRST_LOOK: usize = 256;

impl Sampler {
    /// A sampler at the start of its draws. The options must have passed [`SamplingOptions::check`].
    pub fn new(options: SamplingOptions) -> Sampler {
        let rng = SplitMix64::new(options.seed);
        Sampler { options, rng, seen: Vec::new(), pending: None }
    }

    /// The options.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// Notes tokens for the penalties: those of the prompt and every chosen one.
    pub fn accept(&mut self, tokens: &[u32]) {
        if self.options.penalises() {
            self.seen.extend_from_slice(tokens);
        }
    }

    /// Chooses from candidates; `None` where only the full row decides ([`Sampler::sample`] then takes the same draw).
    pub fn sample_candidates(&mut self, candidates: &Candidates) -> Option<u32> {
        let u = self.take_draw();
        let chosen = self.adjusted_head(candidates).and_then(|head| choose(head, &self.options, u));
        if chosen.is_none() {
            self.pending = Some(u);
        }
        chosen
    }

    /// Chooses from a full row of logits.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, NotFinite> {
        let u = self.take_draw();
        let mut row = logits.to_vec();
        for (token, change) in self.adjustments() {
            if let Some(l) = row.get_mut(token as usize) {
                *l = change.apply(*l, &self.options);
            }
        }
        let first = Candidates::of_row(&row, FIRST_LOOK);
        if first.tokens.first().is_none_or(|t| !t.1.is_finite()) {
            return Err(NotFinite);
        }
        // The row is adjusted already, so its head is taken as it is.
        if let Some(token) = choose(head_of(&first), &self.options, u) {
            return Ok(token);
        }
        let all = Candidates::of_row(&row, row.len());
        choose(Head { tokens: all.tokens, beyond: None }, &self.options, u).ok_or(NotFinite)
    }

    fn take_draw(&mut self) -> f64 {
        match self.pending.take() {
            Some(u) => u,
            None if self.options.greedy() => 0.0,
            None => self.rng.uniform(),
        }
    }

    /// Applies bias and penalties to candidates. What lies beyond them must then be at most as likely as before, and candidates
    /// that fell to the level of the unknown are dropped.
    fn adjusted_head(&self, candidates: &Candidates) -> Option<Head> {
        let mut head = head_of(candidates);
        if head.tokens.first().is_none_or(|t| !t.1.is_finite()) {
            return None;
        }
        let adjustments = self.adjustments();
        if adjustments.is_empty() {
            return Some(head);
        }
        for (token, change) in adjustments {
            match head.tokens.iter_mut().find(|t| t.0 == token) {
                Some(t) => t.1 = change.apply(t.1, &self.options),
                None if head.beyond.is_some() && change.may_raise(&self.options) => return None,
                None => {}
            }
        }
        head.tokens.sort_unstable_by(by_logit);
        if let Some(beyond) = &mut head.beyond {
            beyond.log_sum_exp = None;
            let floor = beyond.floor;
            head.tokens.retain(|t| t.1 > floor);
        }
        let sensible = head.tokens.first().is_some_and(|t| t.1.is_finite());
        sensible.then_some(head)
    }

    /// The changes to single logits, each token once.
    fn adjustments(&self) -> Vec<(u32, Change)> {
        let o = &self.options;
        let mut changes: BTreeMap<u32, Change> = BTreeMap::new();
        for &(token, bias) in &o.logit_bias {
            changes.entry(token).or_default().bias += bias;
        }
        if o.penalises() {
            let window = if o.penalty_window == 0 { self.seen.len() } else { o.penalty_window as usize };
            for &token in &self.seen[self.seen.len().saturating_sub(window)..] {
                changes.entry(token).or_default().seen += 1;
            }
        }
        changes.into_iter().collect()
    }
}

/// The candidates before any change to them.
fn head_of(c: &Candidates) -> Head {
    let beyond = (c.tokens.len() < c.vocab).then(|| Beyond {
        floor: c.tokens.last().map_or(f32::INFINITY, |t| t.1),
        log_sum_exp: Some(c.log_sum_exp),
    });
    Head { tokens: c.tokens.clone(), beyond }
}

/// What changes a logit: bias first, then the repetition factor, then the subtractions.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    bias: f32,
    /// How often the token was seen.
    seen: u32,
}

impl Change {
    fn apply(self, logit: f32, o: &SamplingOptions) -> f32 {
        let l = logit + self.bias;
        if self.seen == 0 {
            return l;
        }
        let l = if l > 0.0 { l / o.repetition_penalty } else { l * o.repetition_penalty };
        l - o.presence_penalty - o.frequency_penalty * self.seen as f32
    }

    fn may_raise(self, o: &SamplingOptions) -> bool {
        let seen = self.seen > 0
            && (o.repetition_penalty < 1.0 || o.presence_penalty < 0.0 || o.frequency_penalty < 0.0);
        self.bias > 0.0 || seen
    }
}
