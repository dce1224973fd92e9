//! The filters and the draw, on a sorted list of tokens that may be the head of a longer list.
//!
//! Everything runs on [`Head`], once for a full row and once for the candidates that a GPU returned. A step that would need to
//! know what lies beyond the head answers `None`; it never guesses.

use super::SamplingOptions;

/// The most likely tokens of a row, in order of falling logit (equal logits: lower id first).
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub tokens: Vec<(u32, f32)>,
    /// What lies beyond; `None` where the head is all there is.
    pub beyond: Option<Beyond>,
}

/// What is known of the tokens after the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beyond {
    /// No logit beyond the head is larger.
    pub floor: f32,
    /// log Σ exp over the whole row, the head included; `None` where it is not known.
    pub log_sum_exp: Option<f64>,
}

/// A cumulated probability nearer than this to a threshold is not decided by a log-sum-exp that was summed in f32.
const CLEAR: f64 = 1e-4;

/// Orders tokens by falling logit, then by id; NaN counts as −∞.
pub(super) fn by_logit(a: &(u32, f32), b: &(u32, f32)) -> std::cmp::Ordering {
    let key = |v: f32| if v.is_nan() { f32::NEG_INFINITY } else { v };
    key(b.1).total_cmp(&key(a.1)).then(a.0.cmp(&b.0))
}

/// Filters the head and draws with `u` in [0, 1): the token, or `None` where the head does not suffice.
pub(super) fn choose(mut head: Head, o: &SamplingOptions, u: f64) -> Option<u32> {
    if o.greedy() {
        return head.tokens.first().map(|t| t.0);
    }
    top_k(&mut head, o.top_k as usize)?;
    typical(&mut head, f64::from(o.typical_p))?;
    top_p(&mut head, f64::from(o.top_p))?;
    min_p(&mut head, f64::from(o.min_p))?;
    draw(&head, f64::from(o.temperature), u)
}

impl Head {
    /// exp(logit − largest logit) of each token.
    fn weights(&self, temperature: f64) -> Vec<f64> {
        let max = f64::from(self.tokens[0].1);
        self.tokens.iter().map(|t| ((f64::from(t.1) - max) / temperature).exp()).collect()
    }

    /// The sum of the weights of the whole row at temperature 1, in units of the largest.
    fn total(&self, weights: &[f64]) -> Option<f64> {
        match self.beyond {
            None => Some(weights.iter().sum()),
            Some(b) => b.log_sum_exp.map(|lse| (lse - f64::from(self.tokens[0].1)).exp()),
        }
    }
}

pub(super) fn top_k(head: &mut Head, k: usize) -> Option<()> {
    if k == 0 || (head.tokens.len() <= k && head.beyond.is_none()) {
        return Some(());
    }
    if head.tokens.len() < k {
        return None;
    }
    head.tokens.truncate(k);
    head.beyond = None;
    Some(())
}

pub(super) fn typical(head: &mut Head, p: f64) -> Option<()> {
    if p >= 1.0 {
        return Some(());
    }
    if head.beyond.is_some() {
        return None; // the entropy is that of the whole row
    }
    let weights = head.weights(1.0);
    let total: f64 = weights.iter().sum();
    let log_total = total.ln();
    let max = f64::from(head.tokens[0].1);
    let information = |logit: f32| log_total - (f64::from(logit) - max);
    let entropy: f64 = head
        .tokens
        .iter()
        .zip(&weights)
        .filter(|(_, w)| **w > 0.0)
        .map(|(t, w)| w / total * information(t.1))
        .sum();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let distance = |i: usize| (information(head.tokens[i].1) - entropy).abs();
    order.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)).then(a.cmp(&b)));
    let mut sum = 0.0;
    let kept = order.iter().position(|&i| {
        sum += weights[i] / total;
        sum >= p
    });
    order.truncate(kept.map_or(order.len(), |n| n + 1));
    order.sort_unstable(); // back to falling logits
    head.tokens = order.into_iter().map(|i| head.tokens[i]).collect();
    Some(())
}

pub(super) fn top_p(head: &mut Head, p: f64) -> Option<()> {
    if p >= 1.0 {
        return Some(());
    }
    let weights = head.weights(1.0);
    let total = head.total(&weights)?;
    let mut sum = 0.0;
    for (i, w) in weights.iter().enumerate() {
        sum += w / total;
        if head.beyond.is_some() && (sum - p).abs() < CLEAR {
            return None;
        }
        if sum >= p {
            head.tokens.truncate(i + 1);
            head.beyond = None;
            return Some(());
        }
    }
    // A whole row may stay below p by rounding: it is kept. A head needs more tokens.
    head.beyond.is_none().then_some(())
}

pub(super) fn min_p(head: &mut Head, p: f64) -> Option<()> {
    if p <= 0.0 {
        return Some(());
    }
    let threshold = f64::from(head.tokens[0].1) + p.ln();
    if head.beyond.is_some_and(|b| f64::from(b.floor) >= threshold) {
        return None;
    }
    let kept = head.tokens.iter().take_while(|t| f64::from(t.1) >= threshold).count();
    head.tokens.truncate(kept.max(1));
    head.beyond = None;
    Some(())
}

fn draw(head: &Head, temperature: f64, u: f64) -> Option<u32> {
    let weights = head.weights(temperature);
    let open = head.beyond.is_some();
    if open && temperature != 1.0 {
        return None; // the log-sum-exp is that of temperature 1
    }
    let total = head.total(&weights)?;
    let mut sum = 0.0;
    for (token, w) in head.tokens.iter().zip(&weights) {
        sum += w / total;
        if open && (sum - u).abs() < CLEAR {
            return None;
        }
        if u < sum {
            return Some(token.0);
        }
    }
    // Rounding can leave the sum of a whole row a little below 1.
    if open {
        None
    } else {
        head.tokens.iter().zip(&weights).rev().find(|(_, w)| **w > 0.0).map(|(t, _)| t.0)
    }
}
