//! Choice of a variant, and the dispatch.

use super::KERNELS;
use crate::{Error, Kernels, Mat, Policy, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Dispatch, Recorder, Slice};

/// Columns of one dispatch's workgroups.
const MAX_COLUMNS: u32 = 8;

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
    /// Number of columns, any; eight at a time share the weights.
    pub columns: u32,
    /// Additions.
    pub epilogue: Epilogue<'a>,
    /// `columns` rows of `m` elements.
    pub out: Mat<'a>,
}

/// How the work is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Weight rows of a subgroup (of each matrix).
    pub rows: u32,
    /// Subgroups that share the K of the same rows.
    pub split: u32,
    /// Subgroups of a workgroup, a multiple of `split`.
    pub subgroups: u32,
    /// Load a lane's next chunk before its present one is used.
    pub ahead: bool,
    /// Steps of x (a chunk a lane of each of the `split` subgroups) that the workgroup stages in shared memory; 0: lanes read x themselves.
    pub stage: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Params {
    m: u32,
    k: u32,
    row_bytes: u32,
    x_stride: u32,
    residual_stride: u32,
    result_stride: u32,
    groups: u32,
}

/// The tile for a product of `m` rows of `k` elements with `columns` columns (1 to 8 of one dispatch). The split depends on `m` and `k`
/// alone, so the bits of a result do not depend on the columns.
///
/// # Errors
/// [`Unsupported`] where `k` is not whole blocks, or nothing is to be computed.
pub fn select(
    policy: &Policy,
    format: FormatRef,
    m: u32,
    k: u32,
    columns: u32,
    gated: bool,
) -> Result<Tile, Unsupported> {
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if m == 0 || k == 0 || columns == 0 {
        return fail(format!("an empty product ({m}×{k}, {columns} columns)"));
    }
    if !(k as usize).is_multiple_of(format.block_elems) {
        return fail(format!("rows of {k} elements are not whole blocks of {}", format.block_elems));
    }
    let gemv = &policy.gemv;
    // Chunks have at most 64 elements. Each subgroup should find one for every lane, and all the same number of them.
    let steps = (k / 64 / policy.subgroup_size).max(1);
    let wanted = gemv.busy_subgroups.div_ceil(m).min(gemv.max_split);
    let split = (1..=wanted.min(steps)).rev().find(|s| steps.is_multiple_of(*s)).unwrap_or(1);
    let rows = gemv.rows[columns.min(MAX_COLUMNS) as usize - 1];
    let rows = if gated { (rows / 2).max(1) } else { rows };
    let subgroups = (gemv.subgroups / split * split).max(split);
    let stage = stage(format, k, columns.min(MAX_COLUMNS), split * policy.subgroup_size, gemv.stage_bytes);
    Ok(Tile { rows: rows.min(m), split, subgroups, ahead: gemv.ahead, stage })
}

/// Elements of a chunk at most: `CHUNK` of the format's GLSL.
fn chunk_bound(format: FormatRef) -> u32 {
    match format.block_elems {
        1 => 16,
        n => (n as u32).min(64),
    }
}

/// Quads of shared memory that hold `stage` steps of `lanes` chunks.
pub(super) fn staged_quads(format: FormatRef, columns: u32, lanes: u32, stage: u32) -> u32 {
    columns * (chunk_bound(format) / 4) * (stage * lanes + 1)
}

/// The most steps of x that fit into `bytes` of shared memory, and no more than there are.
fn stage(format: FormatRef, k: u32, columns: u32, lanes: u32, bytes: u32) -> u32 {
    let steps = k.div_ceil(chunk_bound(format)).div_ceil(lanes);
    (1..=steps).take_while(|&s| 16 * staged_quads(format, columns, lanes, s) <= bytes).last().unwrap_or(0)
}

