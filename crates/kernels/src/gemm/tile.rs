//! How a product is cut: the choice of a tile.

use super::cost;
use super::policy::GemmShape;
use crate::gemv::ProductClass;
use crate::{Policy, Unsupported};
use zinc_quant::FormatRef;
use zinc_vulkan::{Capabilities, ComponentType, MatrixScope, MatrixShape};

/// Who multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// Every invocation its own results.
    Portable,
    /// Subgroups, in matrices of this shape (`VK_KHR_cooperative_matrix`).
    Khr {
        /// Rows of a result.
        m: u32,
        /// Columns of a result.
        n: u32,
        /// Products of a sum.
        k: u32,
    },
    /// The same in matrices of 16 × 16 × 16 whose lanes have the weights that they decode ([`super::lanes`]).
    Lanes,
}

/// Matrices of results that a subgroup can have: as many as `gemm.comp` finishes.
const MOST_RESULTS: u32 = 16;

impl Matrix {
    /// Its name in the shader's header.
    pub fn variant(self) -> &'static str {
        match self {
            Matrix::Portable => "portable",
            Matrix::Khr { .. } => "khr",
            Matrix::Lanes => "lanes",
        }
    }

    /// Rows and columns of a result, and products of its sums.
    pub fn dimensions(self) -> [u32; 3] {
        match self {
            Matrix::Portable => [1, 1, 8],
            Matrix::Khr { m, n, k } => [m, n, k],
            Matrix::Lanes => [16; 3],
        }
    }
}

/// The matrices of a device that multiply f16 and add up f32: those with the most products, 16 × 16 × 16 where there are any.
pub fn matrix_of(caps: &Capabilities) -> Matrix {
    let best = |s: &&MatrixShape| (s.m == s.n, s.m * s.n * s.k);
    match caps.cooperative_matrix.iter().filter(|s| usable(s)).max_by_key(best) {
        Some(s) if caps.features.shader_f16 && caps.features.memory_model => {
            Matrix::Khr { m: s.m, n: s.n, k: s.k }
        }
        _ => Matrix::Portable,
    }
}

/// The matrices for a tile of so many columns: narrower ones, where the device has any, of a tile that is narrower.
pub(crate) fn narrow(caps: &Capabilities, matrix: Matrix, columns: u32) -> Matrix {
    match matrix {
        Matrix::Khr { m, n, k } if columns < n => {
            let fits = |s: &MatrixShape| (s.m, s.n, s.k) == (m, columns, k) && usable(s);
            let n = if caps.cooperative_matrix.iter().any(fits) { columns } else { n };
            Matrix::Khr { m, n, k }
        }
        _ => matrix,
    }
}

/// Whether a shape multiplies f16 and adds up f32 in steps that tiles have.
fn usable(s: &MatrixShape) -> bool {
    s.scope == MatrixScope::Subgroup
        && (s.a, s.b) == (ComponentType::F16, ComponentType::F16)
        && (s.c, s.result) == (ComponentType::F32, ComponentType::F32)
        && s.k.is_multiple_of(8)
        && 64 % s.k == 0
}

/// How the work is cut. The order of sums depends on `matrix`, `step`, `parts`, `apart` and the format alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Who multiplies.
    pub matrix: Matrix,
    /// Weight rows of a workgroup (of each matrix).
    pub rows: u32,
    /// Columns of a workgroup.
    pub columns: u32,
    /// Elements of K in shared memory at a time.
    pub step: u32,
    /// Weight rows of a subgroup (of each matrix), of an invocation in the portable variant.
    pub sub_rows: u32,
    /// Columns of a subgroup or invocation.
    pub sub_columns: u32,
    /// Steps in shared memory, 1 or 2: with two, decoding the next one needs no barrier of its own.
    pub buffers: u32,
    /// Parts of K, each multiplied by a workgroup of its own; the last to be done adds their sums up in order.
    pub parts: u32,
    /// Subgroups that have the same tile and split its steps, each with a stage of its own; 1: the subgroups of a workgroup share a stage and split
    /// rows and columns.
    pub apart: u32,
}

