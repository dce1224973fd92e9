//! Causal convolution of each channel over a sequence's rows, then SiLU.

use super::{Parts, Run};
use crate::launch::{Launch, groups_over, refuse};
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "conv", bindings: 6, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    channels: u32,
    x_stride: u32,
    out_stride: u32,
    groups: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Input, a column a channel.
    pub x: Mat<'a>,
    /// f32 `[channels][taps]`, the oldest tap first.
    pub weight: &'a Slice,
    /// Width of the convolution.
    pub taps: u32,
    /// The slots' states.
    pub state: &'a Slice,
    /// The parts of the step.
    pub parts: Parts<'a>,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Most taps.
const TAPS: u32 = 16;

/// Whether there is a kernel for `rows` rows.
///
/// # Errors
/// [`Unsupported`] for a width of 0 or above 16, too many elements.
pub fn supports(channels: u32, taps: u32, rows: u32) -> Result<(), Unsupported> {
    if taps == 0 || taps > TAPS || channels == 0 {
        return refuse("conv", format!("{channels} channels, {taps} taps; 1 to {TAPS} are supported"));
    }
    groups_over("conv", u64::from(rows) * u64::from(channels), 1).map(|_| ())
}

/// Records the convolution.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, taps, rows, out, .. } = args;
    supports(x.width, taps, rows)?;
    if x.width != out.width || args.weight.len() < u64::from(x.width) * u64::from(taps) * 4 {
        return Ok(refuse("conv", format!("{} channels to {} with {taps} taps", x.width, out.width))?);
    }
    let threads = k.threads(128);
    let groups = x.width.div_ceil(threads);
    let params = Params { rows, channels: x.width, x_stride: x.stride, out_stride: out.stride, groups };
    let runs = args.parts.runs.slice(0, u64::from(args.parts.count) * Run::BYTES)?;
    let row_parts = args.parts.row_parts.slice(0, u64::from(rows) * 4)?;
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, threads), (1, taps)],
            bindings: &[
                Binding::read(&x.bytes(rows)?),
                Binding::read(args.weight),
                Binding::read_write(args.state),
                Binding::read(&runs),
                Binding::read(&row_parts),
                Binding::write(&out.bytes(rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("conv", u64::from(rows) * u64::from(groups), 1)?,
            label,
        },
    )
}