/// The tiles worth measuring for a product of rows of `k` elements with `columns` columns: rows a subgroup, splits, prefetch, stages.
pub fn candidates(policy: &Policy, format: FormatRef, k: u32, columns: u32) -> Vec<Tile> {
    let mut all = Vec::new();
    for rows in [2, 4, 8].into_iter().filter(|rows| rows * columns <= 32) {
        for split in [1, 2, 4] {
            let stages = [0, 9 << 10, 17 << 10, 34 << 10];
            let mut stages =
                stages.map(|bytes| stage(format, k, columns, split * policy.subgroup_size, bytes)).to_vec();
            stages.dedup();
            for stage in stages {
                for ahead in [false, true] {
                    all.push(Tile { rows, split, subgroups: split.max(4), ahead, stage });
                }
            }
        }
    }
    all
}

/// Records a product, cut as [`select`] or a measurement says.
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
    let mut first = 0;
    while first < args.columns {
        let left = args.columns - first;
        // As many whole batches of eight as there are, then the rest.
        let columns = if left >= MAX_COLUMNS { left / MAX_COLUMNS * MAX_COLUMNS } else { left };
        batch(kernels, rec, label, args, tile, first, columns)?;
        first += columns;
    }
    Ok(())
}

/// Columns `first .. first + columns`: at most eight, or a multiple of eight.
fn batch(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: Tile,
    first: u32,
    columns: u32,
) -> Result<(), Error> {
    check(args)?;
    let Weights { format, m, k, slice } = args.weights;
    let kernel = &KERNELS[0];
    let per_group = columns.min(MAX_COLUMNS);
    let x = args.x.rows(first, columns)?;
    let out = args.out.rows(first, columns)?;
    let residual = args.epilogue.residual.map(|r| r.rows(first, columns)).transpose()?;
    let row_bytes = format.device_row_bytes(k as usize) as u64;
    let weight = slice.slice(0, row_bytes * u64::from(m))?;
    let up = args.up.map(|(_, up)| up.slice.slice(0, row_bytes * u64::from(m))).transpose()?;
    let bias = args.epilogue.bias.map(|b| b.slice(0, 4 * u64::from(m))).transpose()?;

    let sums = tile.rows * per_group * if up.is_some() { 2 } else { 1 };
    let flag = u32::from;
    let specialization = [
        (0, tile.subgroups * kernels.subgroup_size()),
        (1, tile.rows),
        (2, per_group),
        (3, tile.split),
        (4, if tile.split > 1 { tile.subgroups * sums } else { 1 }),
        (5, flag(tile.ahead)),
        (6, flag(args.x.is_vec4(args.columns))),
        (7, flag(bias.is_some())),
        (8, flag(residual.is_some())),
        (9, flag(matches!(args.up, Some((Gate::GeGlu, _))))),
        (10, tile.stage),
        (
            11,
            match tile.stage {
                0 => 1,
                stage => staged_quads(format, per_group, tile.split * kernels.subgroup_size(), stage),
            },
        ),
    ];
    let gate = if up.is_some() { "yes" } else { "no" };
    let pipeline = kernels.pipeline(kernel, &[("FORMAT", format.name), ("GATE", gate)], &specialization)?;
    let groups = m.div_ceil(tile.rows * (tile.subgroups / tile.split));
    let params = Params {
        m,
        k,
        row_bytes: row_bytes as u32,
        x_stride: args.x.stride,
        residual_stride: args.epilogue.residual.map_or(0, |r| r.stride),
        result_stride: args.out.stride,
        groups,
    };
    let [gx, gy] = fold_groups(groups);
    rec.dispatch(&Dispatch {
        pipeline: &pipeline,
        bindings: &[
            Binding::read(&weight),
            Binding::read(up.as_ref().unwrap_or(&weight)),
            Binding::read(&x),
            Binding::read(bias.as_ref().unwrap_or(&x)),
            Binding::read(residual.as_ref().unwrap_or(&x)),
            Binding::write(&out),
        ],
        params: bytemuck::bytes_of(&params),
        groups: [gx, gy, columns.div_ceil(per_group)],
        label,
    })?;
    Ok(())
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
