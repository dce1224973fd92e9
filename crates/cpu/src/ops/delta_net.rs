//! `Conv`, `DeltaNet`: operations whose rows depend on the rows before them.

use super::elementwise::sigmoid;
use crate::parallel::{for_each_row, rows_from};
use crate::simd::delta_step;
use crate::values::View;
use rayon::prelude::*;
use zinc_plan::{HeadOrder, StateSpec};

/// Causal convolution of each channel, then SiLU. A state holds its sequence's last `taps − 1` rows, oldest first.
///
/// `by_sequence` lists each sequence's rows in order of position; `weight` has the taps of a channel side by side, oldest first.
pub(crate) fn conv(x: View, weight: &[f32], by_sequence: &[Vec<usize>], states: &mut [Vec<f32>]) -> Vec<f32> {
    let (channels, taps) = (x.width, weight.len() / x.width);
    let before = taps - 1;
    // Where each row stands in its sequence's part of the batch.
    let mut places = vec![(0, 0); x.rows];
    for (sequence, rows) in by_sequence.iter().enumerate() {
        rows.iter().enumerate().for_each(|(i, &row)| places[row] = (sequence, i));
    }
    // Row `i` of the state's rows followed by the batch's.
    let history = |states: &[Vec<f32>], sequence: usize, i: usize| -> Vec<f32> {
        match i.checked_sub(before) {
            None => states[sequence][i * channels..][..channels].to_vec(),
            Some(i) => x.row(by_sequence[sequence][i]).to_vec(),
        }
    };
    let out = rows_from(x.rows, channels, |row, out| {
        let (sequence, i) = places[row];
        for tap in 0..taps {
            let x = history(states, sequence, i + tap);
            out.iter_mut()
                .zip(&x)
                .zip(weight[tap..].iter().step_by(taps))
                .for_each(|((y, x), w)| *y += w * x);
        }
        out.iter_mut().for_each(|y| *y *= sigmoid(*y));
    });
    for (sequence, rows) in by_sequence.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let last = (rows.len()..rows.len() + before).flat_map(|i| history(states, sequence, i));
        states[sequence] = last.collect();
    }
    out
}

/// What a delta net reads.
pub(crate) struct DeltaInputs<'a> {
    pub(crate) q: View<'a>,
    pub(crate) k: View<'a>,
    pub(crate) v: View<'a>,
    pub(crate) alpha: View<'a>,
    pub(crate) beta: View<'a>,
    pub(crate) dt_bias: &'a [f32],
    pub(crate) a: &'a [f32],
}

/// The gated delta rule, value head by value head, row after row.
pub(crate) fn delta_net(
    x: &DeltaInputs,
    spec: StateSpec,
    order: HeadOrder,
    by_sequence: &[Vec<usize>],
    states: &mut [Vec<f32>],
) -> Vec<f32> {
    let StateSpec::DeltaNet { heads, key_size, value_size, key_heads } = spec else {
        unreachable!("a checked plan gives a delta net the state of one");
    };
    let (heads, key_heads) = (heads as usize, key_heads as usize);
    let (key_size, value_size) = (key_size as usize, value_size as usize);
    let mut out = vec![0.0; x.v.rows * heads * value_size];
    for (rows, state) in by_sequence.iter().zip(states).filter(|(rows, _)| !rows.is_empty()) {
        // By head, then by row.
        let mut by_head = vec![0.0; rows.len() * heads * value_size];
        let per_head = by_head.par_chunks_exact_mut(rows.len() * value_size);
        let tasks = per_head.zip(state.par_chunks_exact_mut(key_size * value_size)).enumerate();
        tasks.for_each(|(head, (out, state))| {
            let key_head = match order {
                HeadOrder::Tiled => head % key_heads,
                HeadOrder::Grouped => head / (heads / key_heads),
            };
            for (&row, out) in rows.iter().zip(out.chunks_exact_mut(value_size)) {
                let key =
                    |c: View<'_>| -> Vec<f32> { c.row(row)[key_head * key_size..][..key_size].to_vec() };
                let v = &x.v.row(row)[head * value_size..][..value_size];
                let decay = (softplus(x.alpha.row(row)[head] + x.dt_bias[head]) * x.a[head]).exp();
                let rate = sigmoid(x.beta.row(row)[head]);
                delta_step(state, (&key(x.q), &key(x.k), v), decay, rate, out);
            }
        });
        for (i, &row) in rows.iter().enumerate() {
            let out = &mut out[row * heads * value_size..][..heads * value_size];
            for_each_row(out, value_size, |head, y| {
                y.copy_from_slice(&by_head[(head * rows.len() + i) * value_size..][..value_size]);
            });
        }
    }
    out
}

/// `ln(1 + eˣ)`, without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
