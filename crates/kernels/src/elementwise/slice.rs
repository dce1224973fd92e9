//! Takes `len` columns from `first` of each `stride` columns: separates interleaved heads.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::launch::refuse;
use crate::{Error, Kernels, Mat};
use zinc_vulkan::Recorder;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input, parts of `stride` columns.
    pub x: Mat<'a>,
    /// Columns from one part to the next.
    pub stride: u32,
    /// First column that is taken of a part.
    pub first: u32,
    /// Columns that are taken of a part.
    pub len: u32,
    /// Output, `len` columns a part.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the copy.
///
/// # Errors
/// Parts that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x: a, stride, first, len, out, rows } = args;
    let fits = len > 0
        && u64::from(first) + u64::from(len) <= u64::from(stride)
        && a.width.is_multiple_of(stride)
        && u64::from(a.width / stride) * u64::from(len) == u64::from(out.width);
    if !fits {
        let (from, to) = (a.width, out.width);
        return Ok(refuse(
            "slice",
            format!("{len} from {first} of each {stride} of {from} columns to {to}"),
        )?);
    }
    let numbers = Numbers { flag: stride, first, len, ..Default::default() };
    Elementwise { op: "slice", variant: "slice", a, b: Second::None, out, rows, numbers }
        .record(k, rec, label)
}
