//! Scalar oracles.

use super::adjust::{Entry, Penalties};
use super::argmax::NO_TOKEN;
use super::top_k::TopK;
use crate::suite::Host;

/// Indices in order: larger first, equal ones by index, NaN last.
fn order(row: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    let key = |i: &u32| row[*i as usize];
    order.sort_by(|a, b| {
        let (x, y) = (key(a), key(b));
        y.partial_cmp(&x).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan())).then(a.cmp(b))
    });
    order
}

/// Index of the largest element, if there is any number.
pub fn argmax(row: &[f32]) -> u32 {
    let best = order(row)[0];
    if row[best as usize] > f32::NEG_INFINITY { best } else { NO_TOKEN }
}

/// The `k` largest.
pub fn top_k(row: &[f32], k: usize) -> TopK {
    let value = |i: u32| if row[i as usize].is_nan() { f32::NEG_INFINITY } else { row[i as usize] };
    let candidates: Vec<(u32, f32)> = order(row).into_iter().take(k).map(|i| (i, value(i))).collect();
    let max = candidates[0].1;
    let sum: f64 = (row.iter().filter(|v| **v > f32::NEG_INFINITY))
        .map(|&v| (f64::from(v) - f64::from(max)).exp())
        .sum();
    let log_sum_exp = if sum > 0.0 { (f64::from(max) + sum.ln()) as f32 } else { f32::NEG_INFINITY };
    TopK { max, log_sum_exp, candidates }
}

/// Bias, then penalties.
pub fn adjust(logits: &mut Host, entries: &[Entry], penalties: &[Penalties]) {
    for e in entries {
        let (row, token) = (e.row as usize, e.token as usize);
        if token >= logits.width || row >= penalties.len() {
            continue;
        }
        let p = penalties[row];
        let logit = &mut logits.data[row * logits.width + token];
        *logit += e.bias;
        if e.seen > 0 {
            *logit = if *logit > 0.0 { *logit / p.repetition } else { *logit * p.repetition };
            *logit = *logit - p.presence - p.frequency * e.seen as f32;
        }
    }
}
