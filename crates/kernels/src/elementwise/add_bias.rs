//! `x + bias`, a bias element a column.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input.
    pub x: Mat<'a>,
    /// An f32 element a column.
    pub bias: &'a Slice,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the sum.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x: a, bias, out, rows } = args;
    let (b, numbers) = (Second::Row(bias), Numbers::default());
    let op = Elementwise { op: "add_bias", variant: "add_bias", a, b, out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
