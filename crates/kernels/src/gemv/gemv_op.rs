//! The dispatch.

use super::{KERNELS, Operands, Tile};
use crate::{Error, Kernels, Mat, Unsupported};
use zinc_plan::Activation;
use zinc_quant::FormatRef;
use zinc_vulkan::{Recorder, Slice};

/// A weight matrix on the device: `m` rows of `k` elements in planes (`Format::pack_row`).
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// Its bytes, at least `m · device_row_bytes(k)`, beginning at a multiple of 16.
    pub slice: &'a Slice,
    /// The block format.
    pub format: FormatRef,
    /// Rows: elements of the result.
    pub m: u32,
    /// Elements of a row.
    pub k: u32,
}

/// Which gated activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gate {
    /// silu(gate) · up.
    SwiGlu,
    /// gelu_tanh(gate) · up.
    GeGlu,
    /// g·sigmoid(alpha·g)·(u + 1) of g = min(gate, limit) and u = clamp(up, ±limit).
    OaiSwiGlu {
        /// Steepness of the sigmoid.
        alpha: f32,
        /// Bound of both.
        limit: f32,
    },
}

impl Gate {
    /// The shaders' `ACTIVATION`.
    pub(crate) fn number(self) -> u32 {
        match self {
            Gate::SwiGlu => 0,
            Gate::GeGlu => 1,
            Gate::OaiSwiGlu { .. } => 2,
        }
    }

    /// Its alpha and limit, where it has any.
    pub(crate) fn constants(self) -> (f32, f32) {
        match self {
            Gate::OaiSwiGlu { alpha, limit } => (alpha, limit),
            Gate::SwiGlu | Gate::GeGlu => (0.0, 0.0),
        }
    }
}

impl From<Activation> for Gate {
    fn from(kind: Activation) -> Gate {
        match kind {
            Activation::SwiGlu => Gate::SwiGlu,
            Activation::GeGlu => Gate::GeGlu,
            Activation::OaiSwiGlu { alpha, limit } => Gate::OaiSwiGlu { alpha, limit },
        }
    }
}

/// What happens to a product of one matrix before it is stored: `+ bias`, then `+ residual`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// `m` f32 values.
    pub bias: Option<&'a Slice>,
    /// `columns` rows of `m` elements; may not overlap the result.
    pub residual: Option<Mat<'a>>,
}

/// An RMS norm of the columns before they are multiplied, each as a whole: only products that say so take one.
#[derive(Debug, Clone, Copy)]
pub struct InputNorm<'a> {
    /// `k` f32 values.
    pub weight: &'a Slice,
    /// Added to the mean of squares.
    pub eps: f32,
    /// Of a single column without gate, bias or residual, or with a gate and no factor: what is done before the norm.
    pub sublayer: Option<Sublayer<'a>>,
}

/// x is what a sublayer gave; what is normed is the row behind it: (rms_norm(x)·weight + row)·scale, with the eps of the norm behind it.
#[derive(Debug, Clone, Copy)]
pub struct Sublayer<'a> {
    /// `k` f32 values.
    pub weight: &'a Slice,
    /// As wide as x: the row before the sublayer.
    pub row: Mat<'a>,
    /// One f32, for products without gate.
    pub scale: Option<&'a Slice>,
    /// As wide as x: the row behind the sublayer, stored where it is asked for. May overlap no operand.
    pub out: Option<Mat<'a>>,
}

/// A product.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The matrix; the gate's where there is one.
    pub weights: Weights<'a>,
    /// A second matrix of the same shape and format: the result is act(gate·x)·(up·x).
    pub up: Option<(Gate, Weights<'a>)>,
    /// The columns of the product: `columns` rows of `k` elements.
    pub x: Mat<'a>,
    /// What is done to them first.
    pub norm: Option<InputNorm<'a>>,
    /// Number of columns, any; those of a workgroup share the weights.
    pub columns: u32,
    /// Additions.
    pub epilogue: Epilogue<'a>,
    /// `columns` rows of `m` elements.
    pub out: Mat<'a>,
}

