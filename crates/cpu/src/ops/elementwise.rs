//! `Add`, `AddBias`, `Scale`, `Softcap`, `Activate`, `SigmoidGate`, `Slice`.

use crate::parallel::rows_from;
use crate::values::View;
use zinc_plan::{Activation, Scalar, WeightId};

/// `a + b`.
pub(crate) fn add(a: View, b: View) -> Vec<f32> {
    zip(a, b, |a, b| a + b)
}

/// `x + bias`.
pub(crate) fn add_bias(x: View, bias: &[f32]) -> Vec<f32> {
    rows_from(x.rows, x.width, |row, out| {
        out.iter_mut().zip(x.row(row)).zip(bias).for_each(|((y, x), b)| *y = x + b);
    })
}

/// `x · by`.
pub(crate) fn scale(x: View, by: f32) -> Vec<f32> {
    map(x, |x| x * by)
}

/// The value of a factor.
pub(crate) fn scalar<'a>(by: Scalar, vector: impl Fn(WeightId) -> &'a [f32]) -> f32 {
    match by {
        Scalar::Const(value) => value,
        Scalar::Weight(id) => vector(id)[0],
    }
}

/// `cap · tanh(x / cap)`.
pub(crate) fn softcap(x: View, cap: f32) -> Vec<f32> {
    map(x, |x| cap * (x / cap).tanh())
}

/// `f(gate) · g(up)`.
pub(crate) fn activate(kind: Activation, gate: View, up: View) -> Vec<f32> {
    match kind {
        Activation::SwiGlu => zip(gate, up, |g, u| g * sigmoid(g) * u),
        Activation::GeGlu => zip(gate, up, |g, u| gelu_tanh(g) * u),
        Activation::OaiSwiGlu { alpha, limit } => zip(gate, up, |g, u| {
            let (g, u) = (g.min(limit), u.clamp(-limit, limit));
            g * sigmoid(alpha * g) * (u + 1.0)
        }),
    }
}

/// `x · sigmoid(gate)`; a gate of one column counts for all of `x`.
pub(crate) fn sigmoid_gate(x: View, gate: View) -> Vec<f32> {
    if gate.width == x.width {
        return zip(x, gate, |x, g| x * sigmoid(g));
    }
    rows_from(x.rows, x.width, |row, out| {
        let factor = sigmoid(gate.row(row)[0]);
        out.iter_mut().zip(x.row(row)).for_each(|(y, x)| *y = x * factor);
    })
}

/// `len` columns from `first` of each `stride` columns.
pub(crate) fn slice(x: View, stride: usize, first: usize, len: usize) -> Vec<f32> {
    rows_from(x.rows, x.width / stride * len, |row, out| {
        for (y, x) in out.chunks_exact_mut(len).zip(x.row(row).chunks_exact(stride)) {
            y.copy_from_slice(&x[first..first + len]);
        }
    })
}

pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)).tanh())
}

fn map(x: View, f: impl Fn(f32) -> f32 + Sync + Send) -> Vec<f32> {
    rows_from(x.rows, x.width, |row, out| {
        out.iter_mut().zip(x.row(row)).for_each(|(y, &x)| *y = f(x));
    })
}

fn zip(a: View, b: View, f: impl Fn(f32, f32) -> f32 + Sync + Send) -> Vec<f32> {
    rows_from(a.rows, a.width, |row, out| {
        out.iter_mut().zip(a.row(row)).zip(b.row(row)).for_each(|((y, &a), &b)| *y = f(a, b));
    })
}