/// Tiles of a product in parts at most: each has a counter.
const MOST_SPLIT: u32 = 4096;
/// Parts worth considering.
const PARTS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32];

/// The tile for a product of any number of columns: the one that takes the device least time by the policy's figures.
///
/// # Errors
/// [`Unsupported`] where `k` is not whole blocks, nothing is to be computed, or no tile fits the device.
pub fn select(
    policy: &Policy,
    caps: &Capabilities,
    class: &ProductClass,
    columns: u32,
) -> Result<Tile, Unsupported> {
    let &ProductClass { format, m, k, gated } = class;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if m == 0 || k == 0 || columns == 0 {
        return fail(format!("an empty product ({m}×{k}, {columns} columns)"));
    }
    if !(k as usize).is_multiple_of(format.block_elems) {
        return fail(format!("rows of {k} elements are not whole blocks of {}", format.block_elems));
    }
    let tiles = policy.gemm.tiles(caps, gated);
    let fits = |tile: &Tile| {
        tile.check(caps, policy.subgroup_size, format, gated).is_ok() && tile.steps(k).is_some()
    };
    let cut = tiles.filter(fits).flat_map(|tile| in_parts(tile, class, columns));
    let cost = |tile: &Tile| cost::nanoseconds(policy, class, columns, tile);
    match cut.min_by(|a, b| cost(a).total_cmp(&cost(b))) {
        Some(tile) => Ok(tile),
        None => fail("no tile of a product fits this device".into()),
    }
}

/// A tile with each number of parts that makes sense: at least two steps a part, since the first one of each waits for memory.
pub(super) fn in_parts(tile: Tile, class: &ProductClass, columns: u32) -> impl Iterator<Item = Tile> {
    let steps = tile.steps(class.k).unwrap_or(1);
    let split = tile.tiles(class.m, columns) <= u64::from(MOST_SPLIT);
    let sensible = move |&parts: &u32| parts == 1 || split && 2 * parts * tile.apart <= steps;
    PARTS.into_iter().filter(sensible).map(move |parts| Tile { parts, ..tile })
}

impl Tile {
    pub(super) fn of(shape: &GemmShape, matrix: Matrix, gated: bool) -> Tile {
        let matrices = if gated { 2 } else { 1 };
        let &GemmShape { rows, columns, sub_rows, sub_columns, step, buffers, apart } = shape;
        let (rows, sub_rows) = (rows / matrices, sub_rows / matrices);
        Tile { matrix, rows, columns, step, sub_rows, sub_columns, buffers, parts: 1, apart }
    }

    /// Steps over rows of `k` elements; `None` where they would not be whole. Packed columns are whole steps of 64 elements.
    pub(super) fn steps(&self, k: u32) -> Option<u32> {
        (self.step <= 64 || k.is_multiple_of(self.step)).then(|| k.div_ceil(self.step))
    }

    /// Tiles of a product.
    pub(super) fn tiles(&self, m: u32, columns: u32) -> u64 {
        u64::from(m.div_ceil(self.rows)) * u64::from(columns.div_ceil(self.columns))
    }

    /// Bytes of memory that a product in parts needs beside its operands.
    pub fn partial_bytes(&self, m: u32, columns: u32, gated: bool) -> u64 {
        let matrices = if gated { 2 } else { 1 };
        match self.parts {
            0 | 1 => 0,
            parts => {
                self.tiles(m, columns) * u64::from(matrices * self.rows * self.columns) * 4 * u64::from(parts)
            }
        }
    }

    /// Subgroups that share a stage, or invocations in the portable variant.
    pub(super) fn units(&self) -> u32 {
        (self.rows / self.sub_rows.max(1)) * (self.columns / self.sub_columns.max(1))
    }

    /// Invocations of a workgroup.
    pub fn threads(&self, subgroup_size: u32) -> u32 {
        match self.matrix {
            Matrix::Portable => self.units(),
            Matrix::Khr { .. } | Matrix::Lanes => self.units() * self.apart * subgroup_size,
        }
    }

