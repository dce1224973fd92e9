//! Which products in tiles are tried: every format at the sizes where tiles, steps and rows end, on the device's matrices and without them.

use super::{Args, ConvertArgs, Matrix, Packed, Tile, convert, matrix_of, record};
use crate::Kernels;
use crate::gemv::reference::{Product, gated};
use crate::gemv::suite::Matrix as Weights;
use crate::gemv::{Epilogue, Gate};
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::{shape_classes, tolerance};
use zinc_vulkan::Slice;

/// Every case of products in tiles, and of the conversion before them.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "gemm");
    conversions(&mut s);
    for matrix in matrices(kernels) {
        let tile = small(kernels, matrix);
        for &format in formats() {
            if matrix != Matrix::Lanes || fits(kernels, format, tile) {
                shapes(&mut s, format, tile);
            }
        }
        for name in ["Q4_K", if matrix == Matrix::Lanes { "Q6_K" } else { "F16" }] {
            if let Some(format) = by_name(name) {
                gates(&mut s, format, tile);
            }
        }
        tiles(&mut s, matrix);
        epilogues(&mut s, tile);
        parts(&mut s, tile);
        if let Matrix::Khr { m, n, .. } = matrix {
            apart(&mut s, Tile { rows: m, sub_rows: m, columns: n, sub_columns: n, apart: 2, ..tile });
        }
    }
    s.finish()
}

/// None, and the device's own where it has any.
pub(crate) fn matrices(kernels: &Kernels) -> Vec<Matrix> {
    let own = matrix_of(kernels.caps());
    let mut all = if own == Matrix::Portable { vec![own] } else { vec![Matrix::Portable, own] };
    all.extend((!kernels.policy().gemm.lanes.is_empty()).then_some(Matrix::Lanes));
    all
}

fn fits(kernels: &Kernels, format: FormatRef, tile: Tile) -> bool {
    tile.check(kernels.caps(), kernels.subgroup_size(), format, false).is_ok()
}

/// A small tile with several units in both directions: little code, and shapes beyond it are soon reached.
pub(crate) fn small(kernels: &Kernels, matrix: Matrix) -> Tile {
    match matrix {
        Matrix::Portable => {
            // Whole subgroups: 8 × 8 invocations.
            Tile {
                matrix,
                rows: 16,
                columns: 16,
                step: 64,
                sub_rows: 2,
                sub_columns: 2,
                buffers: 1,
                parts: 1,
                apart: 1,
            }
        }
        Matrix::Lanes => Tile {
            matrix,
            rows: 32,
            columns: 64,
            step: 64,
            sub_rows: 16,
            sub_columns: 64,
            buffers: 2,
            parts: 1,
            apart: 1,
        },
        Matrix::Khr { m, n, .. } => {
            let rows = if kernels.subgroup_size() > 32 { m } else { 2 * m };
            Tile {
                matrix,
                rows,
                columns: 2 * n,
                step: 64,
                sub_rows: m,
                sub_columns: 2 * n,
                buffers: 1,
                parts: 1,
                apart: 1,
            }
        }
    }
}

/// Activations on the device, packed by the kernel under test.
struct Columns {
    slice: Slice,
    rows: u32,
    k: u32,
}

impl Columns {
    fn of(s: &Suite<'_>, x: &Host, layout: Layout) -> Result<Columns, Failure> {
        let placed = s.upload_as(x, layout)?;
        let (rows, k) = ((x.data.len() / x.width) as u32, x.width as u32);
        let bytes = Packed::bytes_for(rows, k);
        // Poisoned: NaN in f16 and f32 alike.
        let slice = s.bytes(&vec![0xff; bytes as usize])?;
        let columns = Columns { slice, rows, k };
        s.run(|rec| {
            convert(s.kernels(), rec, "convert", &ConvertArgs { x: placed.mat(), out: columns.packed() })
        })?;
        Ok(columns)
    }

    fn packed(&self) -> Packed<'_> {
        Packed { slice: &self.slice, offset: 0, rows: self.rows, k: self.k }
    }
}

/// What a product may differ by.
fn allowed(product: &Product, x: &[f32]) -> f64 {
    let sum: f64 = x.iter().map(|v| f64::from(v.abs())).sum();
    tolerance::PRODUCT_F16_REL * product.magnitude + tolerance::PRODUCT_F16_ABS * sum
}

