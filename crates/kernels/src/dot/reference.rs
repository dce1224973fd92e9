//! The products in f64, and how far rounded activations may be from them.

use crate::gemv::reference::product;
use zinc_quant::FormatRef;
use zinc_testkit::tolerance;

/// A weight row's product with a column, and how far the kernel's may be from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    /// Σ w·x.
    pub value: f64,
    /// The largest error: [`tolerance::DOT_STEP`] of a step of x for each |w|, and what f32 sums may be off.
    pub error: f64,
}

/// Products of every row of `weights` (rows in file layout) with every column, x rounded to `bytes` bytes: column by column.
pub fn bounded(
    format: FormatRef,
    weights: &[u8],
    k: usize,
    columns: &[&[f32]],
    bytes: u32,
) -> Vec<Vec<Bounded>> {
    let limit = if bytes == 1 { 127.0 } else { 32639.0 };
    let steps: Vec<Vec<f64>> = columns
        .iter()
        .map(|x| {
            x.chunks(32).map(|b| f64::from(b.iter().fold(0f32, |m, v| m.max(v.abs()))) / limit).collect()
        })
        .collect();
    let mut row = vec![0.0f32; k];
    let rows: Vec<Vec<f64>> = weights
        .chunks_exact(format.row_bytes(k))
        .map(|bytes| {
            format.decode_row(bytes, &mut row);
            row.chunks(32).map(|b| b.iter().map(|w| f64::from(w.abs())).sum()).collect()
        })
        .collect();
    let exact = product(format, weights, k, columns);
    let of_column = |(products, steps): (Vec<crate::gemv::reference::Product>, &Vec<f64>)| {
        let bound = |(p, sums): (crate::gemv::reference::Product, &Vec<f64>)| {
            let half_steps: f64 = sums.iter().zip(steps).map(|(w, step)| w * step).sum();
            Bounded {
                value: p.value,
                error: tolerance::DOT_STEP * half_steps + tolerance::PRODUCT_REL * p.magnitude,
            }
        };
        products.into_iter().zip(&rows).map(bound).collect()
    };
    exact.into_iter().zip(&steps).map(of_column).collect()
}