    /// Shared memory of a workgroup.
    pub fn shared_bytes(&self, gated: bool) -> u32 {
        let matrices = if gated { 2 } else { 1 };
        let [m, n, _] = self.matrix.dimensions();
        let row = (self.step / 8 + 1) * 16;
        let weights = matrices * self.rows * if self.matrix == Matrix::Lanes { 8 } else { row };
        let staged = self.apart * self.buffers * (weights + self.columns * row);
        let results = match self.matrix {
            Matrix::Portable => 0,
            _ => self.units() * matrices * m * n * 4,
        };
        // And the table of a format that looks codes up.
        staged + results + 64
    }

    /// Whether the numbers belong together on a device.
    pub(super) fn check(
        &self,
        caps: &Capabilities,
        subgroup_size: u32,
        format: FormatRef,
        gated: bool,
    ) -> Result<(), String> {
        let Tile { rows, columns, step, sub_rows, sub_columns, buffers, apart, .. } = *self;
        let [m, n, k] = self.matrix.dimensions();
        let whole = |of: u32, part: u32| part > 0 && of > 0 && of.is_multiple_of(part);
        let parts = [(rows, sub_rows), (columns, sub_columns), (sub_rows, m), (sub_columns, n), (step, k)];
        if !parts.iter().all(|&(of, part)| whole(of, part)) || !(1..=2).contains(&buffers) {
            return Err(format!("{self:?} is not whole matrices"));
        }
        if self.parts == 0 || self.parts > PARTS[PARTS.len() - 1] {
            return Err(format!("{} parts", self.parts));
        }
        // Sums of a subgroup take the place of its weights.
        if apart == 0
            || apart > 1
                && (!matches!(self.matrix, Matrix::Khr { .. })
                    || self.units() > 1
                    || 4 * columns > 2 * step + 16)
        {
            return Err(format!("{apart} subgroups that split the steps of {rows}×{columns}"));
        }
        if !whole(64, step) && !whole(step, 64) || !whole(step, format.chunk) {
            return Err(format!("steps of {step} elements for chunks of {}", format.chunk));
        }
        let matrices = (sub_rows / m) * (sub_columns / n);
        if self.matrix == Matrix::Lanes {
            super::lanes::check(self, subgroup_size, format, gated)?;
        }
        if self.matrix != Matrix::Portable && matrices > MOST_RESULTS {
            return Err(format!("{matrices} matrices of results a subgroup, {MOST_RESULTS} at most"));
        }
        let (threads, limits) = (self.threads(subgroup_size), &caps.limits);
        let most = limits
            .workgroup_invocations
            .min(caps.subgroup.max_workgroup_subgroups.saturating_mul(subgroup_size));
        if threads > most || !threads.is_multiple_of(subgroup_size) {
            return Err(format!(
                "{threads} invocations where there are {most} in subgroups of {subgroup_size}"
            ));
        }
        // Workgroups of matrices are whole subgroups of the device's own size, whatever size is asked for.
        if self.matrix != Matrix::Portable && !threads.is_multiple_of(caps.subgroup.size.max(1)) {
            return Err(format!("{threads} invocations on a device of subgroups of {}", caps.subgroup.size));
        }
        let bytes = self.shared_bytes(gated);
        if bytes > limits.shared_memory {
            return Err(format!("{bytes} bytes of shared memory, there are {}", limits.shared_memory));
        }
        Ok(())
    }

    /// As [`Tile::check`], where columns are slots of experts: each takes some more shared memory.
    pub(crate) fn check_experts(
        &self,
        caps: &Capabilities,
        subgroup_size: u32,
        format: FormatRef,
        gated: bool,
    ) -> Result<(), String> {
        self.check(caps, subgroup_size, format, gated)?;
        let (bytes, most) = (self.shared_bytes(gated) + 12 * self.columns, caps.limits.shared_memory);
        match bytes <= most {
            true => Ok(()),
            false => Err(format!("{bytes} bytes of shared memory, there are {most}")),
        }
    }

