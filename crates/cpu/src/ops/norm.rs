//! `RmsNorm`, `L2Norm`.

use crate::parallel::rows_from;
use crate::simd::dot;
use crate::values::View;

/// `x · rsqrt(mean(x²) + eps) · weight` over each `group` of columns.
pub(crate) fn rms_norm(x: View, weight: Option<&[f32]>, group: usize, eps: f32) -> Vec<f32> {
    rows_from(x.rows, x.width, |row, out| {
        for (x, y) in x.row(row).chunks_exact(group).zip(out.chunks_exact_mut(group)) {
            let factor = 1.0 / (dot(x, x) / group as f32 + eps).sqrt();
            match weight {
                Some(weight) => y.iter_mut().zip(x).zip(weight).for_each(|((y, x), w)| *y = x * factor * w),
                None => y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor),
            }
        }
    })
}

/// `scale · x · rsqrt(max(Σx², eps²))` over each `group` of columns.
pub(crate) fn l2_norm(x: View, group: usize, eps: f32, scale: f32) -> Vec<f32> {
    rows_from(x.rows, x.width, |row, out| {
        for (x, y) in x.row(row).chunks_exact(group).zip(out.chunks_exact_mut(group)) {
            let factor = scale / dot(x, x).sqrt().max(eps);
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor);
        }
    })
}
