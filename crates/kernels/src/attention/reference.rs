//! Scalar oracle of attention in f64.

use crate::RowInfo;
use crate::kv::reference::HostCache;
use crate::suite::Host;

/// The rules of a layer; see `attention::Args`.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Query heads.
    pub heads: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Soft cap of the scores.
    pub softcap: Option<f32>,
    /// Window.
    pub window: Option<u32>,
    /// A sink a head.
    pub sinks: Option<Vec<f32>>,
}

/// A paged cache with its table.
#[derive(Debug, Clone)]
pub struct Paged {
    /// Keys.
    pub k: HostCache,
    /// Values.
    pub v: HostCache,
    /// `max_pages` page numbers a sequence.
    pub pages: Vec<u32>,
    /// Entries a sequence.
    pub max_pages: usize,
}

/// Attention of each row over its sequence.
pub fn attention(q: &Host, cache: &Paged, rules: &Rules, rows: &[RowInfo]) -> Host {
    let mut data = Vec::with_capacity(rows.len() * rules.heads * cache.v.size);
    for (q, &row) in q.rows().zip(rows) {
        for (head, q) in q.chunks_exact(cache.k.size).enumerate() {
            data.extend(one_head(q, head, cache, rules, row));
        }
    }
    Host { width: rules.heads * cache.v.size, data }
}

fn one_head(q: &[f32], head: usize, cache: &Paged, rules: &Rules, row: RowInfo) -> Vec<f32> {
    let kv_head = head / (rules.heads / cache.k.kv_heads);
    let first = rules.window.map_or(0, |w| (row.position + 1).saturating_sub(w));
    let at = |of: &HostCache, position: u32| {
        of.index(&cache.pages, cache.max_pages, row.sequence, position, kv_head)
    };
    let score = |position: u32| {
        let k = &cache.k.data[at(&cache.k, position)..];
        let dot: f64 = q.iter().zip(k).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        let s = dot * f64::from(rules.scale);
        rules.softcap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh())
    };
    let scores: Vec<(u32, f64)> = (first..=row.position).map(|p| (p, score(p))).collect();
    let sink = rules.sinks.as_ref().map(|s| f64::from(s[head]));
    let maximum = scores.iter().map(|s| s.1).chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let mut sum = sink.map_or(0.0, |s| (s - maximum).exp());
    let mut out = vec![0.0f64; cache.v.size];
    for (position, s) in scores {
        let weight = (s - maximum).exp();
        sum += weight;
        for (o, &v) in out.iter_mut().zip(&cache.v.data[at(&cache.v, position)..]) {
            *o += weight * f64::from(v);
        }
    }
    out.into_iter().map(|o| (o / sum) as f32).collect()
}
