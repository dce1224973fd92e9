//! `x · sigmoid(gate)`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::launch::refuse;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input.
    pub x: Mat<'a>,
    /// As wide as `x`, or one column for all of it; or what its parts are taken from.
    pub gate: Mat<'a>,
    /// Where gates are parts of wider columns.
    pub parts: Option<Parts>,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// `len` columns from `first` of each `stride` columns, as `slice` takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Columns from a part to the next, more than one.
    pub stride: u32,
    /// First column of a part.
    pub first: u32,
    /// Columns of a part, a multiple of 4.
    pub len: u32,
}

/// Records the operation.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x: a, gate, parts, out, rows } = args;
    let one = gate.width == 1;
    let (b, numbers) = match parts {
        Some(Parts { stride, first, len }) => {
            let whole = len > 0 && len.is_multiple_of(4) && stride > 1 && first.saturating_add(len) <= stride;
            if !whole || !a.width.is_multiple_of(len) || a.width / len * stride != gate.width {
                let reason = format!("{} columns by parts of {} gates", a.width, gate.width);
                return Ok(refuse("sigmoid_gate", reason)?);
            }
            (Second::Parts(gate), Numbers { flag: stride, first, len, ..Default::default() })
        }
        None if one => (Second::Column(gate), Numbers { flag: 1, ..Default::default() }),
        None => (Second::Columns(gate), Numbers::default()),
    };
    let op = Elementwise { op: "sigmoid_gate", variant: "sigmoid_gate", a, b, out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
