//! Which products are tried: every format at the sizes where chunks, lanes and rows end, every number of columns, every way to cut the work.

use super::reference::{Product, gated, product};
use super::{Args, Epilogue, Gate, ProductClass, Tile, Weights, record, select};
use crate::Kernels;
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite, compare};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::{Rng, shape_classes, tolerance};
use zinc_vulkan::Slice;

/// Every case of matrix-vector products.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "gemv");
    for &format in formats() {
        shapes(&mut s, format);
        columns(&mut s, format);
        gates(&mut s, format);
    }
    for name in ["Q4_K", "Q8_0", "F16"] {
        if let Some(format) = by_name(name) {
            tiles(&mut s, format);
        }
    }
    batches(&mut s);
    epilogues(&mut s);
    unaligned(&mut s);
    many_rows(&mut s);
    s.finish()
}

/// Random weights in file and in device layout.
pub(crate) struct Matrix {
    pub(crate) format: FormatRef,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) file: Vec<u8>,
    device: Slice,
}

impl Matrix {
    pub(crate) fn random(
        s: &Suite<'_>,
        rng: &mut Rng,
        format: FormatRef,
        m: usize,
        k: usize,
    ) -> Result<Matrix, Failure> {
        let mut file = vec![0; m * format.row_bytes(k)];
        for row in file.chunks_exact_mut(format.row_bytes(k)) {
            format.encode_row(&rng.normals(k, 0.1), row);
        }
        Matrix::packed(s, format, m, k, file)
    }

    pub(crate) fn packed(
        s: &Suite<'_>,
        format: FormatRef,
        m: usize,
        k: usize,
        file: Vec<u8>,
    ) -> Result<Matrix, Failure> {
        let mut packed = vec![0; m * format.device_row_bytes(k)];
        let rows = file.chunks_exact(format.row_bytes(k));
        for (row, device) in rows.zip(packed.chunks_exact_mut(format.device_row_bytes(k))) {
            format.pack_row(row, k, device);
        }
        Ok(Matrix { format, m, k, file, device: s.bytes(&packed)? })
    }

    pub(crate) fn weights(&self) -> Weights<'_> {
        let (m, k) = (self.m as u32, self.k as u32);
        Weights { slice: &self.device, format: self.format, m, k }
    }

    /// Products with every column of x.
    pub(crate) fn times(&self, x: &Host) -> Vec<Vec<Product>> {
        product(self.format, &self.file, self.k, &x.rows().collect::<Vec<_>>())
    }
}

/// A product with `columns` columns by the policy's own tile, or a given one; the result as placed.
fn run(s: &Suite<'_>, w: &Matrix, x: &Placed, columns: usize, tile: Option<Tile>) -> Result<Placed, Failure> {
    let out = s.output(columns, w.m)?;
    let args = Args {
        weights: w.weights(),
        up: None,
        x: x.mat(),
        norm: None,
        columns: columns as u32,
        epilogue: Epilogue::default(),
        out: out.mat(),
    };
    let tile = tile.map_or_else(|| chosen(s, w, columns, false), Ok)?;
    s.run(|rec| record(s.kernels(), rec, "gemv", &args, tile))?;
    Ok(out)
}

/// The policy's tile.
fn chosen(s: &Suite<'_>, w: &Matrix, columns: usize, gated: bool) -> Result<Tile, Failure> {
    let class = ProductClass { format: w.format, m: w.m as u32, k: w.k as u32, gated };
    Ok(select(s.kernels().policy(), &class, columns as u32)?)
}

/// Holds a result against the sums in f64.
fn check(s: &Suite<'_>, out: &Placed, want: &[Vec<Product>]) -> Result<Host, Failure> {
    let got = s.read(out)?;
    let values = want.iter().flatten().map(|p| p.value as f32).collect();
    let want_host = Host { width: got.width, data: values };
    compare(&got, &want_host, |_, c, r| (tolerance::PRODUCT_REL * want[c][r].magnitude) as f32)?;
    Ok(got)
}

/// Elements of rows at which chunks, lanes or blocks end; `lanes` chunks are one step of a subgroup.
fn lengths(format: FormatRef, lanes: usize) -> Vec<usize> {
    match format.block_elems {
        1 => shape_classes(16 * lanes).into_iter().chain([15, 16, 17]).collect(),
        256 => shape_classes(lanes.div_ceil(4)).iter().map(|n| 256 * n).collect(),
        block => shape_classes(lanes).iter().map(|n| block * n).collect(),
    }
}

fn shapes(s: &mut Suite<'_>, format: FormatRef) {
    let lanes = s.kernels().subgroup_size() as usize;
    let sizes = lengths(format, lanes).into_iter().zip(shape_classes(4).into_iter().cycle());
    for (k, m) in sizes {
        s.case(format!("{format} {m}×{k}"), |s| {
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, 1, k, 1.0);
            let out = run(s, &w, &s.upload(&x)?, 1, None)?;
            check(s, &out, &w.times(&x)).map(drop)
        });
    }
}

