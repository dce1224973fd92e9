//! How attention is cut into workgroups, by class of device.

use super::lanes::{LanesPolicy, LanesTile};
use super::matrix::{MatrixPolicy, MatrixTile};
use super::tile::{LANES, Tile, TilePolicy};
use crate::launch::{refuse, threads};
use crate::{DeviceClass, Kernels, Precision, Unsupported};
use zinc_vulkan::Capabilities;

/// Tuning of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionPolicy {
    /// Keys of a block, a power of two. Changes the order of sums.
    pub key_block: u32,
    /// Invocations of a workgroup that takes a block of keys.
    pub threads: u32,
    /// Most query heads of a KV head that share the loads of its keys and values there.
    pub heads: u32,
    /// Most blocks that one workgroup joins; of more, first those of each span. Does not change sums.
    pub at_once: u32,
    /// Loads that an invocation has under way there, about. Does not change sums.
    pub ahead: u32,
    /// Workgroups that keep the device busy there: with more blocks, each takes all blocks of a span. Does not change sums.
    pub busy_groups: u32,
    /// Shared memory of a workgroup there at most, were the cache f32. Does not change sums.
    pub shared_bytes: u32,
    /// Fewest rows of a sequence side by side that are computed in tiles: as many as keep the device busy.
    pub tiled_rows: u32,
    /// How tiles are cut.
    pub tile: TilePolicy,
    /// How tiles on matrix cores are cut, where inexact results are allowed.
    pub matrix: MatrixPolicy,
    /// How they are where weights can stay in their lanes ([`crate::lanes`]).
    pub lanes: Option<LanesPolicy>,
}

impl AttentionPolicy {
    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> AttentionPolicy {
        let tile = TilePolicy {
            threads: 128,
            queries: 64,
            blocks: 2,
            key_threads: 16,
            columns: 2,
            values: 64,
            stage: 32,
            value_keys: 16,
            shared_bytes: u32::MAX,
        };
        let matrix = MatrixPolicy {
            rows: 32,
            row_groups: 4,
            column_groups: 1,
            row_tiles: 1,
            keys: 64,
            stage: 128,
            value_keys: 64,
            values: 64,
            shared_bytes: u32::MAX,
        };
        match class {
            // Measured on a Hopper card at 128 to 8,192 keys. Longer blocks gain a tenth at 8,192 and lose as much at 128.
            DeviceClass::Nvidia => AttentionPolicy {
                key_block: 32,
                threads: 128,
                heads: 4,
                at_once: 64,
                ahead: 8,
                busy_groups: 512,
                shared_bytes: u32::MAX,
                tiled_rows: 48,
                tile,
                matrix,
                // Measured on a Hopper card: heads of 256 would leave no registers for loads ahead.
                lanes: Some(LanesPolicy { row_groups: (8, 4), keys: 48, head_size: 128, busy_groups: 128 }),
            },
            // By the compiler's figures for gfx1201 in waves of 64 (docs/rdna4.md): four waves a SIMD or more for heads of 128, 256 and
            // 512. What bounds them is shared memory, of which a SIMD has 32 KiB.
            DeviceClass::Amd => AttentionPolicy {
                key_block: 32,
                threads: 256,
                heads: 4,
                at_once: 64,
                ahead: 8,
                busy_groups: 256,
                shared_bytes: 48 << 10,
                tiled_rows: 32,
                tile: TilePolicy { threads: 256, columns: 4, value_keys: 8, shared_bytes: 32 << 10, ..tile },
                // Likewise: 23 KiB of shared memory for heads of 128.
                matrix: MatrixPolicy {
                    keys: 32,
                    value_keys: 16,
                    values: 32,
                    shared_bytes: 46 << 10,
                    ..matrix
                },
                lanes: None,
            },
            DeviceClass::Other => AttentionPolicy {
                key_block: 64,
                threads: 128,
                heads: 4,
                at_once: 64,
                ahead: 8,
                busy_groups: 128,
                shared_bytes: u32::MAX,
                tiled_rows: 32,
                tile: TilePolicy { blocks: 1, ..tile },
                matrix: MatrixPolicy { keys: 32, ..matrix },
                lanes: None,
            },
            DeviceClass::Software => AttentionPolicy {
                key_block: 32,
                threads: 64,
                heads: 4,
                at_once: 16,
                ahead: 2,
                busy_groups: 16,
                shared_bytes: u32::MAX,
                tiled_rows: 4,
                // Short code: such drivers take seconds to compile an unrolled tile.
                tile: TilePolicy {
                    threads: 64,
                    queries: 16,
                    blocks: 1,
                    key_threads: 8,
                    columns: 1,
                    values: 64,
                    stage: 16,
                    value_keys: 8,
                    ..tile
                },
                matrix: MatrixPolicy {
                    rows: 4,
                    row_groups: 2,
                    // More than one: see the suite for what such a driver's subgroups wait for.
                    column_groups: 2,
                    keys: 16,
                    stage: 32,
                    value_keys: 8,
                    values: u32::MAX,
                    ..matrix
                },
                lanes: None,
            },
        }
    }
}

