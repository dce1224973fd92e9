//! A tile of rows on matrix cores whose weights stay in the lanes' registers: `attention_lanes.comp`, how it is cut and its dispatch.
//!
//! # Budget
//!
//! On an H200 at 1.755 GHz registers alone multiply 1,230 times a cycle of a multiprocessor. 128 queries times 48 keys of 128 elements, twice, take 1,280 cycles of that; its 8
//! subgroups load 48 matrices of 512 bytes each, 1,540 cycles at 128 bytes, and their 6,144 exponentials 384. Measured 2,890 cycles (252 TFLOP/s), where `attention_matrix.comp` takes
//! 3,880: there weights pass through shared memory, products wait for exponentials, and 64 queries share the loads of a key, 3.4 TB/s from the L2. Without barriers it would be
//! 14 % faster, without exponentials or loads of the cache not at all. What else was tried: `bench/results/2026-11-30-h200-attention-experiments.txt`.

use super::Shape;
use super::attention::Args;
use super::matrix::record_matrices;
use super::tiled;
use crate::lanes::LANES;
use crate::{Error, Kernel, Kernels};
use zinc_vulkan::{Capabilities, Recorder};

pub(super) const KERNEL: Kernel = tiled::kernel("attention_lanes");

/// Side of the matrices.
const SIDE: u32 = 16;

/// Tuning of these tiles. Only `keys` changes what a row's result depends on: the order of its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanesPolicy {
    /// Subgroups of a workgroup, each with 16 queries, at most and at least; powers of two.
    pub row_groups: (u32, u32),
    /// Keys at a time, a multiple of 16.
    pub keys: u32,
    /// Largest head: its queries and values stay in registers.
    pub head_size: u32,
    /// Workgroups that keep the device busy: with fewer they become smaller.
    pub busy_groups: u32,
}

/// The specialisation of `attention_lanes.comp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanesTile {
    /// Query heads of a KV head in the tile.
    pub heads: u32,
    /// Tiles that share a KV head's query heads.
    pub splits: u32,
    /// Subgroups of a workgroup.
    pub row_groups: u32,
    /// Keys at a time.
    pub keys: u32,
}

impl LanesTile {
    /// The tile of a policy for so many rows of a shape; `None` for heads that it does not take, and where it does not fit in shared memory.
    pub fn of(policy: &LanesPolicy, caps: &Capabilities, shape: &Shape, rows: u32) -> Option<LanesTile> {
        let sizes = [shape.key_size, shape.value_size];
        if sizes.iter().any(|s| !s.is_multiple_of(SIDE) || *s > policy.head_size) {
            return None;
        }
        let (most, least) = policy.row_groups;
        let of = |row_groups: u32| {
            let (heads, splits) = shape.shares(row_groups * SIDE);
            LanesTile { heads, splits, row_groups, keys: policy.keys }
        };
        let groups = |tile: &LanesTile| rows.div_ceil(tile.rows()) * tile.splits * shape.kv_heads;
        let mut tile = of(most);
        while (groups(&tile) < policy.busy_groups || !tile.holds_queries(shape)) && tile.row_groups > least {
            tile = of(tile.row_groups / 2);
        }
        let fits = tile.holds_queries(shape) && tile.shared_bytes(shape) <= caps.limits.shared_memory;
        fits.then_some(tile)
    }

    /// Pairs of row and query head.
    pub fn queries(&self) -> u32 {
        self.row_groups * SIDE
    }

    /// Rows of a tile.
    pub fn rows(&self) -> u32 {
        self.queries() / self.heads
    }

    /// 16 bytes of the buffer of keys, and of that of values.
    fn buffer(&self, shape: &Shape) -> u32 {
        self.keys * (shape.key_size.max(shape.value_size) / 8 + 1)
    }

    /// Whether both buffers hold a matrix along each query, on the queries' way to registers.
    fn holds_queries(&self, shape: &Shape) -> bool {
        2 * self.buffer(shape) / self.queries() > SIDE / 8
    }

    /// Shared memory of `attention_lanes.comp`.
    fn shared_bytes(&self, shape: &Shape) -> u32 {
        2 * self.buffer(shape) * 16 + 2 * self.queries() * 4
    }

    /// In the order of their numbers in the shader.
    fn specialization(&self, shape: &Shape, aligned: bool) -> [(u32, u32); 14] {
        [
            (0, self.row_groups * LANES),
            (1, shape.key_size),
            (2, shape.value_size),
            (3, self.heads),
            (4, self.keys),
            (5, self.row_groups),
            (6, 1),
            (7, 1),
            (8, SIDE),
            (9, SIDE),
            (10, SIDE),
            (11, shape.key_size / SIDE),
            (12, self.keys),
            (13, u32::from(aligned)),
        ]
    }
}

/// Tiles of a shape that a sweep tries; none where lanes do not hold matrices as known.
pub fn lanes_candidates(k: &Kernels, shape: &Shape) -> Vec<LanesTile> {
    let Some(own) = k.policy().attention.lanes else { return Vec::new() };
    let cuts = [4, 8].into_iter().flat_map(|groups| [32, 48, 64, 80].map(|keys| (groups, keys)));
    let of = |(groups, keys)| {
        let policy = LanesPolicy { row_groups: (groups, groups), keys, ..own };
        LanesTile::of(&policy, k.caps(), shape, 1)
    };
    cuts.filter_map(of).collect()
}

/// Records the kernel for all rows.
pub(super) fn record(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: &LanesTile,
) -> Result<(), Error> {
    let specialization = tile.specialization(&args.shape(), tiled::is_vec4(args));
    record_matrices(k, rec, label, args, (&KERNEL, &specialization), (tile.rows(), tile.splits))
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::with_matrices;
    use super::super::{AttentionPolicy, Variant, select};
    use super::*;
    use crate::{DeviceClass, Precision};

    #[test]
    fn weights_stay_in_lanes_where_heads_are_small() {
        let (policy, able) = (AttentionPolicy::of(DeviceClass::Nvidia), with_matrices(48 << 10, 16));
        let chosen = |heads, kv_heads, size, rows| {
            let shape = Shape { heads, kv_heads, key_size: size, value_size: size };
            select(&policy, Precision::Fast, 32, &able, &shape, rows).expect("a variant")
        };
        for (heads, kv_heads, size) in [(32, 8, 128), (14, 2, 64), (9, 3, 64), (71, 1, 80), (32, 32, 96)] {
            for rows in [32, 105, 512, 2048] {
                let Variant::Lanes(tile) = chosen(heads, kv_heads, size, rows) else {
                    panic!("{heads} heads of {size}")
                };
                assert!(tile.heads * tile.splits >= heads / kv_heads && tile.rows() > 0, "{tile:?}");
            }
        }
        assert!(matches!(chosen(32, 8, 128, 105), Variant::Lanes(LanesTile { row_groups: 4, .. })));
        assert!(matches!(chosen(32, 8, 128, 2048), Variant::Lanes(LanesTile { row_groups: 8, .. })));
        // Both buffers hold queries of heads of 16 only where there are few.
        assert!(matches!(chosen(8, 8, 16, 2048), Variant::Lanes(LanesTile { row_groups: 4, .. })));
        assert_eq!(chosen(16, 2, 256, 512).name(), "matrix");
        assert_eq!(chosen(8, 8, 40, 512).name(), "matrix");
    }
}
