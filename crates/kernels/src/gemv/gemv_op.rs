//! The dispatch.

use super::{KERNELS, Tile};
use crate::{Error, Kernels, Mat, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_plan::Activation;
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Dispatch, Pipeline, Recorder, Slice};

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

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct Params {
    pub m: u32,
    pub k: u32,
    pub row_bytes: u32,
    pub x_stride: u32,
    pub residual_stride: u32,
    pub result_stride: u32,
    pub groups: u32,
    pub columns: u32,
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
    let operands = Operands::of(args)?;
    let product = Product {
        format: args.weights.format,
        weight: operands.weight,
        up: args.up.map(|(gate, _)| gate).zip(operands.up),
        x: operands.x,
        aligned: args.x.is_vec4(args.columns),
        bias: operands.bias,
        has_residual: operands.residual.is_some(),
        second: operands.residual,
        experts: None,
        out: operands.out,
        batches: args.columns.div_ceil(tile.columns),
        params: operands.params,
        slots: Slots::default(),
    };
    product.record(kernels, rec, label, tile)
}

/// The shader's variant for a product.
pub(crate) fn variant(args: &Args<'_>) -> [(&'static str, &'static str); 2] {
    [("FORMAT", args.weights.format.name), ("GATE", if args.up.is_some() { "yes" } else { "no" })]
}

/// [`Params`] of a product that can norm its input.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct NormedParams {
    params: Params,
    eps: f32,
}

/// A product's operands as kernels of one take them: seven buffers, then [`NormedParams`]; those of `gemv` have more.
pub(crate) struct Operands {
    weight: Slice,
    up: Option<Slice>,
    x: Slice,
    bias: Option<Slice>,
    residual: Option<Slice>,
    norm: Option<Slice>,
    out: Slice,
    params: Params,
}

impl Operands {
    /// Checks the operands.
    pub(crate) fn of(args: &Args<'_>) -> Result<Operands, Error> {
        check(args)?;
        let Weights { format, m, k, slice } = args.weights;
        let row_bytes = format.device_row_bytes(k as usize) as u64;
        let matrix = row_bytes * u64::from(m);
        let residual = args.epilogue.residual;
        Ok(Operands {
            weight: slice.slice(0, matrix)?,
            up: args.up.map(|(_, up)| up.slice.slice(0, matrix)).transpose()?,
            x: args.x.bytes(args.columns)?,
            bias: args.epilogue.bias.map(|b| b.slice(0, 4 * u64::from(m))).transpose()?,
            residual: residual.map(|r| r.bytes(args.columns)).transpose()?,
            norm: args.norm.map(|n| n.weight.slice(0, 4 * u64::from(k))).transpose()?,
            out: args.out.bytes(args.columns)?,
            params: Params {
                m,
                k,
                row_bytes: row_bytes as u32,
                x_stride: args.x.stride,
                residual_stride: residual.map_or(0, |r| r.stride),
                result_stride: args.out.stride,
                groups: 0,
                columns: args.columns,
            },
        })
    }

