//! Causal convolution of each channel over a sequence's rows, then SiLU.

use super::{Parts, Run};
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::norm::SUBGROUP_COLUMNS;
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "conv", bindings: 8, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    channels: u32,
    group: u32,
    groups: u32,
    heads: u32,
    x_stride: u32,
    out_stride: u32,
    q_stride: u32,
    k_stride: u32,
    eps: f32,
    q_scale: f32,
    k_scale: f32,
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
    /// L2 norms of the first channels' results, which are stored instead of them.
    pub norms: Option<HeadNorms<Mat<'a>>>,
    /// Output of the channels that are not normed.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// The L2 norms of query heads, the first channels, and of as many key heads behind them. Columns are an `M`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadNorms<M> {
    /// Output, the query heads.
    pub q: M,
    /// Output, the key heads.
    pub k: M,
    /// Elements of a head, a multiple of 4, at most 512.
    pub head_size: u32,
    /// Smallest length.
    pub eps: f32,
    /// Length of a query head.
    pub q_scale: f32,
    /// Length of a key head.
    pub k_scale: f32,
}

impl<M> HeadNorms<M> {
    /// The same with other names for columns.
    ///
    /// # Errors
    /// Those of `m`.
    pub fn map<N, E>(self, m: impl Fn(M) -> Result<N, E>) -> Result<HeadNorms<N>, E> {
        let HeadNorms { q, k, head_size, eps, q_scale, k_scale } = self;
        Ok(HeadNorms { q: m(q)?, k: m(k)?, head_size, eps, q_scale, k_scale })
    }
}

/// Most taps.
const TAPS: u32 = 16;

/// Whether there is a kernel for `rows` rows, with norms of heads of so many elements or without.
///
/// # Errors
/// [`Unsupported`] for a width of 0 or above 16, too many elements, heads that a subgroup does not take.
pub fn supports(channels: u32, taps: u32, head_size: Option<u32>, rows: u32) -> Result<(), Unsupported> {
    if let Some(size) = head_size.filter(|&s| s == 0 || !s.is_multiple_of(4) || s > SUBGROUP_COLUMNS) {
        return refuse("conv", format!("heads of {size} channels"));
    }
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
    let &Args { x, taps, rows, out, norms, .. } = args;
    supports(x.width, taps, norms.map(|n| n.head_size), rows)?;
    let heads = norms.map_or(0, |n| n.q.width);
    let whole = norms.is_none_or(|n| n.k.width == heads && heads.is_multiple_of(n.head_size));
    if !whole
        || u64::from(x.width) != 2 * u64::from(heads) + u64::from(out.width)
        || args.weight.len() < u64::from(x.width) * u64::from(taps) * 4
    {
        let reason = format!("{} channels to {heads} twice and {} with {taps} taps", x.width, out.width);
        return Ok(refuse("conv", reason)?);
    }
    let lanes = k.subgroup_size();
    let group = norms.map_or(4 * lanes, |n| n.head_size);
    let groups = x.width.div_ceil(group);
    let (q, key) = norms.map_or((out, out), |n| (n.q, n.k));
    let params = Params {
        rows,
        channels: x.width,
        group,
        groups,
        heads,
        x_stride: x.stride,
        out_stride: out.stride,
        q_stride: q.stride,
        k_stride: key.stride,
        eps: norms.map_or(0.0, |n| n.eps),
        q_scale: norms.map_or(1.0, |n| n.q_scale),
        k_scale: norms.map_or(1.0, |n| n.k_scale),
    };
    let aligned =
        [x, out, q, key].iter().all(|m| m.is_vec4(rows)) && x.width.is_multiple_of(4) && is_vec4(args.state);
    let threads = k.threads(128);
    let runs = args.parts.runs.slice(0, u64::from(args.parts.count) * Run::BYTES)?;
    let row_parts = args.parts.row_parts.slice(0, u64::from(rows) * 4)?;
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[
                (0, threads),
                (1, u32::from(aligned)),
                (2, taps),
                (3, group.div_ceil(4).div_ceil(lanes)),
            ],
            bindings: &[
                Binding::read(&x.bytes(rows)?),
                Binding::read(args.weight),
                Binding::read_write(args.state),
                Binding::read(&runs),
                Binding::read(&row_parts),
                Binding::write(&out.bytes(rows)?),
                Binding::write(&q.bytes(rows)?),
                Binding::write(&key.bytes(rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("conv", u64::from(rows) * u64::from(groups), threads / lanes)?,
            label,
        },
    )
}