/// Records a product with a tile of [`Cut`](super::Cut), or of [`candidates`](super::candidates).
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: Tile,
) -> Result<(), Error> {
    if args.norm.is_some() {
        let format = Some(args.weights.format.name);
        let reason = "norms are products' own only where x is rounded".into();
        return Err(Unsupported { op: "linear", format, reason }.into());
    }
    record_columns(kernels, rec, label, &Operands::of(args, tile.columns)?, tile)
}

/// Records the kernel on one matrix or on experts'.
pub(super) fn record_columns(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    operands: &Operands,
    tile: Tile,
) -> Result<(), Error> {
    let format = operands.format;
    if let Err(reason) = tile.check(format, kernels.subgroup_size()) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let matrices = if operands.up.is_some() { 2 } else { 1 };
    let invocations = tile.subgroups * kernels.subgroup_size();
    let flag = u32::from;
    let specialization = [
        (0, invocations),
        (1, tile.rows),
        (2, tile.columns),
        (3, tile.lanes),
        (4, tile.parts),
        (5, flag(tile.spread)),
        (6, flag(operands.aligned)),
        (7, flag(operands.bias.is_some())),
        (8, flag(operands.has_residual())),
        (9, operands.activation()),
        (10, tile.stage),
        (11, if tile.stage > 0 { tile.staged_quads(format) } else { 1 }),
        (12, if tile.spread { invocations * tile.own(matrices) } else { 1 }),
        (13, operands.experts_mode()),
        (14, if operands.experts.is_some() { tile.columns } else { 1 }),
    ];
    let abreast = if tile.spread { tile.parts } else { 1 };
    let rows_per_group = tile.rows * (kernels.subgroup_size() / tile.lanes) * (tile.subgroups / abreast);
    let groups = operands.params.m.div_ceil(rows_per_group);
    operands.dispatch(kernels, rec, label, (&KERNELS[0], &specialization), groups)
}

/// Shapes that belong together, and addresses that 16-byte loads allow.
pub(super) fn check(args: &Args<'_>) -> Result<(), Unsupported> {
    let Weights { format, m, k, slice } = args.weights;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if args.x.width != k || args.out.width != m {
        return fail(format!("{} and {} columns for weights of {m}×{k}", args.x.width, args.out.width));
    }
    if args.up.is_some() && (args.epilogue.bias.is_some() || args.epilogue.residual.is_some()) {
        return fail("a bias or a residual beside a gate".into());
    }
    if args.epilogue.residual.is_some_and(|r| r.width != m) {
        return fail(format!("a residual that has not the {m} columns of the result"));
    }
    if let Some((_, up)) = args.up
        && (up.format, up.m, up.k) != (format, m, k)
    {
        return fail(format!("gate {m}×{k} with up {}×{} in {}", up.m, up.k, up.format));
    }
    if let Some(s) = args.norm.and_then(|n| n.sublayer) {
        let beside = args.epilogue.bias.is_some() || args.epilogue.residual.is_some();
        let widths = [Some(s.row), s.out].into_iter().flatten().all(|m| m.width == k);
        if args.columns != 1 || beside || !widths || args.up.is_some() && s.scale.is_some() {
            return fail("a sublayer's end before a product of other operands".into());
        }
    }
    let addresses = [Some(slice), args.up.map(|(_, up)| up.slice)];
    if addresses.iter().flatten().any(|s| !s.address().is_multiple_of(16)) {
        return fail("weights that do not begin at a multiple of 16 bytes".into());
    }
    if args.x.stride.checked_mul(args.columns).is_none()
        || args.out.stride.checked_mul(args.columns).is_none()
    {
        return fail(format!("{} columns beyond 2^32 elements", args.columns));
    }
    Ok(())
}
