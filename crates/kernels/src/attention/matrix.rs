//! A tile of rows on matrix cores: `attention_matrix.comp`, how it is cut and its dispatch.

use super::Shape;
use super::attention::Args;
use super::tiled::{self, Tiles, record_tiles};
use crate::{Error, Kernel, Kernels};
use zinc_vulkan::{Access, Capabilities, ComponentType, MatrixScope, MatrixShape, Recorder};

pub(super) const KERNEL: Kernel = tiled::kernel("attention_matrix");

/// Scores are powers of two in the shader.
pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// Tuning of tiles on matrix cores. None of it changes what a row's result depends on, but `keys` changes the order of its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixPolicy {
    /// Fewest rows of a sequence side by side.
    pub rows: u32,
    /// Row groups of a workgroup at most, a power of two.
    pub row_groups: u32,
    /// Subgroups of a row group at least, a power of two.
    pub column_groups: u32,
    /// Matrices of rows of a row group.
    pub row_tiles: u32,
    /// Keys at a time at most, a power of two.
    pub keys: u32,
    /// Elements of each key in shared memory at a time at most.
    pub stage: u32,
    /// Values in shared memory at a time at most, a power of two.
    pub value_keys: u32,
    /// Values that a lane keeps at most, about: columns are shared out among more subgroups until they do. Queries take as much or half of it besides.
    pub values: u32,
    /// Shared memory of a workgroup at most.
    pub shared_bytes: u32,
}

/// The specialisation of `attention_matrix.comp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixTile {
    /// Lanes of a subgroup.
    pub lanes: u32,
    /// The device's matrices: m × k times k × n.
    pub matrix: [u32; 3],
    /// Query heads of a KV head in the tile.
    pub heads: u32,
    /// Tiles that share a KV head's query heads.
    pub splits: u32,
    /// Row groups of a workgroup.
    pub row_groups: u32,
    /// Subgroups of a row group.
    pub column_groups: u32,
    /// Matrices of rows of a row group.
    pub row_tiles: u32,
    /// Keys at a time.
    pub keys: u32,
    /// Matrices along a key in shared memory at a time.
    pub stage_steps: u32,
    /// Values in shared memory at a time.
    pub value_keys: u32,
}

/// The matrices of a device that attention can use, m × k times k × n: f16 with sums in f32 and results also in f16. The largest, where there
/// are several.
pub fn matrix_of(caps: &Capabilities) -> Option<[u32; 3]> {
    let of = |result: ComponentType| {
        caps.cooperative_matrix.iter().filter(move |s| {
            s.scope == MatrixScope::Subgroup
                && (s.a, s.b) == (ComponentType::F16, ComponentType::F16)
                && (s.c, s.result) == (result, result)
        })
    };
    let halves = |s: &&MatrixShape| of(ComponentType::F16).any(|h| (h.m, h.n, h.k) == (s.m, s.n, s.k));
    let possible = |s: &&MatrixShape| s.m.is_multiple_of(4) && s.n.is_multiple_of(8) && s.k.is_multiple_of(8);
    let shapes = of(ComponentType::F32).filter(possible).filter(halves).map(|s| [s.m, s.n, s.k]);
    shapes.max_by_key(|s| s.iter().product::<u32>()).filter(|_| caps.features.shader_f16)
}

impl MatrixTile {
    /// The tile of a policy for a shape; `None` where the device has no matrices for it or none fits in its memory.
    pub fn of(policy: &MatrixPolicy, lanes: u32, caps: &Capabilities, shape: &Shape) -> Option<MatrixTile> {
        let matrix = matrix_of(caps)?;
        let most = caps.subgroup.max_workgroup_subgroups.min(caps.limits.workgroup_invocations / lanes);
        let shared = caps.limits.shared_memory.min(policy.shared_bytes);
        let halvings = |of: u32| (0..).map(move |i| of >> i).take_while(|&n| n > 0);
        // Fewer rows where fewer keys do not help: they load the keys more often. More values of a lane only where nothing else does.
        for values in [policy.values, u32::MAX] {
            for row_groups in halvings(policy.row_groups) {
                for keys in halvings(policy.keys) {
                    let tile = MatrixTile::uncut(policy, lanes, matrix, shape, row_groups, keys);
                    let tile = tile.and_then(|t| t.sharing(shape, policy.values));
                    let tile = tile.filter(|t| {
                        t.values(shape) <= values
                            && t.row_groups * t.column_groups <= most
                            // Whatever size is required of the pipeline.
                            && t.threads().is_multiple_of(caps.subgroup.size.max(1))
                    });
                    let tile = tile.and_then(|t| t.fitting(shape, shared));
                    if let Some(tile) = tile.filter(|t| t.is_unrolled(shape)) {
                        return Some(tile);
                    }
                }
            }
        }
        None
    }