    /// In the order of their numbers in the shader.
    pub(super) fn specialization(&self, subgroup_size: u32) -> Vec<(u32, u32)> {
        let [m, n, k] = self.matrix.dimensions();
        let Tile { rows, columns, step, sub_rows, sub_columns, buffers, .. } = *self;
        let values =
            [self.threads(subgroup_size), rows, columns, step, sub_rows, sub_columns, buffers, m, n, k];
        let lanes = if self.apart > 1 { subgroup_size } else { 0 };
        (0..).zip(values).chain([(22, lanes)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceClass;
    use zinc_quant::{by_name, formats};
    use zinc_vulkan::{Features, Limits, Subgroup};

    fn shape(m: u32, n: u32, k: u32, result: ComponentType) -> MatrixShape {
        let f16 = ComponentType::F16;
        MatrixShape {
            m,
            n,
            k,
            a: f16,
            b: f16,
            c: result,
            result,
            scope: MatrixScope::Subgroup,
            saturating: false,
        }
    }

    fn caps(vendor_id: u32, shared_memory: u32, matrices: Vec<MatrixShape>) -> Capabilities {
        Capabilities {
            vendor_id,
            features: Features { shader_f16: true, memory_model: true, ..Default::default() },
            limits: Limits { shared_memory, workgroup_invocations: 1024, ..Default::default() },
            subgroup: Subgroup { size: 32, max_workgroup_subgroups: 32, ..Default::default() },
            cooperative_matrix: matrices,
            ..Default::default()
        }
    }

    #[test]
    fn matrices_are_those_of_f16_with_f32_sums() {
        let (f16, f32) = (ComponentType::F16, ComponentType::F32);
        let shapes =
            vec![shape(16, 8, 16, f32), shape(16, 16, 16, f16), shape(16, 16, 16, f32), shape(16, 8, 8, f32)];
        assert_eq!(matrix_of(&caps(0x10de, 49_152, shapes)), Matrix::Khr { m: 16, n: 16, k: 16 });
        assert_eq!(matrix_of(&caps(0x10de, 49_152, vec![shape(16, 16, 16, f16)])), Matrix::Portable);
    }

    #[test]
    fn every_device_has_a_tile_for_every_format() {
        for vendor in [0x10de, 0x1002, 0] {
            for matrices in [vec![], vec![shape(16, 16, 16, ComponentType::F32)]] {
                for subgroup in [8, 32, 64] {
                    let mut caps = caps(vendor, 32_768, matrices.clone());
                    caps.subgroup.size = subgroup;
                    let policy = Policy::of(&caps);
                    for &format in formats() {
                        for (columns, gated) in [(1, false), (17, true), (512, false), (2048, true)] {
                            let class = ProductClass { format, m: 1000, k: 512, gated };
                            let tile = select(&policy, &caps, &class, columns);
                            let tile = tile.unwrap_or_else(|e| panic!("{vendor:x} {subgroup}: {e}"));
                            assert_eq!(tile.check(&caps, subgroup, format, gated), Ok(()));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_fill_the_device() {
        let caps = caps(0x10de, 49_152, vec![shape(16, 16, 16, ComponentType::F32)]);
        let policy = Policy::of(&caps);
        assert_eq!(policy.class, DeviceClass::Nvidia);
        let format = by_name("Q4_K").expect("a format of the list");
        let groups = |m, columns| {
            let class = ProductClass { format, m, k: 4096, gated: false };
            let tile = select(&policy, &caps, &class, columns).unwrap();
            (tile.tiles(m, columns) as u32 * tile.parts, tile)
        };
        assert_eq!(groups(12_288, 2048).1.rows, 128, "a full card takes the largest tile");
        assert_eq!(groups(12_288, 2048).1.parts, 1);
        for (m, columns) in [(4096, 8), (4096, 64), (4096, 105), (1024, 512), (4096, 512)] {
            let (groups, tile) = groups(m, columns);
            assert!(groups > 200, "{m}, {columns}: {groups} of {tile:?}");
            assert!(columns >= 64 || tile.columns <= 16, "{m}, {columns}: {tile:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let small = caps(0, 4096, vec![]);
        let format = by_name("Q4_K").expect("a format of the list");
        let class = ProductClass { format, m: 64, k: 256, gated: false };
        assert!(select(&Policy::of(&small), &small, &class, 64).is_err());
        let no = select(&Policy::of(&small), &small, &ProductClass { k: 250, ..class }, 64).unwrap_err();
        assert!(no.to_string().contains("250"), "{no}");
    }
}
