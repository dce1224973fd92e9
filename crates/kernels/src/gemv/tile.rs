//! How a product is cut: the choice of a tile.

use crate::moe::Grouping;
use crate::policy::GemvShape;
use crate::{Policy, Unsupported};
use std::cmp::Ordering;
use zinc_quant::FormatRef;

/// A product but for its columns: what tiles are chosen and measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductClass {
    /// Format of the weights.
    pub format: FormatRef,
    /// Rows of the matrix.
    pub m: u32,
    /// Elements of a row.
    pub k: u32,
    /// Two matrices, the second one gated by the activation of the first one's product.
    pub gated: bool,
}

impl Ord for ProductClass {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |c: &ProductClass| (c.format.name, c.m, c.k, c.gated);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ProductClass {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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
    /// Elements of x of a lane that the workgroup stages in shared memory at a time: whole chunks of the format, or a chunk's half, quarter …;
    /// 0: lanes read x themselves.
    pub stage: u32,
}

/// Sums of a lane at most, where they are not given: what fits in registers.
pub(super) const MOST_SUMS: u32 = 128;
/// Bytes of shared memory to stage x in that are worth measuring.
pub(super) const STAGES: [u32; 4] = [0, 17 << 10, 34 << 10, 47 << 10];

/// The tile for a product of any number of columns. Lanes and parts depend on the class alone, so the bits of a result do not depend on the
/// columns.
///
/// # Errors
/// [`Unsupported`] where `k` is not whole blocks, or nothing is to be computed.
pub fn select(policy: &Policy, class: &ProductClass, columns: u32) -> Result<Tile, Unsupported> {
    select_shaped(policy, policy.gemv.shape(columns, class.gated), class, columns)
}

/// As [`select`] for the matrices of experts, whose columns are grouped already.
///
/// # Errors
/// As [`select`], and where the groups are wider than the policy's columns of a workgroup.
pub fn select_experts(policy: &Policy, class: &ProductClass, g: &Grouping) -> Result<Tile, Unsupported> {
    let tile = fit(policy, policy.gemv.shape(g.columns(), class.gated), class, g.top_k, g.columns())?;
    g.fits("expert_linear", class, tile.columns)?;
    Ok(tile)
}

/// As [`select_experts`], with another shape than the policy's.
///
/// # Errors
/// As [`select_experts`].
pub fn shaped_experts(
    policy: &Policy,
    shape: &GemvShape,
    class: &ProductClass,
    g: &Grouping,
) -> Result<Tile, Unsupported> {
    let shape = GemvShape { columns: shape.columns.max(g.columns()), ..*shape };
    let tile = fit(policy, &shape, class, g.top_k, g.columns())?;
    g.fits("expert_linear", class, tile.columns)?;
    Ok(tile)
}

/// Whether a tile that was measured is one of a product of experts: it belongs together, and gives the bits of the policy's own.
pub fn fits_experts(policy: &Policy, class: &ProductClass, g: &Grouping, tile: &Tile) -> bool {
    let own = shaped_experts(policy, policy.gemv.shape(g.columns(), class.gated), class, g);
    own.is_ok_and(|own| (own.lanes, own.parts, own.columns) == (tile.lanes, tile.parts, tile.columns))
        && tile.check(class.format, policy.subgroup_size).is_ok()
        && tile.rows * tile.columns <= 4 * MOST_SUMS
        && 16 * tile.staged_quads(class.format) <= STAGES[STAGES.len() - 1]
}

/// As [`select`], with another shape than the policy's for so many columns.
pub(super) fn select_shaped(
    policy: &Policy,
    shape: &GemvShape,
    class: &ProductClass,
    columns: u32,
) -> Result<Tile, Unsupported> {
    fit(policy, shape, class, 1, columns)
}

/// A shape for a class; `matrices` of it are multiplied with a row at a time.
fn fit(
    policy: &Policy,
    shape: &GemvShape,
    class: &ProductClass,
    matrices: u32,
    columns: u32,
) -> Result<Tile, Unsupported> {
    let &ProductClass { format, m, k, .. } = class;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if m == 0 || k == 0 || columns == 0 {
        return fail(format!("an empty product ({m}×{k}, {columns} columns)"));
    }
    if !(k as usize).is_multiple_of(format.block_elems) {
        return fail(format!("rows of {k} elements are not whole blocks of {}", format.block_elems));
    }
    let gemv = &policy.gemv;
    let lanes = gemv.lanes.min(policy.subgroup_size);
    let steps = k.div_ceil(format.chunk * lanes);
    let parts = gemv.busy_teams.div_ceil(m.saturating_mul(matrices)).min(gemv.max_parts).min(steps);
    let columns = if gemv.doubling { columns.next_power_of_two() } else { columns };
    let mut tile = Tile::of(shape, class, columns, lanes, 1 << parts.max(1).ilog2());
    let halves = format.chunk == 64 && tile.stage == 32;
    if gemv.third_row && halves && !class.gated && tile.rows == 2 && tile.columns > 4 {
        tile.rows = m.min(3);
    }
    Ok(tile)
}

/// Columns of a workgroup, at most `most`, so that batches of columns are as even as possible.
pub(super) fn even_batch(columns: u32, most: u32) -> u32 {
    columns.div_ceil(columns.div_ceil(most))
}

impl Tile {
    /// A shape fitted to a product.
    fn of(shape: &GemvShape, class: &ProductClass, columns: u32, lanes: u32, parts: u32) -> Tile {
        let &ProductClass { format, m, k, gated } = class;
        let rows = if gated { (shape.rows / 2).max(1) } else { shape.rows };
        let spread = parts > 1 && shape.spread;
        let subgroups = if spread { shape.subgroups.next_multiple_of(parts) } else { shape.subgroups };
        let columns = even_batch(columns, shape.columns);
        let tile = Tile { lanes, parts, spread, rows: rows.min(m), columns, subgroups, stage: 0 };
        Tile { stage: tile.stage_within(format, k, shape.stage_bytes), ..tile }
    }

