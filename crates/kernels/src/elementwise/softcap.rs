//! `cap · tanh(x / cap)`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input.
    pub x: Mat<'a>,
    /// Bound of the result; not 0.
    pub cap: f32,
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
    let &Args { x: a, cap, out, rows } = args;
    let (b, numbers) = (Second::None, Numbers { alpha: cap, ..Default::default() });
    let op = Elementwise { op: "softcap", variant: "softcap", a, b, out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
