//! Scalar oracles of the recurrent operations on the rows of one sequence, in f64.

use super::delta_net::Shape;

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Causal convolution and SiLU. `rows` continue what `state` (`taps − 1` rows, oldest first) holds; `weight` is `[channels][taps]`.
pub fn conv(rows: &[&[f32]], weight: &[f32], taps: usize, state: &mut Vec<f32>) -> Vec<Vec<f32>> {
    let channels = weight.len() / taps;
    let mut inputs: Vec<Vec<f32>> = state.chunks_exact(channels).map(<[f32]>::to_vec).collect();
    inputs.extend(rows.iter().map(|r| r.to_vec()));
    let out = |i: usize| {
        let sum = |c: usize| {
            let tap = |t: usize| f64::from(weight[c * taps + t]) * f64::from(inputs[i + t][c]);
            silu((0..taps).map(tap).sum()) as f32
        };
        (0..channels).map(sum).collect()
    };
    let outputs = (0..rows.len()).map(out).collect();
    *state = inputs[rows.len()..].concat();
    outputs
}

/// What a delta net reads of a row.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Query heads.
    pub q: &'a [f32],
    /// Key heads.
    pub k: &'a [f32],
    /// Value heads.
    pub v: &'a [f32],
    /// By value head.
    pub alpha: &'a [f32],
    /// By value head.
    pub beta: &'a [f32],
}

/// The gated delta rule, row after row; `state` is `[head][value][key]`.
pub fn delta_net(
    rows: &[Inputs<'_>],
    dt_bias: &[f32],
    a: &[f32],
    shape: &Shape,
    state: &mut [f64],
) -> Vec<Vec<f32>> {
    let [heads, key_heads, keys, values] =
        [shape.heads, shape.key_heads, shape.key_size, shape.value_size].map(|n| n as usize);
    let dot = |s: &[f64], x: &[f32]| s.iter().zip(x).map(|(s, &x)| s * f64::from(x)).sum::<f64>();
    let mut outputs = vec![vec![0.0; heads * values]; rows.len()];
    for (row, out) in rows.iter().zip(&mut outputs) {
        for head in 0..heads {
            let key_head = if shape.grouped { head / (heads / key_heads) } else { head % key_heads };
            let (q, k) = (&row.q[key_head * keys..][..keys], &row.k[key_head * keys..][..keys]);
            let softplus = (f64::from(row.alpha[head]) + f64::from(dt_bias[head])).exp().ln_1p();
            let decay = (softplus * f64::from(a[head])).exp();
            let rate = 1.0 / (1.0 + (-f64::from(row.beta[head])).exp());
            for value in head * values..(head + 1) * values {
                let s = &mut state[value * keys..][..keys];
                s.iter_mut().for_each(|s| *s *= decay);
                let d = rate * (f64::from(row.v[value]) - dot(s, k));
                s.iter_mut().zip(k).for_each(|(s, &k)| *s += d * f64::from(k));
                out[value] = dot(s, q) as f32;
            }
        }
    }
    outputs
}