/// Many columns at once are right, and each has the very bits it has alone.
fn columns(s: &mut Suite<'_>, format: FormatRef) {
    let (m, k) = (5, if format.block_elems == 1 { 341 } else { 768 });
    let columns = [8, 16, 17, 40, 64][s.rng().below(5)];
    s.case(format!("{format} {m}×{k}, {columns} columns"), |s| {
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let layout = if k % 4 == 0 { Layout::Columns } else { Layout::Unaligned };
        let got = check(s, &run(s, &w, &s.upload_as(&x, layout)?, columns, None)?, &w.times(&x))?;
        let c = rng.below(columns);
        let one = Host { width: k, data: x.data[c * k..][..k].to_vec() };
        let alone = s.read(&run(s, &w, &s.upload_as(&one, layout)?, 1, None)?)?;
        same_bits(&alone.data, &got.data[c * m..][..m])
    });
}

/// Every number of columns around that of a workgroup, and more than one workgroup has.
fn batches(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q4_K") else { return };
    for columns in shape_classes(8).into_iter().chain([63, 64, 65]) {
        s.case(format!("{columns} columns"), |s| {
            let (m, k) = (5, 256);
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, columns, k, 1.0);
            check(s, &run(s, &w, &s.upload(&x)?, columns, None)?, &w.times(&x)).map(drop)
        });
    }
}

pub(crate) fn same_bits(alone: &[f32], together: &[f32]) -> Result<(), Failure> {
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
    match alone.iter().zip(together).position(differs) {
        None => Ok(()),
        Some(r) => Err(format!("row {r} alone is {:e}, among others {:e}", alone[r], together[r]).into()),
    }
}

fn gates(s: &mut Suite<'_>, format: FormatRef) {
    // The activations do not depend on the format: the second one is tried with a few.
    let kinds = [(Gate::SwiGlu, 1), (Gate::GeGlu, 2)];
    let tried = if ["Q8_0", "Q4_K", "F32"].contains(&format.name) { 2 } else { 1 };
    for (kind, columns) in kinds.into_iter().take(tried) {
        s.case(format!("{format} {kind:?}, {columns} columns"), |s| {
            let (m, k) = (7, 512);
            let mut rng = s.rng();
            let gate = Matrix::random(s, &mut rng, format, m, k)?;
            let up = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, columns, k, 1.0);
            let (placed, out) = (s.upload(&x)?, s.output(columns, m)?);
            let args = Args {
                weights: gate.weights(),
                up: Some((kind, up.weights())),
                x: placed.mat(),
                norm: None,
                columns: columns as u32,
                epilogue: Epilogue::default(),
                out: out.mat(),
            };
            let tile = chosen(s, &gate, columns, true)?;
            s.run(|rec| record(s.kernels(), rec, "gemv", &args, tile))?;
            let pairs: Vec<(Product, Product)> =
                gate.times(&x).into_iter().flatten().zip(up.times(&x).into_iter().flatten()).collect();
            let want = Host {
                width: m,
                data: pairs.iter().map(|(g, u)| gated(kind, g.value, u.value) as f32).collect(),
            };
            // The errors of both products, the steepest slope of the activations being below 1.2, and the activation's own.
            s.compare(&out, &want, |_, c, r| {
                let (g, u) = pairs[c * m + r];
                let product = 1.2 * g.magnitude * u.value.abs() + 1.2 * g.value.abs() * u.magnitude;
                let own = tolerance::ACTIVATION_REL as f64 * (g.value * u.value).abs();
                (tolerance::PRODUCT_REL * product + own) as f32
            })
        });
    }
}

/// Tiles of all kinds: (lanes, parts, spread, rows, columns, subgroups, chunks and pieces of a chunk of the stage), of 1, 3 and 4 columns. Those that agree in
/// lanes and parts give the same bits.
fn tiles(s: &mut Suite<'_>, format: FormatRef) {
    let all = [
        (1, 1, false, 1, 4, 2, (0, 1)),
        (2, 1, false, 2, 1, 2, (1, 1)),
        (4, 1, false, 4, 2, 1, (0, 1)),
        (4, 2, true, 1, 3, 2, (3, 1)),
        (4, 2, false, 3, 2, 1, (1, 2)),
        (4, 4, true, 2, 1, 4, (0, 1)),
        (4, 4, false, 1, 4, 2, (2, 1)),
        (4, 8, true, 4, 2, 8, (1, 4)),
        (8, 2, true, 3, 8, 8, (1, 2)),
        (64, 1, false, 2, 3, 1, (1, 2)),
    ];
    let limits = &s.kernels().device().capabilities().limits;
    let shared = limits.shared_memory - 2048;
    let subgroup = s.kernels().subgroup_size();
    for (i, (lanes, parts, spread, rows, columns, subgroups, wanted)) in all.into_iter().enumerate() {
        let tile = Tile { lanes: lanes.min(subgroup), parts, spread, rows, columns, subgroups, stage: 0 };
        let fits = |&stage: &u32| 16 * Tile { stage, ..tile }.staged_quads(format) <= shared;
        let (most, pieces) = wanted;
        let stage = (1..=most).rev().map(|n| n * format.chunk / pieces).find(fits).unwrap_or(0);
        let tile = Tile { stage, ..tile };
        let plain = Tile { spread: false, rows: 1, columns: 1, subgroups: 1, stage: 0, ..tile };
        let columns = [1, 3, 4][i % 3];
        for m in [1, rows as usize * 2 + 1] {
            s.case(format!("{format} {m} rows, {columns} columns, {tile:?}"), |s| {
                let mut rng = s.rng();
                let k = 2304;
                let w = Matrix::random(s, &mut rng, format, m, k)?;
                let x = Host::random(&mut rng, columns, k, 1.0);
                let placed = s.upload(&x)?;
                let got = check(s, &run(s, &w, &placed, columns, Some(tile))?, &w.times(&x))?;
                same_bits(&s.read(&run(s, &w, &placed, columns, Some(plain))?)?.data, &got.data)
            });
        }
    }
}

