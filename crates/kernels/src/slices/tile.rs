//! How a product by slices is cut.

use crate::gemv::ProductClass;
use crate::lanes::LANES;
use crate::{DeviceClass, Policy, Unsupported, shader};
use zinc_vulkan::Capabilities;

/// Tuning of products by slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlicesPolicy {
    /// Fewest columns for which the fast policy takes them.
    pub from_columns: u32,
    /// Most; 0 where the device's matrices are not what the kernel wants ([`crate::lanes`]).
    pub most_columns: u32,
    /// Multiprocessors.
    pub units: u32,
}

impl SlicesPolicy {
    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> SlicesPolicy {
        // 5 to 8 columns: tiles take half as long again and want a conversion, integer dots twice as long (bench/results/2026-11-30-h200-slices.txt).
        let most_columns = if class == DeviceClass::Nvidia { 8 } else { 0 };
        SlicesPolicy { from_columns: 5, most_columns, units: 132 }
    }
}

/// How the work is cut. The order of sums depends on `subgroups` and the format alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Subgroups of a workgroup: each takes every so many-th slice of K.
    pub subgroups: u32,
    /// Columns of a workgroup, 8 or 16.
    pub columns: u32,
    /// Matrices of 16 rows (of each weight matrix) whose sums a workgroup keeps before they are added up.
    pub tiles: u32,
    /// Workgroups, which share the rows evenly.
    pub groups: u32,
}

/// Rows of a matrix.
const ROWS: u32 = 16;
/// Subgroups of a workgroup at most: each lane has a quarter of a subgroup's share of the registers.
const MOST_SUBGROUPS: u32 = 16;

/// The tile for a product of few columns.
///
/// # Errors
/// [`Unsupported`] where the device or the format has none, or the columns are more than the policy takes.
pub fn select(
    caps: &Capabilities,
    policy: &Policy,
    class: &ProductClass,
    columns: u32,
) -> Result<Tile, Unsupported> {
    let most = policy.slices.most_columns;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(class.format.name), reason });
    if columns == 0 || columns > most {
        return fail(format!("{columns} columns in slices, {most} at most"));
    }
    let mut reason = String::new();
    let mut best: Option<(f64, Tile)> = None;
    for subgroups in 1..=MOST_SUBGROUPS.min(slices(class).max(1)) {
        let tile = Tile::of(caps, policy, class, columns, subgroups);
        let cost = tile.cost(policy, class);
        match tile.check(caps, policy, class) {
            Ok(()) if best.is_none_or(|(least, _)| cost < least) => best = Some((cost, tile)),
            Ok(()) => {}
            Err(why) => reason = why,
        }
    }
    best.map(|(_, tile)| tile).map_or_else(|| fail(reason), Ok)
}

/// The tiles worth measuring for a product.
pub fn candidates(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let mut all = Vec::new();
    for subgroups in [4, 8, 10, 12, 14, 16].into_iter().filter(|&n| n <= slices(class)) {
        let own = Tile::of(caps, policy, class, columns, subgroups);
        for tile in [own, Tile { groups: 2 * own.groups, tiles: own.tiles.div_ceil(2), ..own }] {
            if tile.check(caps, policy, class).is_ok() {
                all.push(tile);
            }
        }
    }
    all
}

/// Whether a tile that was measured is one of a product.
pub fn fits(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32, tile: &Tile) -> bool {
    columns <= policy.slices.most_columns && tile.check(caps, policy, class).is_ok()
}

/// Slices of a row.
pub(super) fn slices(class: &ProductClass) -> u32 {
    class.k.div_ceil(class.format.chunk).div_ceil(4)
}

