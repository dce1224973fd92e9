//! The scalar oracle: rows decoded by `quant`, sums in f64.

use super::Gate;
use zinc_quant::FormatRef;

/// A weight row's product with a column, and Σ|w·x|, against which errors are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// Σ w·x.
    pub value: f64,
    /// Σ |w·x|.
    pub magnitude: f64,
}

/// Products of every row of `weights` (rows in file layout) with every column: column by column.
pub fn product(format: FormatRef, weights: &[u8], k: usize, columns: &[&[f32]]) -> Vec<Vec<Product>> {
    let mut row = vec![0.0f32; k];
    let mut all: Vec<Vec<Product>> = vec![Vec::new(); columns.len()];
    for bytes in weights.chunks_exact(format.row_bytes(k)) {
        format.decode_row(bytes, &mut row);
        for (column, results) in columns.iter().zip(&mut all) {
            let terms = || row.iter().zip(*column).map(|(&w, &x)| f64::from(w) * f64::from(x));
            results.push(Product { value: terms().sum(), magnitude: terms().map(f64::abs).sum() });
        }
    }
    all
}

/// act(gate)·up in f64.
pub fn gated(kind: Gate, gate: f64, up: f64) -> f64 {
    match kind {
        Gate::OaiSwiGlu { alpha, limit } => {
            let (alpha, limit) = (f64::from(alpha), f64::from(limit));
            let (g, u) = (gate.min(limit), up.clamp(-limit, limit));
            g / (1.0 + (-alpha * g).exp()) * (u + 1.0)
        }
        Gate::SwiGlu => gate / (1.0 + (-gate).exp()) * up,
        Gate::GeGlu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
            gate / 2.0 * (1.0 + inner.tanh()) * up
        }
    }
}
