//! Choice of a variant, and the dispatch.

use super::KERNELS;
use crate::policy::GemvShape;
use crate::{Error, Kernels, Mat, Policy, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Dispatch, Recorder, Slice};

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

/// How the work is cut. The order of sums, and so the bits of a result, depends on `lanes` and `parts` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Lanes of a team, which split K: a power of two, at most a subgroup. With 1 an invocation walks the whole of its rows (serial K).
    pub lanes: u32,
    /// Parts of K whose sums are added in order.
    pub parts: u32,
    /// A subgroup for each part; else a team walks all of them.
    pub spread: bool,
    /// Weight rows of a team (of each matrix).
    pub rows: u32,
    /// Columns of a workgroup.
    pub columns: u32,
    /// Subgroups of a workgroup; with `spread` a multiple of `parts`.
    pub subgroups: u32,
    /// Chunks of x of a lane that the workgroup stages in shared memory at a time; 0: lanes read x themselves.
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
    columns: u32,
}

/// The tile for a product of `m` rows of `k` elements with any number of columns. Lanes and parts depend on `m` and `k` alone, so the
/// bits of a result do not depend on the columns.
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
    select_shaped(policy, policy.gemv.shape(columns), format, m, k, columns, gated)
}

/// As [`select`], with another shape than the policy's for so many columns.
pub(super) fn select_shaped(
    policy: &Policy,
    shape: &GemvShape,
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
    let lanes = gemv.lanes.min(policy.subgroup_size);
    let steps = k.div_ceil(chunk(format) * lanes);
    let parts = gemv.busy_teams.div_ceil(m).min(gemv.max_parts).min(steps);
    let parts = 1 << parts.max(1).ilog2();
    let rows = if gated { (shape.rows / 2).max(1) } else { shape.rows };
    // Batches of columns as even as possible.
    let columns = columns.div_ceil(columns.div_ceil(shape.columns));
    let spread = parts > 1 && shape.spread;
    let subgroups = if spread { shape.subgroups.next_multiple_of(parts) } else { shape.subgroups };
    let tile = Tile { lanes, parts, spread, rows: rows.min(m), columns, subgroups, stage: 0 };
    let stage = tile.stage_within(format, k, shape.stage_bytes);
    Ok(Tile { stage, ..tile })
}

/// Elements of a chunk: `CHUNK` of the format's GLSL.
fn chunk(format: FormatRef) -> u32 {
    let defined = format.glsl.lines().find_map(|line| line.strip_prefix("#define CHUNK "));
    defined.and_then(|n| n.trim().parse().ok()).unwrap_or(64)
}

impl Tile {
    /// Quads of shared memory that hold what is staged at a time.
    pub(super) fn staged_quads(&self, format: FormatRef) -> u32 {
        let chunks = self.stage * self.lanes * if self.spread { self.parts } else { 1 };
        self.columns * (chunk(format) / 4) * (chunks + 1)
    }

    /// The most chunks of a lane that fit into `bytes` of shared memory, no more than there are and at most two: more gain nothing.
    fn stage_within(&self, format: FormatRef, k: u32, bytes: u32) -> u32 {
        let chunks = k.div_ceil(chunk(format)).div_ceil(self.lanes * self.parts);
        let fits = |&stage: &u32| 16 * Tile { stage, ..*self }.staged_quads(format) <= bytes;
        (1..=chunks.min(2)).take_while(fits).last().unwrap_or(0)
    }

    /// Whether the numbers belong together on a device.
    fn check(&self, subgroup_size: u32) -> Result<(), String> {
        let Tile { lanes, parts, spread, rows, columns, subgroups, .. } = *self;
        if !lanes.is_power_of_two() || lanes > subgroup_size {
            return Err(format!("{lanes} lanes are no power of two up to {subgroup_size}"));
        }
        if !(1..=64).contains(&parts) || !(1..=64).contains(&rows) || !(1..=64).contains(&columns) {
            return Err("parts, rows and columns are 1 to 64".into());
        }
        if subgroups == 0 || spread && !subgroups.is_multiple_of(parts) {
            return Err(format!("{subgroups} subgroups for {parts} parts"));
        }
        Ok(())
    }