/// What the choice of a variant depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a query or key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
}

impl Shape {
    /// Query heads of a KV head.
    pub(super) fn group(&self) -> u32 {
        self.heads / self.kv_heads
    }

    /// A KV head's query heads in equal shares: heads of a share, and shares. 7 query heads at most 4 at a time are 4 and 3.
    pub(super) fn shares(&self, most: u32) -> (u32, u32) {
        let group = self.group();
        let heads = group.div_ceil(group.div_ceil(most));
        (heads, group.div_ceil(heads))
    }
}

/// How attention is computed. The exact ways, all but [`Variant::Matrix`] and [`Variant::Lanes`], give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Every row for itself, its keys split over workgroups: for few rows.
    Split(Split),
    /// Rows in tiles that share the loads of keys and values: for many rows of a sequence.
    Tiled(Tile),
    /// The same on matrix cores, with inputs rounded to f16.
    Matrix(MatrixTile),
    /// The same, whose weights stay in the lanes' registers.
    Lanes(LanesTile),
}

impl Variant {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Variant::Split(_) => "split",
            Variant::Tiled(_) => "tiled",
            Variant::Matrix(_) => "matrix",
            Variant::Lanes(_) => "lanes",
        }
    }
}

/// The specialisation of `split.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Query heads that a workgroup works on.
    pub heads: u32,
    /// Workgroups that share a KV head's query heads.
    pub splits: u32,
    /// Keys of a block.
    pub key_block: u32,
    /// Elements of a value in shared memory at a time.
    pub value_part: u32,
    /// Most blocks that one workgroup joins.
    pub at_once: u32,
    /// Loads that an invocation has under way, about.
    pub ahead: u32,
    /// A workgroup takes all blocks of a span; values are in shared memory whole then.
    pub whole_spans: bool,
}

/// The variant for a shape and this many rows of a sequence side by side.
///
/// # Errors
/// As [`Split::of`].
pub fn select(
    policy: &AttentionPolicy,
    precision: Precision,
    subgroup_size: u32,
    caps: &Capabilities,
    shape: &Shape,
    run: u32,
) -> Result<Variant, Unsupported> {
    let split = Split::of(policy, subgroup_size, caps, shape)?;
    if precision == Precision::Fast && run >= policy.matrix.rows {
        let lanes = policy.lanes.and_then(|own| LanesTile::of(&own, caps, shape, run));
        let matrix = || MatrixTile::of(&policy.matrix, subgroup_size, caps, shape);
        if let Some(found) = lanes.map(Variant::Lanes).or_else(|| matrix().map(Variant::Matrix)) {
            return Ok(found);
        }
    }
    let tile = match run >= policy.tiled_rows {
        true => Tile::of(&policy.tile, policy.key_block, subgroup_size, caps, shape),
        false => None,
    };
    Ok(tile.map_or(Variant::Split(split), Variant::Tiled))
}

impl Split {
    /// The specialisation for a shape.
    ///
    /// # Errors
    /// Head sizes that are no multiple of 8 or above 1,024, query heads that do not divide among the KV heads, too little shared memory.
    pub fn of(
        policy: &AttentionPolicy,
        subgroup_size: u32,
        caps: &Capabilities,
        shape: &Shape,
    ) -> Result<Split, Unsupported> {
        let &Shape { heads, kv_heads, key_size, value_size } = shape;
        if [key_size, value_size].iter().any(|s| !(8..=1024).contains(s) || !s.is_multiple_of(8)) {
            let reason =
                format!("heads of {key_size} and {value_size}; multiples of 8 up to 1024 are possible");
            return refuse("attention", reason);
        }
        if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refuse("attention", format!("{heads} query heads on {kv_heads} KV heads"));
        }
        let (workgroup, key_block) = (threads(caps, subgroup_size, policy.threads), policy.key_block);
        if !(key_block * LANES).is_multiple_of(workgroup) {
            return refuse("attention", format!("{key_block} keys do not divide among {workgroup} lanes"));
        }
        let group = shape.group();
        let limit = u64::from(caps.limits.shared_memory.min(policy.shared_bytes));
        let fits =
            |heads: u32, part: u32| shared_bytes(heads, key_size, value_size, part, key_block) <= limit;
        // Values in as few parts as fit beside as many heads as share them.
        let most = value_size.min(8192 / key_block);
        let parts = || (1..=most / 8).rev().map(|chunks| 8 * chunks);
        let choices = (1..=group.min(policy.heads)).rev().flat_map(|n| parts().map(move |part| (n, part)));
        let Some((heads, value_part)) = choices.into_iter().find(|&(n, part)| fits(n, part)) else {
            return refuse("attention", format!("heads of {key_size} need more shared memory than there is"));
        };
        let (heads, splits) = shape.shares(heads);
        // Parts of the same size.
        let value_part = value_size.div_ceil(value_size.div_ceil(value_part)).next_multiple_of(8);
        Ok(Split {
            threads: workgroup,
            heads,
            splits,
            key_block,
            value_part,
            at_once: policy.at_once,
            ahead: policy.ahead,
            whole_spans: false,
        })
    }
}