/// Bias and residual are added after the product, in this order, in f32.
fn epilogues(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q8_0") else { return };
    for (bias, residual, parts) in [(true, false, 1), (false, true, 1), (true, true, 1), (true, true, 2)] {
        s.case(format!("bias {bias}, residual {residual}, {parts} parts"), |s| {
            let (m, k, columns) = (9, 512, 2);
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, columns, k, 1.0);
            let biases = rng.normals(m, 1.0);
            let added = Host::random(&mut rng, columns, m, 1.0);
            let (placed, residuals, bias_slice) = (s.upload(&x)?, s.upload(&added)?, s.values(&biases)?);
            let out = s.output(columns, m)?;
            let args = Args {
                weights: w.weights(),
                up: None,
                x: placed.mat(),
                norm: None,
                columns: columns as u32,
                epilogue: Epilogue {
                    bias: bias.then_some(&bias_slice),
                    residual: residual.then(|| residuals.mat()),
                },
                out: out.mat(),
            };
            let tile =
                Tile { lanes: 4, parts, spread: parts > 1, rows: 2, columns: 2, subgroups: 2, stage: 0 };
            s.run(|rec| record(s.kernels(), rec, "gemv", &args, tile))?;
            let plain = s.read(&run(s, &w, &placed, columns, Some(tile))?)?;
            let sum = |i: usize, v: f32| {
                let v = if bias { v + biases[i % m] } else { v };
                if residual { v + added.data[i] } else { v }
            };
            let want: Vec<f32> = plain.data.iter().enumerate().map(|(i, &v)| sum(i, v)).collect();
            same_bits(&want, &s.read(&out)?.data)
        });
    }
}

/// Columns that no vec4 can read give the bits that aligned ones give.
fn unaligned(s: &mut Suite<'_>) {
    for format in ["Q4_K", "F16"].into_iter().filter_map(by_name) {
        s.case(format!("{format}, x at any element"), |s| {
            let (m, k) = (3, 512);
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, 2, k, 1.0);
            let aligned = s.read(&run(s, &w, &s.upload(&x)?, 2, None)?)?;
            let out = run(s, &w, &s.upload_as(&x, Layout::Unaligned)?, 2, None)?;
            let got = check(s, &out, &w.times(&x))?;
            same_bits(&aligned.data, &got.data)
        });
    }
}

/// More rows than a grid dimension has workgroups.
fn many_rows(s: &mut Suite<'_>) {
    let Some(format) = by_name("F16") else { return };
    s.case("70001 rows", |s| {
        let (m, k) = (70_001, 16);
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, 1, k, 1.0);
        let tile = Tile { lanes: 4, parts: 1, spread: false, rows: 1, columns: 1, subgroups: 1, stage: 0 };
        let out = run(s, &w, &s.upload(&x)?, 1, Some(tile))?;
        check(s, &out, &w.times(&x)).map(drop)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::assert_suite;

    #[test]
    fn products_agree_with_the_reference() {
        assert_suite(suite);
    }

    #[test]
    fn the_order_of_sums_does_not_depend_on_the_columns() {
        let policy = Kernels::new(&zinc_vulkan::testing::device()).policy().clone();
        for &format in formats() {
            for (m, k) in [(256, 12_288), (4096, 4096), (151_936, 4096), (1, 65_536)] {
                let class = ProductClass { format, m, k, gated: false };
                let order = |columns| select(&policy, &class, columns).map(|t| (t.lanes, t.parts));
                assert!((2..=64).all(|columns| order(columns) == order(1)), "{format} {m}×{k}");
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_said() {
        let policy = Kernels::new(&zinc_vulkan::testing::device()).policy().clone();
        let format = by_name("Q4_K").expect("a format of the list");
        let class = ProductClass { format, m: 4, k: 250, gated: false };
        let no = select(&policy, &class, 1).expect_err("250 elements are no block");
        assert_eq!(no.op, "linear");
        assert!(no.to_string().contains("Q4_K") && no.to_string().contains("250"), "{no}");
    }
}
