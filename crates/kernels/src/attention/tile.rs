//! How a tile of rows is cut for a workgroup of `attention_tiled.comp`.

use super::Shape;
use crate::Kernels;
use crate::launch::threads;
use zinc_vulkan::Capabilities;

/// Tuning of tiles. None of it changes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TilePolicy {
    /// Invocations of a workgroup, a power of two.
    pub threads: u32,
    /// Pairs of row and query head at most, a power of two.
    pub queries: u32,
    /// Key blocks at a time: 1, 2 or 4.
    pub blocks: u32,
    /// Invocations side by side over the keys, a power of two.
    pub key_threads: u32,
    /// Groups of four columns of an invocation.
    pub columns: u32,
    /// Values of an invocation at most: `queries` is halved until they fit.
    pub values: u32,
    /// Elements of each key that are in shared memory at a time, about.
    pub stage: u32,
    /// Values that are in shared memory at a time, a power of two.
    pub value_keys: u32,
    /// Shared memory of a workgroup at most: workgroups side by side share what there is.
    pub shared_bytes: u32,
}

/// The specialisation of `attention_tiled.comp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Query heads of a KV head in the tile.
    pub heads: u32,
    /// Tiles that share a KV head's query heads.
    pub splits: u32,
    /// Keys of a block.
    pub key_block: u32,
    /// Pairs of row and query head.
    pub queries: u32,
    /// Key blocks at a time.
    pub blocks: u32,
    /// Invocations side by side over the keys.
    pub key_threads: u32,
    /// Invocations side by side over the columns.
    pub column_threads: u32,
    /// Partial sums of the scores whose elements are in shared memory at a time.
    pub stage_lanes: u32,
    /// Values in shared memory at a time.
    pub value_keys: u32,
    /// Whether the queries stay in shared memory.
    pub resident: bool,
}

/// `LANES` of the shaders.
pub(super) const LANES: u32 = 8;

impl Tile {
    /// The tile of a policy for a shape; `None` where none fits in shared memory or the shape leaves invocations without work.
    pub fn of(
        policy: &TilePolicy,
        key_block: u32,
        subgroup_size: u32,
        caps: &Capabilities,
        shape: &Shape,
    ) -> Option<Tile> {
        let threads = threads(caps, subgroup_size, policy.threads);
        let mut queries = policy.queries;
        while queries > 1 && queries * shape.value_size > policy.values * threads {
            queries /= 2;
        }
        while queries > 1 {
            for blocks in [policy.blocks, 1] {
                let tile = Tile::uncut(policy, key_block, threads, queries, blocks, shape);
                if let Some(tile) =
                    tile.and_then(|t| t.fitting(shape, caps.limits.shared_memory.min(policy.shared_bytes)))
                {
                    return Some(tile);
                }
            }
            queries /= 2;
        }
        None
    }

    /// A tile of so many queries, however much shared memory it takes.
    fn uncut(
        policy: &TilePolicy,
        key_block: u32,
        threads: u32,
        queries: u32,
        blocks: u32,
        shape: &Shape,
    ) -> Option<Tile> {
        let (heads, splits) = shape.shares(queries);
        let keys = blocks * key_block;
        // Every invocation has queries in both rectangles, and four keys side by side.
        let least = threads / queries.min(threads);
        let key_threads = policy.key_threads.max(least);
        let column_threads = (shape.value_size / 4).div_ceil(policy.columns).next_power_of_two();
        let (lane_elements, used_lanes) = lanes(shape.key_size);
        let stage_lanes = 1 << (policy.stage / lane_elements).max(1).ilog2();
        let possible = threads.is_power_of_two()
            && key_block.is_power_of_two()
            && key_threads <= threads
            && keys.is_multiple_of(4 * key_threads);
        possible.then_some(Tile {
            threads,
            heads,
            splits,
            key_block,
            queries,
            blocks,
            key_threads,
            column_threads: column_threads.clamp(least, threads),
            stage_lanes: used_lanes.next_power_of_two().min(stage_lanes),
            value_keys: policy.value_keys.min(key_block),
            resident: true,
        })
    }