    /// Records a pipeline: `groups` workgroups for the rows, one for each batch of columns.
    pub(crate) fn dispatch(
        self,
        rec: &mut Recorder,
        label: &str,
        pipeline: &Pipeline,
        groups: u32,
        columns_per_group: u32,
        eps: f32,
    ) -> Result<(), Error> {
        let params = NormedParams { params: Params { groups, ..self.params }, eps };
        let [gx, gy] = fold_groups(groups);
        rec.dispatch(&Dispatch {
            pipeline,
            bindings: &[
                Binding::read(&self.weight),
                Binding::read(self.up.as_ref().unwrap_or(&self.weight)),
                Binding::read(&self.x),
                Binding::read(self.bias.as_ref().unwrap_or(&self.x)),
                Binding::read(self.residual.as_ref().unwrap_or(&self.x)),
                Binding::read(self.norm.as_ref().unwrap_or(&self.x)),
                Binding::write(&self.out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [gx, gy, params.params.columns.div_ceil(columns_per_group)],
            label,
        })?;
        Ok(())
    }
}

/// Operands of a dispatch, of one matrix or of experts'.
pub(super) struct Product {
    pub format: FormatRef,
    pub weight: Slice,
    pub up: Option<(Gate, Slice)>,
    pub x: Slice,
    /// Whether x may be read by `vec4`.
    pub aligned: bool,
    pub bias: Option<Slice>,
    /// The residual, or the bias of `up`.
    pub second: Option<Slice>,
    pub has_residual: bool,
    /// The shader's `EXPERTS` and what it reads for it.
    pub experts: Option<(u32, Slice)>,
    pub out: Slice,
    /// Workgroups for the same rows.
    pub batches: u32,
    /// All but `groups`.
    pub params: Params,
    /// All but `alpha` and `limit`.
    pub slots: Slots,
}

/// What follows [`Params`] in the push constants.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Slots {
    pub slots: u32,
    pub x_step: u32,
    pub expert_bytes: u32,
    pub choice_at: u32,
    pub alpha: f32,
    pub limit: f32,
}

/// The push constants after the addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct AllParams {
    params: Params,
    slots: Slots,
}

impl Product {
    pub fn record(
        &self,
        kernels: &Kernels,
        rec: &mut Recorder,
        label: &str,
        tile: Tile,
    ) -> Result<(), Error> {
        let format = self.format;
        if let Err(reason) = tile.check(kernels.subgroup_size()) {
            return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
        }
        let matrices = if self.up.is_some() { 2 } else { 1 };
        let invocations = tile.subgroups * kernels.subgroup_size();
        let (activation, alpha, limit) = match self.up {
            None | Some((Gate::SwiGlu, _)) => (0, 0.0, 0.0),
            Some((Gate::GeGlu, _)) => (1, 0.0, 0.0),
            Some((Gate::OaiSwiGlu { alpha, limit }, _)) => (2, alpha, limit),
        };
        let flag = u32::from;
        let specialization = [
            (0, invocations),
            (1, tile.rows),
            (2, tile.columns),
            (3, tile.lanes),
            (4, tile.parts),
            (5, flag(tile.spread)),
            (6, flag(self.aligned)),
            (7, flag(self.bias.is_some())),
            (8, flag(self.has_residual)),
            (9, activation),
            (10, tile.stage),
            (11, if tile.stage > 0 { tile.staged_quads(format) } else { 1 }),
            (12, if tile.spread { invocations * tile.own(matrices) } else { 1 }),
            (13, self.experts.as_ref().map_or(0, |e| e.0)),
            (14, if self.experts.is_some() { tile.columns } else { 1 }),
        ];
        let gate = if self.up.is_some() { "yes" } else { "no" };
        let variant = [("FORMAT", format.name), ("GATE", gate)];
        let pipeline = kernels.pipeline(&KERNELS[0], &variant, &specialization)?;
        let abreast = if tile.spread { tile.parts } else { 1 };
        let rows_per_group = tile.rows * (kernels.subgroup_size() / tile.lanes) * (tile.subgroups / abreast);
        let groups = self.params.m.div_ceil(rows_per_group);
        let [gx, gy] = fold_groups(groups);
        let x = &self.x;
        let params = AllParams {
            params: Params { groups, ..self.params },
            slots: Slots { alpha, limit, ..self.slots },
        };
        rec.dispatch(&Dispatch {
            pipeline: &pipeline,
            bindings: &[
                Binding::read(&self.weight),
                Binding::read(self.up.as_ref().map_or(&self.weight, |up| &up.1)),
                Binding::read(x),
                Binding::read(self.bias.as_ref().unwrap_or(x)),
                Binding::read(self.second.as_ref().unwrap_or(x)),
                Binding::read(self.experts.as_ref().map_or(x, |e| &e.1)),
                Binding::write(&self.out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [gx, gy, self.batches],
            label,
        })?;
        Ok(())
    }
}

/// Shapes that belong together, and addresses that 16-byte loads allow.
fn check(args: &Args<'_>) -> Result<(), Unsupported> {
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