impl Tile {
    /// With as many workgroups as keep every multiprocessor busy with the same number of rows, and as many sums as shared memory has room for.
    fn of(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32, subgroups: u32) -> Tile {
        let all = class.m.div_ceil(ROWS).max(1);
        // Short rows have few slices; then there are several workgroups a multiprocessor.
        let units = policy.slices.units.max(1) * (MOST_SUBGROUPS / subgroups).max(1);
        let each = all.div_ceil(units);
        let mut tile = Tile {
            subgroups,
            columns: if columns > 8 { 16 } else { 8 },
            tiles: each,
            groups: all.div_ceil(each),
        };
        while tile.tiles > 1 && tile.shared_bytes(class) > caps.limits.shared_memory {
            tile.tiles -= 1;
        }
        // As even batches as possible.
        tile.tiles = each.div_ceil(each.div_ceil(tile.tiles));
        tile
    }

    /// Microseconds of an H200 beside what all tiles take: x that is taken anew for each batch of rows and each slice of a subgroup (16 subgroups of a multiprocessor take
    /// 2.2 µs for it), and steps, which are bound by their bytes or wait for memory.
    fn cost(&self, policy: &Policy, class: &ProductClass) -> f64 {
        let matrices = if class.gated { 2 } else { 1 };
        let busy = f64::from(self.subgroups * self.groups.div_ceil(policy.slices.units.max(1)));
        let each = class.m.div_ceil(ROWS).div_ceil(self.groups);
        let turns = slices(class).div_ceil(self.subgroups);
        let takes = if turns > 1 { turns * each.div_ceil(self.tiles) } else { 1 };
        // Of Q4_K's slices, which have 256 elements in 144 bytes.
        let elements = 4.0 * f64::from(class.format.chunk);
        let bytes = elements * class.format.block_bytes as f64 / class.format.block_elems as f64;
        let take = 1.0 + 0.08 * busy * f64::from(self.columns / 8) * elements / 256.0;
        let step = (0.068 * busy * bytes / 144.0).max(0.9);
        f64::from(takes) * take + f64::from(turns * each * matrices) * step
    }

    /// Pairs of words of a subgroup in shared memory, and where in them x goes through.
    pub(super) fn region(&self, class: &ProductClass) -> [u32; 2] {
        let matrices = if class.gated { 2 } else { 1 };
        let sums = self.tiles * matrices * self.columns / 8 * 2 * LANES;
        let stage = class.format.chunk / 8 * LANES;
        match slices(class) > self.subgroups {
            true => [sums + stage, sums],
            false => [sums.max(stage), 0],
        }
    }

    /// The shader's constants that follow from the tile.
    pub(super) fn specialization(&self, class: &ProductClass) -> [(u32, u32); 5] {
        let [region, stage_at] = self.region(class);
        [(0, self.subgroups * LANES), (1, self.tiles), (2, self.columns / 8), (3, region), (4, stage_at)]
    }

    /// Shared memory of a workgroup: that of its subgroups, and the tables of a format that looks codes up.
    fn shared_bytes(&self, class: &ProductClass) -> u32 {
        let table = if class.format.glsl.contains("HAS_TABLE") { 128 } else { 0 };
        8 * self.subgroups * self.region(class)[0] + table
    }

