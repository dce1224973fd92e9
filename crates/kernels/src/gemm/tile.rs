//! How a product is cut: the choice of a tile.

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
}

/// Matrices of results that a subgroup can have: as many as `gemm.comp` finishes.
const MOST_RESULTS: u32 = 16;

impl Matrix {
    /// Its name in the shader's header.
    pub fn variant(self) -> &'static str {
        match self {
            Matrix::Portable => "portable",
            Matrix::Khr { .. } => "khr",
        }
    }

    fn dimensions(self) -> [u32; 3] {
        match self {
            Matrix::Portable => [1, 1, 8],
            Matrix::Khr { m, n, k } => [m, n, k],
        }
    }
}

/// The matrices of a device that multiply f16 and add up f32: those with the most products, 16 × 16 × 16 where there are any.
pub fn matrix_of(caps: &Capabilities) -> Matrix {
    let usable = |s: &&MatrixShape| {
        s.scope == MatrixScope::Subgroup
            && (s.a, s.b) == (ComponentType::F16, ComponentType::F16)
            && (s.c, s.result) == (ComponentType::F32, ComponentType::F32)
            && s.k.is_multiple_of(8)
            && 64 % s.k == 0
    };
    let best = |s: &&MatrixShape| (s.m == s.n, s.m * s.n * s.k);
    match caps.cooperative_matrix.iter().filter(usable).max_by_key(best) {
        Some(s) if caps.features.shader_f16 && caps.features.memory_model => {
            Matrix::Khr { m: s.m, n: s.n, k: s.k }
        }
        _ => Matrix::Portable,
    }
}

/// How the work is cut. The order of sums depends on `matrix` and the format alone.
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
}

/// Elements of K at a time where the format's chunks do not ask for more.
const STEP: u32 = 64;

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
    let (gemm, matrix) = (&policy.gemm, matrix_of(caps));
    // Rounds of workgroups, times what a workgroup takes.
    let cost = |(tile, shape): &(Tile, &GemmShape)| {
        let groups = u64::from(m.div_ceil(tile.rows)) * u64::from(columns.div_ceil(tile.columns));
        let each = u64::from(shape.rows * shape.columns) * 1000 / u64::from(shape.rate);
        groups.div_ceil(u64::from(gemm.workgroups)) * each
    };
    let fits = |tile: &Tile| tile.check(caps, policy.subgroup_size, format, gated).is_ok();
    let tiles = gemm.shapes(matrix).iter().map(|shape| (Tile::of(shape, matrix, gated), shape));
    match tiles.filter(|(tile, _)| fits(tile)).min_by_key(cost) {
        Some((tile, _)) => Ok(tile),
        None => fail("no tile of a product fits this device".into()),
    }
}

impl Tile {
    pub(super) fn of(shape: &GemmShape, matrix: Matrix, gated: bool) -> Tile {
        let matrices = if gated { 2 } else { 1 };
        let &GemmShape { rows, columns, sub_rows, sub_columns, buffers, .. } = shape;
        let (rows, sub_rows) = (rows / matrices, sub_rows / matrices);
        Tile { matrix, rows, columns, step: STEP, sub_rows, sub_columns, buffers }
    }

    /// Subgroups of a workgroup, or invocations in the portable variant.
    fn units(&self) -> u32 {
        (self.rows / self.sub_rows.max(1)) * (self.columns / self.sub_columns.max(1))
    }

    /// Invocations of a workgroup.
    pub fn threads(&self, subgroup_size: u32) -> u32 {
        match self.matrix {
            Matrix::Portable => self.units(),
            Matrix::Khr { .. } => self.units() * subgroup_size,
        }
    }

