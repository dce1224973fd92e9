//! `silu(gate) · x · rsqrt(mean(x²) + eps) · weight` over each group of columns.
//!
//! Bit-identical to `rms_norm` followed by `activate`.

use super::norm_dispatch::Norm;
use crate::gemm::Packed;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input, a multiple of `group` columns.
    pub x: Mat<'a>,
    /// `group` f32 elements; absent = 1.
    pub weight: Option<&'a Slice>,
    /// Columns that are normed together: a head.
    pub group: u32,
    /// Added to the mean of squares.
    pub eps: f32,
    /// As wide as `x`.
    pub gate: Mat<'a>,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Output once more, in f16, where [`super::packs`] says so.
    pub packed: Option<Packed<'a>>,
    /// Rows.
    pub rows: u32,
}

/// Records the norm.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, weight, group, eps, gate, out, packed, rows } = args;
    let gate = Some(gate);
    Norm { op: "gated_rms_norm", variant: "rms", x, weight, group, eps, scale: 1.0, gate, out, packed, rows }
        .record(k, rec, label)
}
