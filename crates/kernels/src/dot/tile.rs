//! How an integer-dot product is cut: the choice of a tile.

use crate::gemv::ProductClass;
use crate::moe::Grouping;
use crate::policy::DotShape;
use crate::{Policy, Unsupported, shader};
use zinc_quant::FormatRef;
use zinc_vulkan::Capabilities;

/// How the work is cut. The order of sums depends on `lanes` alone, results on `lanes` and `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Lanes of a team, which split K: a power of two, at most a subgroup.
    pub lanes: u32,
    /// Bytes of an element of x after rounding: 1 or 2.
    pub bytes: u32,
    /// Weight rows of a team (of each matrix).
    pub rows: u32,
    /// Columns of a workgroup.
    pub columns: u32,
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Chunks of x of a lane that the workgroup holds at a time.
    pub stage: u32,
    /// Batches of rows that a workgroup takes one after the other; x is rounded once for them. 1 where it does not hold all of x.
    pub batches: u32,
    /// Codes are loaded a chunk ahead.
    pub ahead: bool,
}

/// Elements of a matrix that a lane loads at a time for a single column, at least.
const LOADED: u32 = 64;
/// Subgroups from which on a workgroup may have fewer or more, for all multiprocessors to have as much.
const BALANCED: u32 = 12;
/// Bytes of a lane's chunk, of two rows at most, whose successor's registers there are beside it in the largest workgroups.
const AHEAD_BYTES: usize = 40;
/// Invocations of a workgroup.
const MOST_INVOCATIONS: u32 = 1024;
/// Columns of a workgroup at most.
const MOST_COLUMNS: u32 = 16;

/// The tile for a product of few columns. What changes results depends on the policy and the format alone.
///
/// # Errors
/// [`Unsupported`] where the device has no integer dot product, the format no integers, or the columns are more than the policy takes.
pub fn select(
    caps: &Capabilities,
    policy: &Policy,
    class: &ProductClass,
    columns: u32,
) -> Result<Tile, Unsupported> {
    fit(caps, policy, class, 1, columns)
}

/// A tile of another shape than the policy's for a product that [`select`] has one for.
pub fn shaped(policy: &Policy, shape: &DotShape, class: &ProductClass, columns: u32) -> Tile {
    Tile::of(policy, shape, class, 1, columns)
}

/// Whether a tile that was measured is one of the product's: it fits the device and gives the results of the policy's own.
pub fn fits(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32, tile: &Tile) -> bool {
    let Ok(own) = select(caps, policy, class, columns) else { return false };
    let [staged, scales] = tile.shared(class.format);
    let bytes = u64::from(staged) * 16 + u64::from(scales) * 8;
    let threads = u64::from(tile.subgroups) * u64::from(policy.subgroup_size);
    (tile.lanes, tile.bytes) == (own.lanes, own.bytes)
        && tile.check(policy.subgroup_size).is_ok()
        && bytes + bytes.div_ceil(9) <= u64::from(caps.limits.shared_memory)
        && threads <= u64::from(caps.limits.workgroup_invocations)
}

/// As [`select`] for the matrices of experts, whose columns are grouped already.
///
/// # Errors
/// As [`select`], and where the groups are wider than the policy's columns of a workgroup.
pub fn select_experts(
    caps: &Capabilities,
    policy: &Policy,
    class: &ProductClass,
    g: &Grouping,
) -> Result<Tile, Unsupported> {
    let tile = fit(caps, policy, class, g.batches(), g.columns())?;
    g.fits("expert_linear", class, tile.columns)?;
    Ok(tile)
}

/// A tile of another shape than the policy's for a product that [`select_experts`] has one for.
pub fn shaped_experts(policy: &Policy, shape: &DotShape, class: &ProductClass, g: &Grouping) -> Tile {
    Tile::of(policy, shape, class, g.batches(), g.columns())
}