/// A product on packed columns.
fn run(
    s: &Suite<'_>,
    w: &Weights,
    x: &Columns,
    up: Option<(Gate, &Weights)>,
    epilogue: Epilogue<'_>,
    tile: Tile,
) -> Result<Placed, Failure> {
    let weights = w.weights();
    let out = s.output(x.rows as usize, weights.m as usize)?;
    let up = up.map(|(gate, w)| (gate, w.weights()));
    // Poisoned: NaN.
    let bytes = tile.partial_bytes(weights.m, x.rows, up.is_some());
    let partials = if bytes > 0 { Some(s.bytes(&vec![0xff; bytes as usize])?) } else { None };
    let args = Args { weights, up, x: x.packed(), epilogue, out: out.mat(), partials: partials.as_ref() };
    s.run(|rec| record(s.kernels(), rec, "gemm", &args, &tile))?;
    Ok(out)
}

/// A product of random operands against the sums in f64.
fn case(s: &Suite<'_>, format: FormatRef, m: usize, n: usize, k: usize, tile: Tile) -> Result<(), Failure> {
    let mut rng = s.rng();
    let w = Weights::random(s, &mut rng, format, m, k)?;
    let x = Host::random(&mut rng, n, k, 1.0);
    let layout = if k.is_multiple_of(4) { Layout::Columns } else { Layout::Unaligned };
    let out = run(s, &w, &Columns::of(s, &x, layout)?, None, Epilogue::default(), tile)?;
    let want = w.times(&x);
    let values = want.iter().flatten().map(|p| p.value as f32).collect();
    let columns: Vec<&[f32]> = x.rows().collect();
    s.compare(&out, &Host { width: m, data: values }, |_, c, r| allowed(&want[c][r], columns[c]) as f32)
}

/// Elements of rows at which steps, chunks or blocks end.
fn lengths(format: FormatRef, step: usize) -> Vec<usize> {
    match format.block_elems {
        1 => shape_classes(step).into_iter().chain([15, 16, 17]).collect(),
        block => shape_classes(2).iter().map(|n| block * n).collect(),
    }
}

fn shapes(s: &mut Suite<'_>, format: FormatRef, tile: Tile) {
    let rows = shape_classes(tile.rows as usize).into_iter().cycle();
    // Another beginning, so that not all dimensions are small together.
    let columns = shape_classes(tile.columns as usize).into_iter().cycle().skip(2);
    let lengths = lengths(format, tile.step as usize).into_iter().cycle();
    for ((m, n), k) in rows.zip(columns).zip(lengths).take(9) {
        let apart = tile.apart;
        s.case(format!("{format} {m}×{k}, {n} columns, {}, {apart} apart", tile.matrix.variant()), |s| {
            case(s, format, m, n, k, tile)
        });
    }
}

/// Subgroups that split the steps of a tile: all that a tile can have, and more subgroups than there are steps.
fn apart(s: &mut Suite<'_>, tile: Tile) {
    // Workgroups of matrices are whole subgroups of the device's own size, whatever size is asked for.
    let (own, lanes) = (s.kernels().caps().subgroup.size, s.kernels().subgroup_size());
    let odd = if (3 * lanes).is_multiple_of(own.max(1)) { 3 } else { 6 };
    for (format, subgroups) in [("Q4_K", odd), ("Q6_K", 4), ("F16", 2)] {
        let Some(format) = by_name(format) else { continue };
        shapes(s, format, Tile { apart: subgroups, ..tile });
    }
    if let Some(format) = by_name("Q4_K") {
        gates(s, format, tile);
    }
    epilogues(s, tile);
    parts(s, Tile { rows: 2 * tile.rows, sub_rows: 2 * tile.rows, ..tile });
}