    /// With less in shared memory at a time until it fits.
    fn fitting(mut self, shape: &Shape, shared_memory: u32) -> Option<Tile> {
        while self.shared_bytes(shape) > u64::from(shared_memory) {
            let (keys, values) = self.stages(shape);
            if self.resident {
                self.resident = false;
            } else if self.value_keys > 4 && (values > keys || self.stage_lanes == 1) {
                self.value_keys /= 2;
            } else if self.stage_lanes > 1 {
                self.stage_lanes /= 2;
            } else {
                return None;
            }
        }
        Some(self)
    }

    /// Rows of a tile.
    pub fn rows(&self) -> u32 {
        self.queries / self.heads
    }

    /// Keys at a time.
    fn keys(&self) -> u32 {
        self.blocks * self.key_block
    }

    /// Floats of the stages of keys and of values.
    fn stages(&self, shape: &Shape) -> (u32, u32) {
        let (lane_elements, _) = lanes(shape.key_size);
        let columns_each = (shape.value_size / 4).div_ceil(self.column_threads);
        let keys = self.keys() * (self.stage_lanes * lane_elements + 4);
        (keys, self.value_keys * self.column_threads * columns_each * 4)
    }

    /// Shared memory of `attention_tiled.comp`.
    fn shared_bytes(&self, shape: &Shape) -> u64 {
        let (lane_elements, used_lanes) = lanes(shape.key_size);
        let query_lanes = match self.resident {
            true => used_lanes.next_multiple_of(self.stage_lanes),
            false => self.stage_lanes,
        };
        let (keys, values) = self.stages(shape);
        let query = self.queries * (query_lanes * lane_elements + 4);
        let score = self.queries * (self.keys() + 4);
        let small = self.queries * (2 * self.blocks + 2) + 2 * self.keys() + 2 * self.rows();
        u64::from(query + keys.max(values) + score + small) * 4
    }

    /// In the order of their numbers in the shader, `aligned` last.
    pub(super) fn specialization(&self, shape: &Shape, aligned: bool) -> [(u32, u32); 13] {
        [
            (0, self.threads),
            (1, shape.key_size),
            (2, shape.value_size),
            (3, self.heads),
            (4, self.key_block),
            (5, self.queries),
            (6, self.blocks),
            (7, self.key_threads),
            (8, self.column_threads),
            (9, self.stage_lanes),
            (10, self.value_keys),
            (11, u32::from(self.resident)),
            (12, u32::from(aligned)),
        ]
    }
}

/// Elements of a partial sum of the scores, and how many there are.
fn lanes(key_size: u32) -> (u32, u32) {
    let chunks = key_size / 8;
    (8 * chunks.div_ceil(LANES), chunks.min(LANES))
}

/// Tiles of a shape that a sweep tries.
pub fn candidates(k: &Kernels, shape: &Shape) -> Vec<Tile> {
    let mut all = Vec::new();
    for (threads, queries, values) in
        [(64, 32, 64), (128, 32, 32), (128, 64, 64), (256, 64, 32), (256, 64, 64), (256, 128, 64)]
    {
        for (blocks, key_threads) in [(1, 8), (2, 8), (2, 16), (4, 16)] {
            for (columns, stage, value_keys) in
                [(1, 32, 16), (2, 32, 8), (2, 32, 16), (2, 64, 32), (4, 32, 16)]
            {
                let policy = TilePolicy {
                    threads,
                    queries,
                    blocks,
                    key_threads,
                    columns,
                    values,
                    stage,
                    value_keys,
                    shared_bytes: u32::MAX,
                };
                let key_block = k.policy().attention.key_block;
                let tile = Tile::of(&policy, key_block, k.subgroup_size(), k.caps(), shape);
                all.extend(tile.filter(|t| !all.contains(t)));
            }
        }
    }
    all
}