/// A tile for products of `groups` matrices with `columns` columns each.
fn fit(
    caps: &Capabilities,
    policy: &Policy,
    class: &ProductClass,
    groups: u32,
    columns: u32,
) -> Result<Tile, Unsupported> {
    let &ProductClass { format, m, k, .. } = class;
    let dot = &policy.dot;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if m == 0 || columns == 0 || k == 0 || !(k as usize).is_multiple_of(format.block_elems) {
        return fail(format!("a product of {m}×{k} with {columns} columns"));
    }
    if !caps.features.integer_dot {
        return fail("the device has no integer dot product".into());
    }
    if shader("dot", &[("FORMAT", format.name), ("GATE", "no")]).is_none() {
        return fail("its weights are no integers".into());
    }
    if columns > dot.most_columns {
        return fail(format!("{columns} columns are more than {}", dot.most_columns));
    }
    let mut shape = *dot.shape(columns);
    if columns == 1 {
        // What a lane has under way is what hides memory: where a chunk is small, it takes one of two rows.
        shape.rows = shape.rows.max(LOADED / format.chunk);
    }
    let tile = Tile::of(policy, &shape, class, groups, columns);
    match tile.stage {
        0 => fail("no part of x fits in shared memory".into()),
        _ => Ok(tile),
    }
}

impl Tile {
    /// A shape fitted to a product: workgroups small enough that the device is busy, and few enough that x is not rounded more often than that.
    fn of(policy: &Policy, shape: &DotShape, class: &ProductClass, groups: u32, columns: u32) -> Tile {
        let dot = &policy.dot;
        let &ProductClass { format, m, k, gated } = class;
        // A row of few chunks leaves the other lanes to other rows.
        let chunks = k.div_ceil(format.chunk).next_power_of_two().max(2);
        let lanes = dot.lanes.min(policy.subgroup_size).min(chunks);
        let rows = if gated { (shape.rows / 2).max(1) } else { shape.rows };
        let columns = columns.div_ceil(columns.div_ceil(shape.columns));
        let mut tile = Tile {
            lanes,
            bytes: dot.bytes,
            rows,
            columns,
            subgroups: shape.subgroups,
            stage: 1,
            batches: 1,
            ahead: shape.ahead,
        };
        let batches = |tile: &Tile| groups.saturating_mul(m.div_ceil(tile.batch_rows(policy.subgroup_size)));
        if k > DotShape::LONG && few_batches(policy, batches(&tile)) {
            match gated {
                true => [tile.rows, tile.subgroups] = shape.long_gated,
                false => tile.subgroups = shape.long_subgroups,
            }
        }
        while batches(&tile) < dot.busy_groups && (tile.rows > 1 || tile.subgroups > 4) {
            if tile.rows > 1 { tile.rows /= 2 } else { tile.subgroups = (tile.subgroups / 2).max(4) }
        }
        tile = tile.within(format, k, dot.stage_bytes);
        // A workgroup that does not hold x rounds all of it: better one a multiprocessor with twice the rows than two.
        let single = tile.columns == 1 && tile.rows == 1;
        if single && !tile.holds(format, k) && batches(&tile) > policy.gemm.costs.units {
            tile.rows = 2;
            tile.ahead &= format.chunk as usize * format.block_bytes <= AHEAD_BYTES * format.block_elems;
        }
        tile.balanced(policy, class, groups)
    }

    /// The tile with somewhat fewer or more subgroups where that leaves the busiest multiprocessor fewer rows.
    fn balanced(self, policy: &Policy, class: &ProductClass, groups: u32) -> Tile {
        let all =
            |tile: &Tile| groups.saturating_mul(class.m.div_ceil(tile.batch_rows(policy.subgroup_size)));
        let own = self.subgroups;
        let most = (own * 4 / 3).min(MOST_INVOCATIONS / policy.subgroup_size.max(1));
        // A vocabulary's workgroups are even as they are, and two of 512 invocations stream better there than one of 672: Gemma's 262,144 rows
        // took 343 us with these and 294 with those.
        let range =
            if own >= BALANCED && few_batches(policy, all(&self)) { own * 5 / 8..=most } else { own..=own };
        let tiles = range.map(|subgroups| {
            let tile = Tile { subgroups, ..self };
            Tile { batches: tile.even_batches(policy, class.format, class.k, all(&tile)), ..tile }
        });
        // Of equal ones its own, else the largest, whose workgroups round x less often.
        tiles
            .max_by_key(|t| (std::cmp::Reverse(t.busiest(policy, all(t))), t.subgroups == own, t.subgroups))
            .unwrap_or(self)
    }

    /// Rows of the multiprocessor that has the most, of `all` batches.
    fn busiest(&self, policy: &Policy, all: u32) -> u32 {
        let of_unit = all.div_ceil(self.batches).div_ceil(policy.gemm.costs.units);
        of_unit.saturating_mul(self.batches).saturating_mul(self.batch_rows(policy.subgroup_size))
    }

