//! Index of the largest element of each row: the lowest of equals, NaN and −∞ never win. A row of nothing else gives [`NO_TOKEN`].

use crate::launch::{Launch, refuse};
use crate::{DeviceClass, Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

/// What a row without any number has for its largest element: no token of any vocabulary.
pub const NO_TOKEN: u32 = 0xffff_fffe;

pub(super) const KERNEL: Kernel =
    Kernel { stem: "argmax", bindings: 4, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    width: u32,
    stride: u32,
    part: u32,
    parts: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The rows.
    pub logits: Mat<'a>,
    /// [`scratch_bytes`].
    pub scratch: &'a Slice,
    /// Output: a u32 a row, the index or [`NO_TOKEN`].
    pub out: &'a Slice,
    /// Rows, at most 65,535.
    pub rows: u32,
}

/// Columns of a part, threads that look through it.
fn part(k: &Kernels) -> (u32, u32) {
    match k.policy().class {
        DeviceClass::Software => (8192, 64),
        _ => (2048, 256),
    }
}

/// Bytes of scratch for rows of `width` columns.
pub fn scratch_bytes(k: &Kernels, width: u32, rows: u32) -> u64 {
    u64::from(width.div_ceil(part(k).0)) * u64::from(rows) * 8
}

/// Records the search: a dispatch, whose last workgroup of a row has the last word.
///
/// # Errors
/// No columns, too many rows, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { logits, scratch, out, rows } = args;
    if logits.width == 0 || rows == 0 || rows > 65_535 {
        return Ok(refuse("argmax", format!("{rows} rows of {} columns", logits.width))?);
    }
    let (part, threads) = part(k);
    let parts = logits.width.div_ceil(part);
    let params = Params { width: logits.width, stride: logits.stride, part, parts };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, k.threads(threads))],
            bindings: &[
                Binding::read(&logits.bytes(rows)?),
                Binding::write(&scratch.slice(0, u64::from(parts) * u64::from(rows) * 8)?),
                Binding::write(&k.counters(rows)?),
                Binding::write(&out.slice(0, u64::from(rows) * 4)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [parts, rows, 1],
            label,
        },
    )
}