impl Split {
    /// In the order of their numbers in the shader.
    pub(super) fn specialization(&self, shape: &Shape) -> [(u32, u32); 10] {
        [
            (0, self.threads),
            (2, shape.key_size),
            (3, shape.value_size),
            (4, self.heads),
            (5, self.key_block),
            (6, self.value_part),
            (7, shape.group()),
            (8, self.at_once),
            (9, self.ahead),
            (16, u32::from(self.whole_spans)),
        ]
    }
}

/// Cuts of a shape that a sweep tries, the policy's own first. They give the same bits.
pub fn split_candidates(k: &Kernels, shape: &Shape) -> Vec<Split> {
    let own = k.policy().attention;
    let mut all: Vec<Split> = Vec::new();
    let mut add = |policy: &AttentionPolicy| {
        let split = Split::of(policy, k.subgroup_size(), k.caps(), shape).ok();
        for whole_spans in [false, true] {
            let split = split.filter(|s| !whole_spans || s.value_part == shape.value_size);
            let split = split.map(|s| Split { whole_spans, ..s });
            all.extend(split.filter(|s| !all.contains(s)));
        }
    };
    add(&own);
    for threads in [128, 256] {
        for heads in [1, 2, 4] {
            add(&AttentionPolicy { threads, heads, ..own });
        }
    }
    for (ahead, at_once) in [(4, 64), (8, 32), (8, 64), (8, 128)] {
        add(&AttentionPolicy { ahead, at_once, ..own });
    }
    all
}

