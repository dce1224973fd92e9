//! `a + b`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands, all equally wide.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// First summand.
    pub a: Mat<'a>,
    /// Second summand.
    pub b: Mat<'a>,
    /// Output.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the sum.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { a, b, out, rows } = args;
    let b = Second::Columns(b);
    let op = Elementwise { op: "add", variant: "add", a, b, out, rows, numbers: Numbers::default() };
    op.check_widths()?;
    op.record(k, rec, label)
}