    /// Whether the numbers belong together on a device.
    pub(super) fn check(
        &self,
        caps: &Capabilities,
        policy: &Policy,
        class: &ProductClass,
    ) -> Result<(), String> {
        let &ProductClass { format, m, k, .. } = class;
        let &Tile { subgroups, columns, tiles, groups } = self;
        if policy.slices.most_columns == 0 || policy.subgroup_size != LANES {
            return Err("the device's matrices lie in other lanes".into());
        }
        if m == 0 || k == 0 || !(k as usize).is_multiple_of(format.block_elems) {
            return Err(format!("a product of {m}×{k}"));
        }
        if shader("slices", &[("FORMAT", format.name), ("GATE", "no")]).is_none() {
            return Err("its weights are no integers".into());
        }
        if subgroups == 0 || subgroups > MOST_SUBGROUPS || ![8, 16].contains(&columns) || tiles == 0 {
            return Err(format!("{self:?}: subgroups are 1 to {MOST_SUBGROUPS}, columns 8 or 16"));
        }
        if groups == 0 || groups > m.div_ceil(ROWS) || groups > 65_535 {
            return Err(format!("{groups} workgroups for {m} rows"));
        }
        let (threads, bytes) = (subgroups * LANES, self.shared_bytes(class));
        if threads > caps.limits.workgroup_invocations || bytes > caps.limits.shared_memory {
            return Err(format!("{threads} invocations with {bytes} bytes of shared memory"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_quant::{by_name, formats};

    fn caps() -> Capabilities {
        let mut caps = Capabilities { vendor_id: 0x10de, ..Default::default() };
        caps.subgroup.size = 32;
        caps.limits.shared_memory = 48 << 10;
        caps.limits.workgroup_invocations = 1024;
        caps
    }

    #[test]
    fn tiles_fit_and_give_multiprocessors_equal_rows() {
        let caps = caps();
        let policy = Policy::of(&caps);
        for name in ["Q4_K", "Q6_K", "Q8_0"] {
            let format = by_name(name).expect("a format of the list");
            for (m, k, gated) in [
                (12_288, 4096, true),
                (4096, 12_288, false),
                (5376, 21_504, false),
                (151_936, 1024, false),
                (7, 256, false),
                (1000, 96, false),
            ] {
                let class = ProductClass { format, m, k, gated };
                for columns in [1, 8] {
                    let Ok(tile) = select(&caps, &policy, &class, columns) else {
                        assert!(!(k as usize).is_multiple_of(format.block_elems), "{name} {m}×{k}");
                        continue;
                    };
                    let each = m.div_ceil(ROWS).div_ceil(tile.groups);
                    let units = 132 * (MOST_SUBGROUPS / tile.subgroups).max(1);
                    assert_eq!(each, m.div_ceil(ROWS).div_ceil(units), "{tile:?}");
                    assert!(tile.shared_bytes(&class) <= 48 << 10, "{tile:?}");
                }
            }
        }
    }

    /// x is taken once where a workgroup's subgroups are as many as slices, and as seldom as sums leave room for else.
    #[test]
    fn x_is_taken_seldom() {
        let caps = caps();
        let policy = Policy::of(&caps);
        let format = by_name("Q4_K").expect("a format of the list");
        for (m, k, gated, wanted) in [
            (12_288, 4096, false, (16, 6, 128)),
            (12_288, 4096, true, (16, 3, 128)),
            (4096, 4096, false, (16, 2, 128)),
            (1024, 4096, false, (16, 1, 64)),
            (4096, 12_288, false, (16, 2, 128)),
            (9728, 2560, false, (10, 5, 122)),
        ] {
            let tile = select(&caps, &policy, &ProductClass { format, m, k, gated }, 8).unwrap();
            assert_eq!((tile.subgroups, tile.tiles, tile.groups), wanted, "{m}×{k}");
        }
    }

    /// What the shader declares was counted.
    #[test]
    fn shared_memory_is_enough() {
        let caps = caps();
        let policy = Policy::of(&caps);
        let variants = formats().iter().flat_map(|&f| [("no", false), ("yes", true)].map(|g| (f, g)));
        for (format, (gate, gated)) in variants {
            for (m, k) in [(12_288, 4096), (4096, 12_288)] {
                let class = ProductClass { format, m, k, gated };
                let Ok(tile) = select(&caps, &policy, &class, 8) else { continue };
                let shader = shader("slices", &[("FORMAT", format.name), ("GATE", gate)]).unwrap();
                let spec = tile.specialization(&class);
                let found = zinc_vulkan::spirv::reflect(shader.spirv(), "main", &spec).unwrap();
                assert!(found.shared_bytes <= tile.shared_bytes(&class), "{format} {tile:?}: {found:?}");
            }
        }
    }

    #[test]
    fn other_devices_have_none() {
        let mut caps = caps();
        let format = by_name("Q4_K").expect("a format of the list");
        let class = ProductClass { format, m: 64, k: 256, gated: false };
        assert!(select(&caps, &Policy::of(&caps), &class, 4).is_ok());
        caps.vendor_id = 0x1002;
        assert!(select(&caps, &Policy::of(&caps), &class, 4).is_err());
    }
}