/// Shared memory of `split.glsl` on a cache of f32.
fn shared_bytes(heads: u32, key_size: u32, value_size: u32, value_part: u32, key_block: u32) -> u64 {
    let partials = LANES * (heads * key_block + 4);
    // Beside the queries lie the row's own key, and both it and the value as the cache has them.
    let own = 2 * key_size + value_size;
    let floats = heads * (key_size + key_block + 1) + own + partials + key_block * value_part;
    u64::from(floats) * 4
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zinc_vulkan::{ComponentType, Features, Limits, MatrixScope, MatrixShape, Subgroup};

    fn caps(shared_memory: u32) -> Capabilities {
        Capabilities {
            limits: Limits { shared_memory, workgroup_invocations: 1024, ..Default::default() },
            subgroup: Subgroup { max_workgroup_subgroups: 256, ..Default::default() },
            ..Default::default()
        }
    }

    pub fn with_matrices(shared_memory: u32, side: u32) -> Capabilities {
        let shape = |result| MatrixShape {
            m: side,
            n: side,
            k: side,
            a: ComponentType::F16,
            b: ComponentType::F16,
            c: result,
            result,
            scope: MatrixScope::Subgroup,
            saturating: false,
        };
        Capabilities {
            features: Features { shader_f16: true, ..Default::default() },
            cooperative_matrix: vec![shape(ComponentType::F16), shape(ComponentType::F32)],
            ..caps(shared_memory)
        }
    }

    const CLASSES: [DeviceClass; 4] =
        [DeviceClass::Nvidia, DeviceClass::Amd, DeviceClass::Software, DeviceClass::Other];

    #[test]
    fn every_shape_fits_in_the_least_shared_memory() {
        for class in CLASSES {
            for subgroup in [4, 8, 16, 32, 64] {
                for (heads, kv_heads, key_size, value_size) in [
                    (32, 8, 128, 128),
                    (14, 2, 64, 64),
                    (16, 2, 256, 256),
                    (32, 4, 512, 512),
                    (9, 3, 64, 64),
                    (1, 1, 192, 128),
                    (2, 2, 8, 512),
                    (71, 1, 64, 64),
                    (16, 1, 16, 8),
                ] {
                    let shape = Shape { heads, kv_heads, key_size, value_size };
                    let policy = AttentionPolicy::of(class);
                    let v = Split::of(&policy, subgroup, &caps(32768), &shape).expect("a variant");
                    assert!(v.heads * v.splits >= heads / kv_heads && v.heads > 0);
                    assert!(v.threads.is_multiple_of(subgroup) && v.key_block.is_multiple_of(v.threads / 8));
                    assert!(v.value_part.is_multiple_of(8));

                    let t = Tile::of(&policy.tile, policy.key_block, subgroup, &caps(32768), &shape);
                    let t = t.unwrap_or_else(|| panic!("no tile for {shape:?} on {class:?}, {subgroup}"));
                    assert!(t.heads * t.splits >= heads / kv_heads && t.rows() > 0);
                    let (keys, rows) = (t.blocks * t.key_block, t.threads / t.key_threads);
                    assert!(
                        t.queries.is_multiple_of(rows) && keys.is_multiple_of(4 * t.key_threads),
                        "{t:?}"
                    );
                    assert!(t.queries.is_multiple_of(t.threads / t.column_threads), "{t:?}");
                    assert!(t.key_block.is_multiple_of(t.value_keys) && t.value_keys.is_multiple_of(4));
                }
            }
        }
    }

    #[test]
    fn many_rows_of_a_sequence_are_tiled() {
        let shape = Shape { heads: 32, kv_heads: 8, key_size: 128, value_size: 128 };
        for class in CLASSES {
            let policy = AttentionPolicy::of(class);
            let name =
                |run| select(&policy, Precision::Exact, 32, &caps(32768), &shape, run).map(|v| v.name());
            assert_eq!(name(1), Ok("split"));
            assert_eq!(name(512), Ok("tiled"));
            assert_eq!(name(policy.tiled_rows), Ok("tiled"));
        }
    }

    #[test]
    fn matrix_cores_take_many_rows_where_results_may_be_inexact() {
        for (class, lanes, side, shared) in [
            (DeviceClass::Nvidia, 32, 16, 48 << 10),
            (DeviceClass::Amd, 64, 16, 64 << 10),
            (DeviceClass::Amd, 32, 16, 64 << 10),
            (DeviceClass::Other, 32, 16, 48 << 10),
            (DeviceClass::Software, 8, 8, 32 << 10),
        ] {
            let policy = AttentionPolicy { lanes: None, ..AttentionPolicy::of(class) };
            let able = with_matrices(shared, side);
            for (heads, kv_heads, key_size, value_size) in [
                (32, 8, 128, 128),
                (14, 2, 64, 64),
                (16, 2, 256, 256),
                (32, 4, 512, 512),
                (8, 8, 192, 128),
                (71, 1, 80, 40),
            ] {
                let shape = Shape { heads, kv_heads, key_size, value_size };
                let name = |precision, caps: &Capabilities, run| {
                    select(&policy, precision, lanes, caps, &shape, run).map(|v| v.name())
                };
                assert_eq!(name(Precision::Fast, &able, 512), Ok("matrix"), "{class:?} {lanes} {shape:?}");
                assert_eq!(name(Precision::Fast, &able, 1), Ok("split"));
                assert_eq!(name(Precision::Exact, &able, 512), Ok("tiled"));
                assert_eq!(name(Precision::Fast, &caps(shared), 512), Ok("tiled"));
                let tile = MatrixTile::of(&policy.matrix, lanes, &able, &shape).expect("a tile");
                assert!(tile.heads * tile.splits >= heads / kv_heads && tile.rows() > 0, "{tile:?}");
                assert!(tile.keys.is_multiple_of(side * tile.column_groups), "{tile:?}");
                assert!(tile.keys.is_multiple_of(tile.value_keys) && tile.value_keys.is_multiple_of(side));
                assert!(key_size.div_ceil(side).is_multiple_of(tile.stage_steps), "{tile:?}");
                assert!(tile.threads() <= 1024, "{tile:?}");
            }
        }
    }

    #[test]
    fn what_is_impossible_is_refused() {
        let policy = AttentionPolicy::of(DeviceClass::Other);
        let shape = Shape { heads: 8, kv_heads: 2, key_size: 128, value_size: 128 };
        assert!(Split::of(&policy, 32, &caps(4096), &shape).is_err());
        assert!(Split::of(&policy, 32, &caps(32768), &Shape { key_size: 100, ..shape }).is_err());
        assert!(Split::of(&policy, 32, &caps(32768), &Shape { kv_heads: 3, ..shape }).is_err());
    }
}