/// Tiles of other proportions and in parts: (rows, columns, rows and columns of a unit, step, buffers, parts); of matrices in units of their size.
fn tiles(s: &mut Suite<'_>, matrix: Matrix) {
    let all = match matrix {
        Matrix::Portable => {
            vec![
                (16, 64, 2, 4, 64, 2, 1),
                (64, 16, 8, 2, 64, 1, 1),
                (8, 64, 1, 8, 32, 2, 5),
                (64, 64, 8, 4, 64, 1, 1),
                (32, 16, 2, 4, 128, 1, 2),
            ]
        }
        Matrix::Lanes => {
            vec![(128, 128, 32, 128, 64, 2, 1), (128, 64, 32, 64, 64, 2, 3), (64, 128, 32, 128, 64, 2, 2)]
        }
        Matrix::Khr { m, n, .. } => {
            let unit = |rows, columns, sub_rows, sub_columns, step, buffers, parts| {
                (rows * m, columns * n, sub_rows * m, sub_columns * n, step, buffers, parts)
            };
            vec![
                unit(2, 4, 1, 2, 64, 2, 1),
                unit(4, 2, 2, 1, 32, 1, 3),
                unit(4, 1, 1, 1, 128, 1, 2),
                unit(2, 2, 1, 2, 256, 1, 3),
            ]
        }
    };
    for (rows, columns, sub_rows, sub_columns, step, buffers, parts) in all {
        let tile = Tile { matrix, rows, columns, step, sub_rows, sub_columns, buffers, parts, apart: 1 };
        for name in ["Q6_K", "Q8_0"] {
            let Some(format) = by_name(name) else { continue };
            if !fits(s.kernels(), format, tile) {
                continue; // not on this device
            }
            let (m, n) = (2 * rows as usize + 1, columns as usize + 3);
            s.case(format!("{format} {tile:?}, {}", matrix.variant()), |s| case(s, format, m, n, 768, tile));
        }
    }
}

/// A product in parts, with all that can be added or gated, is what it is in one: the sums differ by their order alone, and repeat bit for bit.
fn parts(s: &mut Suite<'_>, tile: Tile) {
    let Some(format) = by_name("Q4_K") else { return };
    for (gated, parts) in [(false, 2), (false, 7), (true, 3)] {
        s.case(format!("{parts} parts, gated {gated}, {}", tile.matrix.variant()), |s| {
            let (m, n, k) = (2 * tile.rows as usize + 3, tile.columns as usize + 1, 1024);
            let mut rng = s.rng();
            let (w, up) =
                (Weights::random(s, &mut rng, format, m, k)?, Weights::random(s, &mut rng, format, m, k)?);
            let x = Host::random(&mut rng, n, k, 1.0);
            let columns = Columns::of(s, &x, Layout::Columns)?;
            let residual = s.upload(&Host::random(&mut rng, n, m, 1.0))?;
            let bias = s.values(&rng.normals(m, 1.0))?;
            let epilogue = Epilogue { bias: Some(&bias), residual: Some(residual.mat()) };
            let epilogue = if gated { Epilogue::default() } else { epilogue };
            let up = gated.then_some((Gate::SwiGlu, &up));
            let whole = s.read(&run(s, &w, &columns, up, epilogue, tile)?)?;
            let split = Tile { parts, ..tile };
            let out = run(s, &w, &columns, up, epilogue, split)?;
            for _ in 0..3 {
                let again = s.read(&run(s, &w, &columns, up, epilogue, split)?)?;
                if again.data != s.read(&out)?.data {
                    return Err("other sums in another run".to_string().into());
                }
            }
            let largest = whole.data.iter().fold(1f32, |a, v| a.max(v.abs()));
            s.compare(&out, &whole, |_, _, _| 1e3 * f32::EPSILON * largest)
        });
    }
}

fn gates(s: &mut Suite<'_>, format: FormatRef, tile: Tile) {
    for kind in [Gate::SwiGlu, Gate::GeGlu] {
        s.case(format!("{format} {kind:?}, {}", tile.matrix.variant()), |s| {
            let (m, n, k) = (tile.rows as usize + 3, tile.columns as usize + 1, 512);
            let mut rng = s.rng();
            let gate = Weights::random(s, &mut rng, format, m, k)?;
            let up = Weights::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, n, k, 1.0);
            let columns = Columns::of(s, &x, Layout::Columns)?;
            let out = run(s, &gate, &columns, Some((kind, &up)), Epilogue::default(), tile)?;
            let pairs: Vec<(Product, Product)> =
                gate.times(&x).into_iter().flatten().zip(up.times(&x).into_iter().flatten()).collect();
            let want = pairs.iter().map(|(g, u)| gated(kind, g.value, u.value) as f32).collect();
            let x: Vec<&[f32]> = x.rows().collect();
            // The errors of both products and of their product, the steepest slope of the activations being below 1.2, and the activation's own.
            s.compare(&out, &Host { width: m, data: want }, |_, c, r| {
                let (g, u) = &pairs[c * m + r];
                let (error_g, error_u) = (1.2 * allowed(g, x[c]), allowed(u, x[c]));
                let products = error_g * u.value.abs() + 1.2 * g.value.abs() * error_u + error_g * error_u;
                let own = tolerance::ACTIVATION_REL as f64 * (g.value * u.value).abs();
                (products + own) as f32
            })
        });
    }
}