    /// Shared memory of a workgroup.
    pub fn shared_bytes(&self, gated: bool) -> u32 {
        let matrices = if gated { 2 } else { 1 };
        let staged = self.buffers * (matrices * self.rows + self.columns) * (self.step / 8 + 1) * 16;
        let results = match self.matrix {
            Matrix::Portable => 0,
            Matrix::Khr { m, n, .. } => self.units() * matrices * m * n * 4,
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
        let Tile { rows, columns, step, sub_rows, sub_columns, buffers, .. } = *self;
        let [m, n, k] = self.matrix.dimensions();
        let whole = |of: u32, part: u32| part > 0 && of > 0 && of.is_multiple_of(part);
        let parts = [(rows, sub_rows), (columns, sub_columns), (sub_rows, m), (sub_columns, n), (step, k)];
        if !parts.iter().all(|&(of, part)| whole(of, part)) || !(1..=2).contains(&buffers) {
            return Err(format!("{self:?} is not whole matrices"));
        }
        if !whole(64, step) || !whole(step, format.chunk) {
            return Err(format!("steps of {step} elements for chunks of {}", format.chunk));
        }
        let matrices = (sub_rows / m) * (sub_columns / n);
        if matches!(self.matrix, Matrix::Khr { .. }) && matrices > MOST_RESULTS {
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
        let bytes = self.shared_bytes(gated);
        if bytes > limits.shared_memory {
            return Err(format!("{bytes} bytes of shared memory, there are {}", limits.shared_memory));
        }
        Ok(())
    }

    /// As [`Tile::check`], where columns are slots of experts: each takes some more shared memory.
    pub(super) fn check_experts(
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
        (0..).zip(values).collect()
    }
}

/// Rows and columns of a workgroup and of a subgroup that are worth measuring on matrices.
const TRIED: [((u32, u32), (u32, u32)); 25] = [
    ((256, 64), (64, 32)),
    ((256, 64), (64, 64)),
    ((128, 256), (64, 64)),
    ((128, 128), (64, 64)),
    ((128, 128), (64, 32)),
    ((128, 128), (32, 64)),
    ((128, 128), (32, 32)),
    ((128, 64), (64, 32)),
    ((128, 64), (32, 32)),
    ((64, 256), (64, 64)),
    ((64, 256), (32, 64)),
    ((64, 128), (64, 32)),
    ((64, 128), (32, 64)),
    ((64, 128), (32, 32)),
    ((64, 64), (32, 32)),
    ((64, 64), (32, 16)),
    ((64, 32), (32, 16)),
    ((64, 32), (16, 32)),
    ((32, 128), (32, 32)),
    ((32, 64), (32, 16)),
    ((32, 64), (16, 32)),
    ((32, 32), (16, 16)),
    ((128, 16), (32, 16)),
    ((64, 16), (16, 16)),
    ((32, 16), (16, 16)),
];

/// The same of invocations.
const TRIED_PORTABLE: [((u32, u32), (u32, u32)); 6] = [
    ((64, 64), (8, 4)),
    ((64, 64), (8, 8)),
    ((64, 64), (4, 4)),
    ((32, 64), (4, 4)),
    ((64, 32), (4, 4)),
    ((64, 16), (4, 4)),
];

/// The tiles worth measuring for a product with `columns` columns that fit the device: on its matrices where it has any, and the portable ones.
pub fn candidates(policy: &Policy, caps: &Capabilities, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let matrix = matrix_of(caps);
    let own = TRIED.iter().filter(|_| matrix != Matrix::Portable).map(|t| (matrix, t));
    let all = own.chain(TRIED_PORTABLE.iter().map(|t| (Matrix::Portable, t)));
    let shapes = all.flat_map(|(matrix, &((rows, columns), (sub_rows, sub_columns)))| {
        let shape = move |buffers| GemmShape { rows, columns, sub_rows, sub_columns, buffers, rate: 1 };
        [1, 2].map(|buffers| Tile::of(&shape(buffers), matrix, class.gated))
    });
    // Neither mostly empty nor decoding the weights too often.
    let sensible =
        |t: &Tile| t.columns < 2 * columns.next_multiple_of(16) && columns.div_ceil(t.columns) <= 32;
    let fits = |t: &Tile| t.check(caps, policy.subgroup_size, class.format, class.gated).is_ok();
    shapes.filter(sensible).filter(fits).collect()
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
            (m.div_ceil(tile.rows) * columns.div_ceil(tile.columns), tile.rows * tile.columns)
        };
        assert_eq!(groups(4096, 512).1, 128 * 128, "a full card takes the largest tile");
        assert!(groups(4096, 105).0 >= 64 && groups(1024, 512).0 >= 64, "small products are cut finer");
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
