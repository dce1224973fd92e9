//! `x · sigmoid(gate)`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input.
    pub x: Mat<'a>,
    /// As wide as `x`, or one column for all of it.
    pub gate: Mat<'a>,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the operation.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x: a, gate, out, rows } = args;
    let one = gate.width == 1;
    let b = if one { Second::Column(gate) } else { Second::Columns(gate) };
    let numbers = Numbers { flag: u32::from(one), ..Default::default() };
    let op = Elementwise { op: "sigmoid_gate", variant: "sigmoid_gate", a, b, out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
