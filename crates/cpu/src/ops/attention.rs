//! `Attention`.

use crate::sequence::Kv;
use crate::simd;
use crate::values::View;
use rayon::prelude::*;
use zinc_plan::{KvSpec, Row};

/// What is the same for all rows.
pub(crate) struct AttentionRule<'a> {
    pub(crate) spec: KvSpec,
    /// Query heads.
    pub(crate) heads: usize,
    pub(crate) scale: f32,
    pub(crate) softcap: Option<f32>,
    /// One more logit a query head.
    pub(crate) sinks: Option<&'a [f32]>,
}

/// Softmax attention of each row over its sequence's cache, up to its own position and within the window.
pub(crate) fn attention<'a>(
    q: View,
    rows: &[Row],
    cache: impl Fn(&Row) -> &'a Kv + Sync,
    rule: &AttentionRule,
) -> Vec<f32> {
    let (heads, value_size) = (rule.heads, rule.spec.value_size as usize);
    let mut out = vec![0.0; rows.len() * heads * value_size];
    out.par_chunks_exact_mut(value_size).enumerate().for_each_init(Vec::new, |scores, (i, out)| {
        let (row, head) = (i / heads, i % heads);
        let q = &q.row(row)[head * rule.spec.key_size as usize..][..rule.spec.key_size as usize];
        attend(q, head, rows[row].position as usize, cache(&rows[row]), rule, scores, out);
    });
    out
}

/// One query head of one row; `scores` is scratch.
fn attend(
    q: &[f32],
    head: usize,
    position: usize,
    kv: &Kv,
    rule: &AttentionRule,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let start = rule.spec.window.map_or(0, |window| (position + 1).saturating_sub(window as usize));
    let kv_head = head / (rule.heads / rule.spec.heads as usize);
    let keys = &kv.keys[start * kv.key_width + kv_head * q.len()..];
    let values = &kv.values[start * kv.value_width + kv_head * out.len()..];

    scores.clear();
    scores.resize(position + 1 - start, 0.0);
    simd::scores(q, keys, kv.key_width, scores);
    for s in scores.iter_mut() {
        *s *= rule.scale;
        if let Some(cap) = rule.softcap {
            *s = cap * (*s / cap).tanh();
        }
    }
    let sink = rule.sinks.map(|sinks| sinks[head]);
    let max = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|s| *s = (*s - max).exp());
    let sum: f32 = scores.iter().sum::<f32>() + sink.map_or(0.0, |s| (s - max).exp());
    scores.iter_mut().for_each(|s| *s /= sum);
    simd::weighted_sum(scores, values, kv.value_width, out);
}
