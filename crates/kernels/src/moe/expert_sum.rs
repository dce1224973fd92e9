//! `Σ_s weight(s) · factor[expert(s)] · x[s]` over a row's slots in their order.

use super::rows::ExpertRows;
use crate::launch::refuse;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// A part as wide as the output for each slot.
    pub x: Mat<'a>,
    /// `2 · top_k` columns.
    pub choice: Mat<'a>,
    /// An f32 an expert.
    pub factor: Option<&'a Slice>,
    /// Output.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the sum.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, choice, factor, out, rows } = args;
    let slots = choice.width / 2;
    if slots == 0 || x.width != slots * out.width {
        let reason = format!("{slots} slots of {} columns to {}", x.width, out.width);
        return Ok(refuse("expert_sum", reason)?);
    }
    ExpertRows { op: "expert_sum", variant: "sum", x, choice, second: factor, out, rows }
        .record(k, rec, label)
}