    /// A tile of so many rows and keys, however much shared memory it takes.
    fn uncut(
        policy: &MatrixPolicy,
        lanes: u32,
        matrix: [u32; 3],
        shape: &Shape,
        row_groups: u32,
        keys: u32,
    ) -> Option<MatrixTile> {
        let [m, _, k] = matrix;
        let (heads, splits) = shape.shares(row_groups * policy.row_tiles * m);
        let key_steps = shape.key_size.div_ceil(k);
        let stage_steps =
            (1..=key_steps).filter(|s| key_steps.is_multiple_of(*s) && s * k <= policy.stage.max(k));
        Some(MatrixTile {
            lanes,
            matrix,
            heads,
            splits,
            row_groups,
            column_groups: policy.column_groups,
            row_tiles: policy.row_tiles,
            keys,
            stage_steps: stage_steps.max()?,
            value_keys: policy.value_keys.min(keys),
        })
    }

    /// With more subgroups a row group until a lane has at most so many values, or the keys divide no further.
    fn sharing(mut self, shape: &Shape, values: u32) -> Option<MatrixTile> {
        let [_, n, k] = self.matrix;
        let possible = |column_groups: u32| {
            self.keys.is_multiple_of(n * column_groups)
                && self.keys.is_multiple_of(k)
                && self.value_keys.is_multiple_of(k)
        };
        if !possible(self.column_groups) {
            return None;
        }
        while self.values(shape) > values && possible(2 * self.column_groups) {
            self.column_groups *= 2;
        }
        Some(self)
    }

    /// With less in shared memory at a time until it fits.
    fn fitting(mut self, shape: &Shape, shared_memory: u32) -> Option<MatrixTile> {
        while self.shared_bytes(shape) > u64::from(shared_memory) || self.query_room(shape) == 0 {
            let (keys, values) = self.stages(shape);
            if values > keys && self.value_keys > self.matrix[2] {
                self.value_keys /= 2;
            } else {
                let smaller = |s: &u32| self.stage_steps.is_multiple_of(*s);
                self.stage_steps = (1..self.stage_steps).rev().find(smaller)?;
            }
        }
        Some(self)
    }

    /// Whether the shader's code has a place for every stage of keys and every matrix of values.
    fn is_unrolled(&self, shape: &Shape) -> bool {
        let stages = shape.key_size.div_ceil(self.matrix[2]) / self.stage_steps;
        stages <= 16 && self.row_tiles * self.column_tiles(shape) <= 32
    }

    /// Pairs of row and query head.
    pub fn queries(&self) -> u32 {
        self.row_groups * self.row_tiles * self.matrix[0]
    }

    /// Rows of a tile.
    pub fn rows(&self) -> u32 {
        self.queries() / self.heads
    }

    /// Invocations of a workgroup.
    pub fn threads(&self) -> u32 {
        self.row_groups * self.column_groups * self.lanes
    }

    /// Columns of values of a subgroup, in matrices.
    fn column_tiles(&self, shape: &Shape) -> u32 {
        shape.value_size.div_ceil(self.matrix[1] * self.column_groups)
    }

    /// Values of a lane.
    fn values(&self, shape: &Shape) -> u32 {
        let [m, n, _] = self.matrix;
        self.row_tiles * self.column_tiles(shape) * m * n / self.lanes
    }

