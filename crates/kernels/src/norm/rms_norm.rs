//! `x · rsqrt(mean(x²) + eps) · weight` over each group of columns.

use super::norm_dispatch::Norm;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// Operands of an RMS norm.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input, a multiple of `group` columns.
    pub x: Mat<'a>,
    /// `group` f32 elements; absent = 1.
    pub weight: Option<&'a Slice>,
    /// Columns that are normed together: the row, or a head.
    pub group: u32,
    /// Added to the mean of squares.
    pub eps: f32,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the norm.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, weight, group, eps, out, rows } = args;
    Norm {
        op: "rms_norm",
        variant: "rms",
        x,
        weight,
        group,
        eps,
        scale: 1.0,
        gate: None,
        out,
        packed: None,
        rows,
    }
    .record(k, rec, label)
}