    /// Sums that a lane has after the reduction: `OWN` of the shader.
    fn own(&self, matrices: u32) -> u32 {
        (self.rows * self.columns).div_ceil(self.lanes) * matrices
    }
}

/// The tiles worth measuring for a product of `m` rows of `k` elements with `columns` columns. The last ones are the serial-K way,
/// which no policy takes.
pub fn candidates(policy: &Policy, format: FormatRef, m: u32, k: u32, columns: u32) -> Vec<Tile> {
    let mut all = Vec::new();
    for lanes in [8, 16, 32].into_iter().filter(|&l| l <= policy.subgroup_size) {
        for parts in [1, 2, 4, 8].into_iter().filter(|parts| m * parts <= 65_536) {
            for rows in [1, 2, 4, 8].into_iter().filter(|rows| rows * columns <= 128) {
                for subgroups in [4, 8] {
                    for spread in [false, true] {
                        for bytes in [0, 17 << 10, 34 << 10, 47 << 10] {
                            let spread = spread && parts > 1;
                            let subgroups = if spread { parts.max(subgroups) } else { subgroups };
                            let tile = Tile { lanes, parts, spread, rows, columns, subgroups, stage: 0 };
                            let tile = Tile { stage: tile.stage_within(format, k, bytes), ..tile };
                            if !all.contains(&tile) {
                                all.push(tile);
                            }
                        }
                    }
                }
            }
        }
    }
    for rows in [1, 2] {
        all.push(Tile { lanes: 1, parts: 1, spread: false, rows, columns, subgroups: 4, stage: 0 });
    }
    all
}

/// Records a product with a tile of [`select`], [`candidates`] or a measured table.
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
    check(args)?;
    let Weights { format, m, k, slice } = args.weights;
    if let Err(reason) = tile.check(kernels.subgroup_size()) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let kernel = &KERNELS[0];
    let x = args.x.bytes(args.columns)?;
    let out = args.out.bytes(args.columns)?;
    let residual = args.epilogue.residual.map(|r| r.bytes(args.columns)).transpose()?;
    let row_bytes = format.device_row_bytes(k as usize) as u64;
    let weight = slice.slice(0, row_bytes * u64::from(m))?;
    let up = args.up.map(|(_, up)| up.slice.slice(0, row_bytes * u64::from(m))).transpose()?;
    let bias = args.epilogue.bias.map(|b| b.slice(0, 4 * u64::from(m))).transpose()?;

    let matrices = if up.is_some() { 2 } else { 1 };
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
        (7, flag(bias.is_some())),
        (8, flag(residual.is_some())),
        (9, flag(matches!(args.up, Some((Gate::GeGlu, _))))),
        (10, tile.stage),
        (11, if tile.stage > 0 { tile.staged_quads(format) } else { 1 }),
        (12, if tile.spread { invocations * tile.own(matrices) } else { 1 }),
    ];
    let gate = if up.is_some() { "yes" } else { "no" };
    let pipeline = kernels.pipeline(kernel, &[("FORMAT", format.name), ("GATE", gate)], &specialization)?;
    let abreast = if tile.spread { tile.parts } else { 1 };
    let rows_per_group = tile.rows * (kernels.subgroup_size() / tile.lanes) * (tile.subgroups / abreast);
    let groups = m.div_ceil(rows_per_group);
    let params = Params {
        m,
        k,
        row_bytes: row_bytes as u32,
        x_stride: args.x.stride,
        residual_stride: args.epilogue.residual.map_or(0, |r| r.stride),
        result_stride: args.out.stride,
        groups,
        columns: args.columns,
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
        groups: [gx, gy, args.columns.div_ceil(tile.columns)],
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
