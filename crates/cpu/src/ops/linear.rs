//! `Linear`: products of weight rows with activations.

use crate::simd::{TILE_ROWS, products};
use crate::values::View;
use crate::weights::Matrix;
use rayon::prelude::*;

/// Vectors that are multiplied with a decoded row while they stay in the second-level cache.
const COLUMNS: usize = 64;
/// Multiplications that are worth handing to another core.
const TASK: usize = 64 * 1024;

/// `out[row][m] = weight[m] · x[row]`.
pub(crate) fn linear(x: View, weight: Matrix) -> Vec<f32> {
    let columns: Vec<&[f32]> = (0..x.rows).map(|row| x.row(row)).collect();
    let mut out = vec![0.0; x.rows * weight.rows];
    for (columns, out) in columns.chunks(COLUMNS).zip(out.chunks_mut(COLUMNS * weight.rows)) {
        let by_weight = multiply(weight, columns);
        transpose(&by_weight, columns.len(), out);
    }
    out
}

/// The products of each weight row with each vector, weight row after weight row.
pub(crate) fn multiply(weight: Matrix, x: &[&[f32]]) -> Vec<f32> {
    let (k, n) = (weight.k, x.len());
    let mut out = vec![0.0; weight.rows * n];
    if out.is_empty() {
        return out;
    }
    let rows = (TASK / (k * n)).next_multiple_of(TILE_ROWS).max(TILE_ROWS);
    out.par_chunks_mut(rows * n).enumerate().for_each_init(Vec::new, |decoded, (task, out)| {
        for (i, out) in out.chunks_mut(TILE_ROWS * n).enumerate() {
            decoded.resize(out.len() / n * k, 0.0);
            weight.decode(task * rows + i * TILE_ROWS, decoded);
            products(decoded, k, x, out);
        }
    });
    out
}

/// From weight row after weight row to vector after vector.
fn transpose(by_weight: &[f32], n: usize, out: &mut [f32]) {
    if n == 1 {
        out.copy_from_slice(by_weight);
        return;
    }
    let m = by_weight.len() / n;
    crate::parallel::for_each_row(out, m, |c, out| {
        out.iter_mut().zip(by_weight.iter().skip(c).step_by(n)).for_each(|(y, &v)| *y = v);
    });
}
