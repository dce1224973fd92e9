//! `x[s] + bias[expert(s)]` for each slot s of a row.

use super::rows::ExpertRows;
use crate::launch::refuse;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// A part for each slot.
    pub x: Mat<'a>,
    /// `2 · top_k` columns.
    pub choice: Mat<'a>,
    /// As many f32 an expert as a slot has columns.
    pub bias: &'a Slice,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the sum.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, choice, bias, out, rows } = args;
    let slots = choice.width / 2;
    if slots == 0 || !x.width.is_multiple_of(slots) || x.width != out.width {
        let reason = format!("{slots} slots of {} columns to {}", x.width, out.width);
        return Ok(refuse("expert_bias", reason)?);
    }
    ExpertRows { op: "expert_bias", variant: "bias", x, choice, second: Some(bias), out, rows }
        .record(k, rec, label)
}
