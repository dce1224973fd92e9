//! `x · by`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_vulkan::{Recorder, Slice};

/// A factor.
#[derive(Debug, Clone, Copy)]
pub enum Factor<'a> {
    /// Known when the commands are recorded.
    Const(f32),
    /// The first f32 of a weight.
    Weight(&'a Slice),
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input.
    pub x: Mat<'a>,
    /// Factor of all elements.
    pub by: Factor<'a>,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the product.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x: a, by, out, rows } = args;
    let (b, numbers) = match by {
        Factor::Const(alpha) => (Second::None, Numbers { alpha, ..Default::default() }),
        Factor::Weight(weight) => (Second::Element(weight), Numbers { flag: 1, ..Default::default() }),
    };
    let op = Elementwise { op: "scale", variant: "scale", a, b, out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
