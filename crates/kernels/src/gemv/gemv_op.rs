//! The dispatch.

use super::{KERNELS, Tile};
use crate::{Error, Kernels, Mat, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// silu(gate) · up.
    SwiGlu,
    /// gelu_tanh(gate) · up.
    GeGlu,
}

/// What happens to a product before it is stored: `+ bias`, then `+ residual`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// `m` f32 values.
    pub bias: Option<&'a Slice>,
    /// `columns` rows of `m` elements; may not overlap the result.
    pub residual: Option<Mat<'a>>,
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
    /// Number of columns, any; those of a workgroup share the weights.
    pub columns: u32,
    /// Additions.
    pub epilogue: Epilogue<'a>,
    /// `columns` rows of `m` elements.
    pub out: Mat<'a>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct Params {
    m: u32,
    k: u32,
    row_bytes: u32,
    x_stride: u32,
    residual_stride: u32,
    result_stride: u32,
    groups: u32,
    columns: u32,
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
    let Weights { format, m, .. } = args.weights;
    if let Err(reason) = tile.check(kernels.subgroup_size()) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let operands = Operands::of(args)?;
    let matrices = if args.up.is_some() { 2 } else { 1 };
    let invocations = tile.subgroups * kernels.subgroup_size();
    let flag = u32::from;
    let specialization = [
        (0, invocations),
        (1, tile.rows),
        (2, tile.columns),
        (3, tile.lanes),
        (4, tile.parts),
        (5, flag(tile.spread)),
        (6, flag(args.x.is_vec4(args.columns))),
        (7, flag(args.epilogue.bias.is_some())),
        (8, flag(args.epilogue.residual.is_some())),
        (9, flag(matches!(args.up, Some((Gate::GeGlu, _))))),
        (10, tile.stage),
        (11, if tile.stage > 0 { tile.staged_quads(format) } else { 1 }),
        (12, if tile.spread { invocations * tile.own(matrices) } else { 1 }),
    ];
    let pipeline = kernels.pipeline(&KERNELS[0], &variant(args), &specialization)?;
    let abreast = if tile.spread { tile.parts } else { 1 };
    let rows_per_group = tile.rows * (kernels.subgroup_size() / tile.lanes) * (tile.subgroups / abreast);
    operands.dispatch(rec, label, &pipeline, m.div_ceil(rows_per_group), tile.columns)
}

/// The shader's variant for a product.
pub(crate) fn variant(args: &Args<'_>) -> [(&'static str, &'static str); 2] {
    [("FORMAT", args.weights.format.name), ("GATE", if args.up.is_some() { "yes" } else { "no" })]
}

/// A product's operands as every kernel of one takes them: six buffers, then [`Params`].
pub(crate) struct Operands {
    weight: Slice,
    up: Option<Slice>,
    x: Slice,
    bias: Option<Slice>,
    residual: Option<Slice>,
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
    ) -> Result<(), Error> {
        let params = Params { groups, ..self.params };
        let [gx, gy] = fold_groups(groups);
        rec.dispatch(&Dispatch {
            pipeline,
            bindings: &[
                Binding::read(&self.weight),
                Binding::read(self.up.as_ref().unwrap_or(&self.weight)),
                Binding::read(&self.x),
                Binding::read(self.bias.as_ref().unwrap_or(&self.x)),
                Binding::read(self.residual.as_ref().unwrap_or(&self.x)),
                Binding::write(&self.out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [gx, gy, params.columns.div_ceil(columns_per_group)],
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
