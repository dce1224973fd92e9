//! Scalar oracles in f64.

use crate::suite::Host;
use zinc_plan::Activation;

/// `f` of each element and its column and row.
pub fn map(x: &Host, f: impl Fn(f64, usize, usize) -> f64) -> Host {
    let apply = |(i, &v): (usize, &f32)| f(f64::from(v), i / x.width, i % x.width) as f32;
    Host { width: x.width, data: x.data.iter().enumerate().map(apply).collect() }
}

/// `1 / (1 + e^−x)`.
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `cap · tanh(x / cap)`.
pub fn softcap(x: &Host, cap: f32) -> Host {
    map(x, |v, _, _| f64::from(cap) * (v / f64::from(cap)).tanh())
}

/// See [`Activation`].
pub fn activate(kind: Activation, gate: &Host, up: &Host) -> Host {
    map(gate, |g, row, column| {
        let u = f64::from(up.data[row * up.width + column]);
        match kind {
            Activation::SwiGlu => g * sigmoid(g) * u,
            Activation::GeGlu => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3));
                0.5 * g * (1.0 + inner.tanh()) * u
            }
            Activation::OaiSwiGlu { alpha, limit } => {
                let (alpha, limit) = (f64::from(alpha), f64::from(limit));
                let g = g.min(limit);
                g * sigmoid(alpha * g) * (u.clamp(-limit, limit) + 1.0)
            }
        }
    })
}

/// `x · sigmoid(gate)`; `gate` is as wide as `x` or has one column.
pub fn sigmoid_gate(x: &Host, gate: &Host) -> Host {
    map(x, |v, row, column| v * sigmoid(f64::from(gate.data[row * gate.width + column.min(gate.width - 1)])))
}

/// `len` columns from `first` of each `stride`.
pub fn slice(x: &Host, stride: usize, first: usize, len: usize) -> Host {
    let data: Vec<f32> =
        x.data.chunks_exact(stride).flat_map(|part| &part[first..first + len]).copied().collect();
    Host { width: x.width / stride * len, data }
}
