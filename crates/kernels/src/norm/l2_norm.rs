//! `scale · x · rsqrt(max(Σx², eps²))` over each group of columns.

use super::norm_dispatch::Norm;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands of an L2 norm.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input, a multiple of `group` columns.
    pub x: Mat<'a>,
    /// Columns that are normed together.
    pub group: u32,
    /// Smallest length.
    pub eps: f32,
    /// Length of the result.
    pub scale: f32,
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
    let &Args { x, group, eps, scale, out, rows } = args;
    Norm {
        op: "l2_norm",
        variant: "l2",
        x,
        weight: None,
        group,
        eps,
        scale,
        gate: None,
        out,
        packed: None,
        rows,
    }
    .record(k, rec, label)
}