    /// The serial-K way: an invocation walks the whole of its rows.
    pub(super) fn serial(rows: u32, columns: u32, most_columns: u32) -> Tile {
        let columns = even_batch(columns, most_columns);
        Tile { lanes: 1, parts: 1, spread: false, rows, columns, subgroups: 4, stage: 0 }
    }

    /// Quads of shared memory that hold what is staged at a time.
    pub(super) fn staged_quads(&self, format: FormatRef) -> u32 {
        let span = (self.stage / format.chunk).max(1);
        let chunks = span * self.lanes * if self.spread { self.parts } else { 1 };
        self.columns * (self.stage.min(format.chunk) / 4) * (chunks + 1)
    }

    /// The most elements of a lane that fit into `bytes` of shared memory: two chunks where there are as many (more gain nothing), a chunk, or a part
    /// of it down to 8 elements.
    fn stage_within(&self, format: FormatRef, k: u32, bytes: u32) -> u32 {
        let chunks = k.div_ceil(format.chunk).div_ceil(self.lanes * self.parts);
        let fits = |&stage: &u32| 16 * Tile { stage, ..*self }.staged_quads(format) <= bytes;
        let whole = (1..=chunks.min(2)).rev().map(|n| n * format.chunk);
        let pieces =
            [2, 4, 8].into_iter().filter(|n| format.chunk.is_multiple_of(8 * n)).map(|n| format.chunk / n);
        whole.chain(pieces).find(fits).unwrap_or(0)
    }

    /// Whether the numbers belong together on a device.
    pub(super) fn check(&self, format: FormatRef, subgroup_size: u32) -> Result<(), String> {
        let Tile { lanes, parts, spread, rows, columns, subgroups, stage } = *self;
        let chunk = format.chunk;
        if stage > 0
            && !(stage.is_multiple_of(chunk) || chunk.is_multiple_of(stage) && stage.is_multiple_of(4))
        {
            return Err(format!("a stage of {stage} elements for chunks of {chunk}"));
        }
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
    pub(super) fn own(&self, matrices: u32) -> u32 {
        (self.rows * self.columns).div_ceil(self.lanes) * matrices
    }
}

/// The tiles worth measuring for a product with `columns` columns, lanes and parts included. The last ones are the serial-K way, which no
/// policy takes.
pub fn candidates(policy: &Policy, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let most = columns.min(64);
    let shapes: Vec<GemvShape> = [1, 2, 4, 8]
        .into_iter()
        .filter(|rows| rows * most <= MOST_SUMS)
        .flat_map(|rows| [4, 8].map(|subgroups| (rows, subgroups)))
        .flat_map(|(rows, subgroups)| [false, true].map(|spread| (rows, subgroups, spread)))
        .flat_map(|(rows, subgroups, spread)| {
            STAGES.map(|stage_bytes| GemvShape {
                up_to: columns,
                rows,
                columns: most,
                spread,
                subgroups,
                stage_bytes,
            })
        })
        .collect();
    let lanes = [8, 16, 32].into_iter().filter(|&l| l <= policy.subgroup_size);
    let orders = lanes.flat_map(|lanes| [1, 2, 4, 8].map(|parts| (lanes, parts)));
    let mut all: Vec<Tile> = Vec::new();
    for (lanes, parts) in orders.filter(|&(_, parts)| class.m * parts <= 65_536) {
        for tile in shapes.iter().map(|shape| Tile::of(shape, class, columns, lanes, parts)) {
            if !all.contains(&tile) {
                all.push(tile);
            }
        }
    }
    all.extend([1, 2].map(|rows| Tile::serial(rows, columns, 64)));
    all
}