    /// 16 bytes of the stages of keys and of values.
    fn stages(&self, shape: &Shape) -> (u32, u32) {
        let [_, n, k] = self.matrix;
        let columns = self.column_groups * self.column_tiles(shape) * n;
        (self.keys * (self.stage_steps * k / 8 + 1), self.value_keys * (columns / 8 + 1))
    }

    /// Matrices along a query that both stages together hold.
    fn query_room(&self, shape: &Shape) -> u32 {
        let (keys, values) = self.stages(shape);
        (2 * keys.max(values) / self.queries()).saturating_sub(1) / (self.matrix[2] / 8)
    }

    /// Shared memory of `attention_matrix.comp`.
    fn shared_bytes(&self, shape: &Shape) -> u64 {
        let [m, n, _] = self.matrix;
        let (keys, values) = self.stages(shape);
        let tiles = self.column_groups * (n / 4 + 1);
        let scratch = self.queries() * tiles.max(self.keys / 8 + 1);
        let small = m * n + 4 * self.queries() + 2 * self.keys + self.row_groups * self.column_groups;
        u64::from(2 * keys.max(values) + scratch) * 16 + u64::from(small) * 4
    }

    /// In the order of their numbers in the shader, `aligned` last.
    fn specialization(&self, shape: &Shape, aligned: bool) -> [(u32, u32); 14] {
        let [m, n, k] = self.matrix;
        [
            (0, self.threads()),
            (1, shape.key_size),
            (2, shape.value_size),
            (3, self.heads),
            (4, self.keys),
            (5, self.row_groups),
            (6, self.column_groups),
            (7, self.row_tiles),
            (8, m),
            (9, n),
            (10, k),
            (11, self.stage_steps),
            (12, self.value_keys),
            (13, u32::from(aligned)),
        ]
    }
}

/// Tiles of a shape that a sweep tries.
pub fn matrix_candidates(k: &Kernels, shape: &Shape) -> Vec<MatrixTile> {
    let mut all = Vec::new();
    for (row_groups, column_groups, row_tiles) in [
        (4, 1, 1),
        (8, 1, 1),
        (2, 1, 2),
        (4, 1, 2),
        (8, 1, 2),
        (2, 2, 1),
        (4, 2, 1),
        (1, 4, 1),
        (2, 4, 1),
        (2, 2, 2),
        (4, 2, 2),
        (1, 4, 2),
        (2, 4, 2),
        (2, 2, 4),
    ] {
        for (keys, stage, value_keys) in
            [(32, 128, 32), (64, 128, 64), (64, 64, 32), (128, 64, 64), (32, 64, 16)]
        {
            let policy = MatrixPolicy {
                rows: 1,
                row_groups,
                column_groups,
                row_tiles,
                keys,
                stage,
                value_keys,
                values: 128,
                shared_bytes: u32::MAX,
            };
            let tile = MatrixTile::of(&policy, k.subgroup_size(), k.caps(), shape);
            all.extend(tile.filter(|t| !all.contains(t)));
        }
    }
    all
}

/// The factor of the queries, and the cap, in powers of two: a score is `factor · q·k`, or `cap · tanh(factor · q·k)`.
pub(super) fn score_rule(scale: f32, softcap: Option<f32>) -> (f32, f32) {
    softcap.map_or((scale * LOG2_E, 0.0), |cap| (scale / cap, cap * LOG2_E))
}

/// Records the kernel for all rows.
pub(super) fn record(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: &MatrixTile,
) -> Result<(), Error> {
    let specialization = tile.specialization(&args.shape(), tiled::is_vec4(args));
    record_matrices(k, rec, label, args, (&KERNEL, &specialization), (tile.rows(), tile.splits))
}

/// Records a kernel with its specialisation, a workgroup of which has so many rows of one of so many shares of a KV head's query heads.
pub(super) fn record_matrices(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    (kernel, specialization): (&'static Kernel, &[(u32, u32)]),
    (rows, splits): (u32, u32),
) -> Result<(), Error> {
    let scores = score_rule(args.scale, args.softcap);
    record_tiles(
        k,
        rec,
        label,
        args,
        &Tiles { kernel, specialization, rows, splits, scores, out: Access::Write },
    )
}