/// Bias and residual are added after the product, in this order, in f32.
fn epilogues(s: &mut Suite<'_>, tile: Tile) {
    let (name, k) = if tile.matrix == Matrix::Lanes { ("Q6_K", 512) } else { ("Q8_0", 288) };
    let Some(format) = by_name(name) else { return };
    for (bias, residual) in [(true, false), (false, true), (true, true)] {
        s.case(format!("bias {bias}, residual {residual}, {}", tile.matrix.variant()), |s| {
            let (m, n) = (tile.rows as usize + 5, 3);
            let mut rng = s.rng();
            let w = Weights::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, n, k, 1.0);
            let columns = Columns::of(s, &x, Layout::Columns)?;
            let biases = rng.normals(m, 1.0);
            let added = Host::random(&mut rng, n, m, 1.0);
            let (residuals, bias_slice) = (s.upload(&added)?, s.values(&biases)?);
            let epilogue =
                Epilogue { bias: bias.then_some(&bias_slice), residual: residual.then(|| residuals.mat()) };
            let plain = s.read(&run(s, &w, &columns, None, Epilogue::default(), tile)?)?;
            let out = run(s, &w, &columns, None, epilogue, tile)?;
            let sum = |(i, &v): (usize, &f32)| {
                let v = if bias { v + biases[i % m] } else { v };
                if residual { v + added.data[i] } else { v }
            };
            let want = plain.data.iter().enumerate().map(sum).collect();
            // The compiler may join a product's scale and a sum to one rounding.
            s.compare(&out, &Host { width: m, data: want }, |want, _, _| {
                4.0 * f32::EPSILON * (1.0 + want.abs())
            })
        });
    }
}

/// Every element is what f16 makes of it under the row's power of two, and what pads a row is zero.
fn conversions(s: &mut Suite<'_>) {
    for (k, layout) in [1, 4, 63, 64, 65, 1000, 4096, 17_000]
        .into_iter()
        .flat_map(|k| [Layout::Columns, Layout::Unaligned].map(|layout| (k, layout)))
    {
        s.case(format!("convert {k} elements, {layout:?}"), |s| {
            let mut rng = s.rng();
            let rows = 5;
            let mut x = Host::random(&mut rng, rows, k, 1.0);
            // A row beyond f16's range, one far below it, one of zeros.
            for (row, factor) in [1e20, 1e-30, 0.0].into_iter().enumerate() {
                x.data[row * k..][..k].iter_mut().for_each(|v| *v *= factor);
            }
            let columns = Columns::of(s, &x, layout)?;
            let (values, scales) = columns.packed().parts()?;
            let halves: Vec<u16> = s.read_values(&values)?;
            let scales: Vec<f32> = s.read_values(&scales)?;
            let pitch = Packed::pitch(k as u32) as usize;
            for (r, row) in x.rows().enumerate() {
                let largest = row.iter().fold(0f32, |a, v| a.max(v.abs()));
                for i in 0..pitch {
                    let got = half(halves[r * pitch + Packed::place(i)]) * scales[r];
                    let want = row.get(i).copied().unwrap_or(0.0);
                    let limit = tolerance::CONVERT_REL * want.abs() + largest / 2f32.powi(38);
                    if (got - want).abs() > limit || got.is_nan() {
                        return Err(format!("row {r}, element {i}: {got:e} for {want:e}").into());
                    }
                }
            }
            Ok(())
        });
    }
}

/// The value of an f16's bits.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 => f32::NAN,
        e => (1024.0 + fraction) * 2f32.powi(e - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use crate::suite::assert_suite;

    #[test]
    fn products_in_tiles_agree_with_the_reference() {
        assert_suite(super::suite);
    }
}
