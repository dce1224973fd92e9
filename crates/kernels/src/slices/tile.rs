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
}

impl SlicesPolicy {
    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> SlicesPolicy {
        // 5 to 8 columns: tiles take half as long again and want a conversion, integer dots twice as long (bench/results/2026-11-30-h200-slices.txt).
        let most_columns = if class == DeviceClass::Nvidia { 8 } else { 0 };
        SlicesPolicy { from_columns: 5, most_columns }
    }
}

/// How the work is cut. The order of sums depends on the product alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Matrices of 16 rows (of each weight matrix) whose sums a workgroup keeps before they are added up.
    pub tiles: u32,
    /// Workgroups, which share the rows evenly.
    pub groups: u32,
}

/// Rows of a matrix.
const ROWS: u32 = 16;
/// Subgroups of a workgroup at most, one for each slice: twice as many would have too few registers.
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
    let tile = Tile::of(caps, policy, class);
    match tile.check(caps, policy, class) {
        Ok(()) => Ok(tile),
        Err(reason) => fail(reason),
    }
}

/// The tiles worth measuring for a product; none for more columns than the policy takes.
pub fn candidates(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32) -> Vec<Tile> {
    if columns > policy.slices.most_columns {
        return Vec::new();
    }
    let own = Tile::of(caps, policy, class);
    let others = [
        Tile { groups: 2 * own.groups, tiles: own.tiles.div_ceil(2) },
        Tile { tiles: own.tiles.div_ceil(2), ..own },
    ];
    [own].into_iter().chain(others).filter(|t| t.check(caps, policy, class).is_ok()).collect()
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
    fn of(caps: &Capabilities, policy: &Policy, class: &ProductClass) -> Tile {
        let all = class.m.div_ceil(ROWS).max(1);
        // Short rows have few slices; then there are several workgroups a multiprocessor.
        let units = policy.gemm.costs.units.max(1) * (MOST_SUBGROUPS / slices(class).max(1)).max(1);
        let each = all.div_ceil(units);
        let mut tile = Tile { tiles: each, groups: all.div_ceil(each) };
        while tile.tiles > 1 && tile.shared_bytes(class) > caps.limits.shared_memory {
            tile.tiles -= 1;
        }
        // As even batches as possible.
        tile.tiles = each.div_ceil(each.div_ceil(tile.tiles));
        tile
    }

    /// Pairs of words of a subgroup in shared memory: its sums, and in their place x on its way from lane to lane.
    fn region(&self, class: &ProductClass) -> u32 {
        let matrices = if class.gated { 2 } else { 1 };
        (self.tiles * matrices * 2 * LANES).max(class.format.chunk / 8 * LANES)
    }

    /// The shader's constants that follow from the tile.
    pub(super) fn specialization(&self, class: &ProductClass) -> [(u32, u32); 3] {
        [(0, slices(class) * LANES), (1, self.tiles), (2, self.region(class))]
    }

    /// Shared memory of a workgroup: that of its subgroups, and the tables of a format that looks codes up.
    fn shared_bytes(&self, class: &ProductClass) -> u32 {
        let table = if class.format.glsl.contains("HAS_TABLE") { 128 } else { 0 };
        8 * slices(class) * self.region(class) + table
    }

    /// Whether the numbers belong together on a device.
    pub(super) fn check(
        &self,
        caps: &Capabilities,
        policy: &Policy,
        class: &ProductClass,
    ) -> Result<(), String> {
        let &ProductClass { format, m, k, .. } = class;
        let &Tile { tiles, groups } = self;
        let subgroups = slices(class);
        if policy.slices.most_columns == 0 || policy.subgroup_size != LANES {
            return Err("the device's matrices lie in other lanes".into());
        }
        if m == 0 || k == 0 || !(k as usize).is_multiple_of(format.block_elems) {
            return Err(format!("a product of {m}×{k}"));
        }
        if shader("slices", &[("FORMAT", format.name), ("GATE", "no")]).is_none() {
            return Err("its weights are no integers".into());
        }
        if subgroups > MOST_SUBGROUPS {
            return Err(format!("{subgroups} slices of a row, {MOST_SUBGROUPS} at most"));
        }
        if tiles == 0 || tiles > m.div_ceil(ROWS) {
            return Err(format!("sums of {tiles} matrices of {m} rows"));
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
                (1024, 2048, false),
                (151_936, 1024, false),
                (7, 256, false),
                (1000, 96, false),
            ] {
                let class = ProductClass { format, m, k, gated };
                for columns in [1, 8] {
                    let Ok(tile) = select(&caps, &policy, &class, columns) else {
                        let long = slices(&class) > MOST_SUBGROUPS;
                        assert!(long || !(k as usize).is_multiple_of(format.block_elems), "{name} {m}×{k}");
                        continue;
                    };
                    let each = m.div_ceil(ROWS).div_ceil(tile.groups);
                    let units = 132 * (MOST_SUBGROUPS / slices(&class)).max(1);
                    assert_eq!(each, m.div_ceil(ROWS).div_ceil(units), "{tile:?}");
                    assert!(tile.shared_bytes(&class) <= 48 << 10, "{tile:?}");
                }
            }
        }
    }

    /// Sums of as many rows as there is room for, in even batches.
    #[test]
    fn sums_are_added_up_seldom() {
        let caps = caps();
        let policy = Policy::of(&caps);
        let format = by_name("Q4_K").expect("a format of the list");
        for (m, k, gated, wanted) in [
            (12_288, 4096, false, (6, 128)),
            (12_288, 4096, true, (3, 128)),
            (4096, 4096, false, (2, 128)),
            (1024, 4096, false, (1, 64)),
            (9728, 2560, false, (5, 122)),
        ] {
            let tile = select(&caps, &policy, &ProductClass { format, m, k, gated }, 8).unwrap();
            assert_eq!((tile.tiles, tile.groups), wanted, "{m}×{k}");
        }
    }

    /// What the shader declares was counted.
    #[test]
    fn shared_memory_is_enough() {
        let caps = caps();
        let policy = Policy::of(&caps);
        let variants = formats().iter().flat_map(|&f| [("no", false), ("yes", true)].map(|g| (f, g)));
        for (format, (gate, gated)) in variants {
            for (m, k) in [(12_288, 4096), (151_936, 1024)] {
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