    /// Batches of a workgroup, of `all` that there are: so many that each multiprocessor has one workgroup, where it holds all of x.
    fn even_batches(&self, policy: &Policy, format: FormatRef, k: u32, all: u32) -> u32 {
        let dot = &policy.dot;
        match all.div_ceil(dot.busy_groups).max(1) {
            _ if !self.holds(format, k) => 1,
            few if few <= dot.most_batches => few,
            // Of a vocabulary every multiprocessor gets as many workgroups.
            _ => {
                let units = policy.gemm.costs.units;
                all.div_ceil(units * all.div_ceil(units * dot.most_batches))
            }
        }
    }

    /// With as much of x as fits into `bytes` of shared memory; a stage of 0 where nothing does. What the norms of a sublayer need beside is a ninth of it.
    fn within(self, format: FormatRef, k: u32, bytes: u32) -> Tile {
        let steps = k.div_ceil(format.chunk).div_ceil(self.lanes);
        let fits = |stage: u32| {
            let [staged, scales] = Tile { stage, ..self }.shared(format);
            16 * staged + 8 * scales <= bytes
        };
        // A team of one lane stages pairs of chunks, which may lie in each other's gaps.
        let unit = if self.lanes == 1 { 2 } else { 1 };
        let stage = if fits(steps) {
            steps
        } else {
            (1..=steps / unit).rev().map(|n| n * unit).find(|&n| fits(n)).unwrap_or(0)
        };
        Tile { stage, ..self }
    }

    /// Chunks of the stage, padded to 4 more than a multiple of 8.
    pub(super) fn pitch(&self) -> u32 {
        (self.stage * self.lanes + 4).next_multiple_of(8) - 4
    }

    /// Elements of the shader's shared arrays: quads of words, and scales.
    pub(super) fn shared(&self, format: FormatRef) -> [u32; 2] {
        let columns = self.columns * self.pitch();
        [columns * self.bytes * (format.chunk / 16), columns * (format.chunk / format.run)]
    }

    /// Whether a workgroup has all of x in its stage, so that it can take several batches of rows and norm x.
    pub fn holds(&self, format: FormatRef, k: u32) -> bool {
        self.stage * self.lanes >= k.div_ceil(format.chunk)
    }

    /// Sums of squares of a column, of 32 elements each.
    pub(super) fn squares(&self, format: FormatRef) -> u32 {
        self.stage * self.lanes * format.chunk / 32
    }

    /// Rows of a workgroup at a time.
    pub(super) fn batch_rows(&self, subgroup_size: u32) -> u32 {
        self.subgroups * (subgroup_size / self.lanes).max(1) * self.rows
    }

    /// Whether the numbers belong together on a device.
    pub(super) fn check(&self, subgroup_size: u32) -> Result<(), String> {
        let Tile { lanes, bytes, rows, columns, subgroups, stage, batches, .. } = *self;
        if !lanes.is_power_of_two() || lanes > subgroup_size {
            return Err(format!("{lanes} lanes are no power of two up to {subgroup_size}"));
        }
        if !(1..=2).contains(&bytes) || !(1..=16).contains(&rows) || !(1..=MOST_COLUMNS).contains(&columns) {
            return Err(format!("bytes are 1 or 2, rows 1 to 16, columns 1 to {MOST_COLUMNS}"));
        }
        if subgroups == 0 || batches == 0 || stage == 0 || !(stage * lanes).is_multiple_of(2) {
            return Err("subgroups, batches and an even number of staged chunks are at least 1".into());
        }
        Ok(())
    }
}

/// Whether a workgroup can take all the batches that a multiprocessor has, of `all`: of a vocabulary it has more.
fn few_batches(policy: &Policy, all: u32) -> bool {
    all.div_ceil(policy.dot.busy_groups) <= policy.dot.most_batches
}

