//! When work is worth a second core.

use rayon::prelude::*;

/// Elements below which a loop is finished before another core has woken up.
const SERIAL: usize = 8192;

/// Calls `f(row, columns)` for every row of `out`, rows of `width` elements.
pub(crate) fn for_each_row(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync + Send) {
    if width == 0 {
        return;
    }
    if out.len() < SERIAL {
        out.chunks_exact_mut(width).enumerate().for_each(|(row, y)| f(row, y));
    } else {
        out.par_chunks_exact_mut(width).enumerate().for_each(|(row, y)| f(row, y));
    }
}

/// A new buffer of `rows` rows, each written by `f(row, columns)`.
pub(crate) fn rows_from(rows: usize, width: usize, f: impl Fn(usize, &mut [f32]) + Sync + Send) -> Vec<f32> {
    let mut out = vec![0.0; rows * width];
    for_each_row(&mut out, width, f);
    out
}