/// The tiles worth measuring for a product.
pub fn candidates(policy: &Policy, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let mut all: Vec<Tile> = Vec::new();
    let own = *policy.dot.shape(columns);
    let mut add = |lanes: u32, bytes: u32, busy_groups: u32, stage_bytes: u32, shape: DotShape| {
        let mut policy = policy.clone();
        policy.dot.lanes = lanes;
        policy.dot.bytes = bytes;
        policy.dot.busy_groups = busy_groups;
        policy.dot.stage_bytes = stage_bytes;
        let tile = Tile::of(&policy, &shape, class, 1, columns);
        if tile.stage > 0 && !all.contains(&tile) {
            all.push(tile);
        }
    };
    let dot = &policy.dot;
    let lanes = [8, 16, 32, 64].into_iter().filter(|&l| l <= policy.subgroup_size);
    for (lanes, bytes) in lanes.flat_map(|l| [1, 2].map(|b| (l, b))) {
        for (rows, subgroups) in [1, 2, 4].into_iter().flat_map(|r| [4, 8, 16].map(|s| (r, s))) {
            add(
                lanes,
                bytes,
                1,
                dot.stage_bytes,
                DotShape {
                    rows,
                    subgroups,
                    long_subgroups: subgroups,
                    long_gated: [(rows / 2).max(1), subgroups],
                    ..own
                },
            );
        }
    }
    for busy in [dot.busy_groups, dot.busy_groups * 2, dot.busy_groups / 2, 1 << 20] {
        for (rows, subgroups) in [1, 2, 4].into_iter().flat_map(|r| [8, 16, 32].map(|s| (r, s))) {
            for ahead in [true, false] {
                add(
                    dot.lanes,
                    dot.bytes,
                    busy,
                    dot.stage_bytes,
                    DotShape {
                        rows,
                        subgroups,
                        long_subgroups: subgroups,
                        long_gated: [(rows / 2).max(1), subgroups],
                        ahead,
                        ..own
                    },
                );
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_quant::{by_name, formats};

    fn caps(vendor_id: u32) -> Capabilities {
        let mut caps = Capabilities { vendor_id, ..Default::default() };
        caps.subgroup.size = 32;
        caps.features.integer_dot = true;
        caps
    }

    #[test]
    fn integer_formats_have_a_kernel_and_no_others() {
        let caps = caps(0x10de);
        let policy = Policy::of(&caps);
        let without: Vec<&str> = formats()
            .iter()
            .filter(|&&format| {
                select(&caps, &policy, &ProductClass { format, m: 8, k: 512, gated: false }, 1).is_err()
            })
            .map(|f| f.name)
            .collect();
        assert_eq!(without, ["F32", "F16", "BF16"]);
        let format = by_name("Q4_K").unwrap();
        let class = ProductClass { format, m: 8, k: 512, gated: false };
        assert!(select(&caps, &policy, &class, 9).unwrap_err().to_string().contains("9 columns"));
        let none = Capabilities::default();
        assert!(select(&none, &policy, &class, 1).unwrap_err().to_string().contains("integer dot"));
    }

    #[test]
    fn tiles_fit_and_the_order_of_sums_does_not_depend_on_the_columns() {
        for vendor in [0x10de, 0x1002, 0] {
            let caps = caps(vendor);
            let policy = Policy::of(&caps);
            for (&format, (m, k)) in formats()
                .iter()
                .flat_map(|f| [(256, 12_288), (4096, 4096), (151_936, 1024), (1, 65_536)].map(|s| (f, s)))
            {
                let class = ProductClass { format, m, k, gated: m == 4096 };
                for columns in 1..=8 {
                    let Ok(tile) = select(&caps, &policy, &class, columns) else { continue };
                    let alone = select(&caps, &policy, &class, 1).unwrap();
                    assert_eq!((tile.lanes, tile.bytes), (alone.lanes, alone.bytes));
                    assert_eq!(tile.check(32), Ok(()));
                    let [staged, scales] = tile.shared(format);
                    assert!(16 * staged + 8 * scales <= policy.dot.stage_bytes, "{tile:?}");
                }
            }
        }
    }

    /// 5,376 rows are 168 workgroups of 32 or 112 with three batches of 16, on 132 multiprocessors.
    #[test]
    fn rows_are_spread_evenly() {
        let caps = caps(0x10de);
        let policy = Policy::of(&caps);
        let format = by_name("Q4_K").expect("a format of the list");
        for (m, k, gated, most) in [
            (5376, 8192, false, 42),
            (5376, 21_504, false, 42),
            (21_504, 5376, true, 168),
            (4096, 4096, false, 32),
            (12_288, 4096, true, 96),
            (262_144, 5376, false, 2048),
        ] {
            let tile = select(&caps, &policy, &ProductClass { format, m, k, gated }, 1).unwrap();
            let busiest = tile.busiest(&policy, m.div_ceil(tile.batch_rows(32)));
            assert!(busiest <= most, "{m}: {busiest} rows of {tile:?}");
        }
    }
}
