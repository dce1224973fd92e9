//! Which products are tried: every format at the sizes where slices, matrices of rows and columns end, every way to cut the work.

use super::{Tile, record, select};
use crate::Kernels;
use crate::gemv::reference::{Product, gated};
use crate::gemv::suite::Matrix;
use crate::gemv::{Args, Epilogue, Gate, ProductClass};
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite, compare};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::tolerance;

/// Formats of which all is tried: codes of others differ, and a driver takes a while for each pipeline.
const WHOLE: [&str; 3] = ["Q4_K", "Q6_K", "Q8_0"];

/// Every case of products by slices, where the device has matrices for them.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "slices");
    let have: Vec<FormatRef> =
        formats().iter().copied().filter(|&f| chosen(&s, f, 1, 512, 1, false).is_ok()).collect();
    for &format in &have {
        shapes(&mut s, format);
        if WHOLE.contains(&format.name) {
            gates(&mut s, format);
        }
    }
    if have.is_empty() {
        s.skip("its matrices lie in other lanes");
    } else {
        tiles(&mut s);
        epilogues(&mut s);
        not_numbers(&mut s);
    }
    s.finish()
}

fn chosen(
    s: &Suite<'_>,
    format: FormatRef,
    m: usize,
    k: usize,
    columns: usize,
    gated: bool,
) -> Result<Tile, Failure> {
    let class = ProductClass { format, m: m as u32, k: k as u32, gated };
    Ok(select(s.kernels().caps(), s.kernels().policy(), &class, columns as u32)?)
}

/// Operands of a product that nothing is added to.
fn plain<'a>(w: &'a Matrix, x: &'a Placed, columns: usize, out: &'a Placed) -> Args<'a> {
    Args {
        weights: w.weights(),
        up: None,
        x: x.mat(),
        norm: None,
        columns: columns as u32,
        epilogue: Epilogue::default(),
        out: out.mat(),
    }
}

fn run(s: &Suite<'_>, w: &Matrix, x: &Placed, columns: usize, tile: Tile) -> Result<Placed, Failure> {
    let out = s.output(columns, w.m)?;
    s.run(|rec| record(s.kernels(), rec, "slices", &plain(w, x, columns, &out), tile))?;
    Ok(out)
}

/// What a product may differ by.
fn allowed(product: &Product, x: &[f32]) -> f64 {
    let sum: f64 = x.iter().map(|v| f64::from(v.abs())).sum();
    tolerance::PRODUCT_F16_REL * product.magnitude + tolerance::PRODUCT_F16_ABS * sum
}

/// Holds a result against the sums in f64.
fn check(s: &Suite<'_>, out: &Placed, w: &Matrix, x: &Host) -> Result<(), Failure> {
    let want = w.times(x);
    let rows: Vec<&[f32]> = x.rows().collect();
    let values = want.iter().flatten().map(|p| p.value as f32).collect();
    compare(&s.read(out)?, &Host { width: w.m, data: values }, |_, c, r| allowed(&want[c][r], rows[c]) as f32)
}

/// A product of random operands.
fn case(s: &Suite<'_>, format: FormatRef, (m, k): (usize, usize), columns: usize) -> Result<(), Failure> {
    let mut rng = s.rng();
    let w = Matrix::random(s, &mut rng, format, m, k)?;
    let x = Host::random(&mut rng, columns, k, 1.0);
    let layout = if columns.is_multiple_of(2) { Layout::Unaligned } else { Layout::Dense };
    let placed = s.upload_as(&x, layout)?;
    check(s, &run(s, &w, &placed, columns, chosen(s, format, m, k, columns, false)?)?, &w, &x)
}

fn shapes(s: &mut Suite<'_>, format: FormatRef) {
    let most = s.kernels().policy().slices.most_columns as usize;
    let block = format.block_elems;
    // A slice is four chunks. Parts of one, whole ones, as many as a workgroup has subgroups.
    let slice = 4 * format.chunk as usize;
    let lengths = [
        block,
        slice,
        slice + block.min(slice),
        7 * slice,
        16 * slice,
        15 * slice + block.min(slice),
        16 * slice,
    ];
    let rows = [1, 15, 16, 17, 61];
    let all = WHOLE.contains(&format.name);
    for (i, length) in lengths.into_iter().enumerate().filter(|(i, _)| all || [2, 5].contains(i)) {
        let (m, columns) = (rows[i % rows.len()], [1, 2, 3, 5, 7, most, most][i]);
        let k = length.next_multiple_of(block);
        s.case(format!("{format} {m}×{k}, {columns} columns"), |s| case(s, format, (m, k), columns));
    }
}

fn gates(s: &mut Suite<'_>, format: FormatRef) {
    let (kind, columns) = if format.name == "Q4_K" { (Gate::GeGlu, 3) } else { (Gate::SwiGlu, 8) };
    s.case(format!("{format} {kind:?}, {columns} columns"), |s| {
        let (m, k) = (39, 768);
        let mut rng = s.rng();
        let gate = Matrix::random(s, &mut rng, format, m, k)?;
        let up = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let (placed, out) = (s.upload(&x)?, s.output(columns, m)?);
        let args = Args { up: Some((kind, up.weights())), ..plain(&gate, &placed, columns, &out) };
        let tile = chosen(s, format, m, k, columns, true)?;
        s.run(|rec| record(s.kernels(), rec, "slices", &args, tile))?;
        let (g, u) = (gate.times(&x), up.times(&x));
        let want =
            g.iter().flatten().zip(u.iter().flatten()).map(|(g, u)| gated(kind, g.value, u.value) as f32);
        let rows: Vec<&[f32]> = x.rows().collect();
        // The errors of both products, the steepest slope of the activations being below 1.2, and the activation's own.
        s.compare(&out, &Host { width: m, data: want.collect() }, |_, c, r| {
            let (g, u) = (g[c][r], u[c][r]);
            let (of_g, of_u) = (allowed(&g, rows[c]), allowed(&u, rows[c]));
            let products = 1.2 * of_g * (u.value.abs() + of_u) + 1.2 * g.value.abs() * of_u;
            (products + f64::from(tolerance::ACTIVATION_REL) * (g.value * u.value).abs()) as f32
        })
    });
}

/// Tiles of all kinds: (matrices of rows, workgroups), of rows for several batches of several workgroups.
fn tiles(s: &mut Suite<'_>) {
    for name in ["Q4_K", "Q8_0"] {
        let Some(format) = by_name(name) else { continue };
        for (tiles, groups) in [(1, 1), (2, 3), (4, 1), (1, 5), (6, 2)] {
            let tile = Tile { tiles, groups };
            for n in [5, 8, 10] {
                s.case(format!("{format} {n} columns, {tile:?}"), |s| {
                    let (m, k) = (16 * 13 + 5, 9 * 4 * format.chunk as usize);
                    let mut rng = s.rng();
                    let w = Matrix::random(s, &mut rng, format, m, k.next_multiple_of(format.block_elems))?;
                    let x = Host::random(&mut rng, n, w.k, 1.0);
                    check(s, &run(s, &w, &s.upload(&x)?, n, tile)?, &w, &x)
                });
            }
        }
    }
}

/// Bias and residual are added after the product, in this order, in f32.
fn epilogues(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q4_K") else { return };
    s.case("bias and residual", |s| {
        let (m, k, columns) = (41, 1024, 5);
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let biases = rng.normals(m, 1.0);
        let added = Host::random(&mut rng, columns, m, 1.0);
        let (placed, residuals, bias) = (s.upload(&x)?, s.upload(&added)?, s.values(&biases)?);
        let out = s.output(columns, m)?;
        let epilogue = Epilogue { bias: Some(&bias), residual: Some(residuals.mat()) };
        let tile = chosen(s, format, m, k, columns, false)?;
        let args = Args { epilogue, ..plain(&w, &placed, columns, &out) };
        s.run(|rec| record(s.kernels(), rec, "slices", &args, tile))?;
        let product = s.read(&run(s, &w, &placed, columns, tile)?)?;
        let sum = |(i, v): (usize, &f32)| v + biases[i % m] + added.data[i];
        let want: Vec<f32> = product.data.iter().enumerate().map(sum).collect();
        crate::gemv::suite::same_bits(&want, &s.read(&out)?.data)
    });
}

/// What is not a finite number in x is none in its column's results, and nothing in the others'; columns may be as small or as large as they like.
fn not_numbers(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q4_K") else { return };
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        s.case(format!("{value} in x"), |s| {
            let (m, k, columns) = (20, 512, 3);
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let mut x = Host { width: k, data: vec![0.0; columns * k] };
            x.data[k + rng.below(k)] = value;
            let out = run(s, &w, &s.upload(&x)?, columns, chosen(s, format, m, k, columns, false)?)?;
            let got = s.read(&out)?;
            let right = |(i, v): (usize, &f32)| if i / m == 1 { !v.is_finite() } else { *v == 0.0 };
            match got.data.iter().enumerate().all(right) {
                true => Ok(()),
                false => Err(format!("{value} gives {:?}", got.data).into()),
            }
        });
    }
    s.case("small and large columns", |s| {
        let (m, k, columns) = (20, 512, 3);
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let mut x = Host::random(&mut rng, columns, k, 1.0);
        let sizes = [1e-20, 1.0, 1e30];
        x.data.iter_mut().enumerate().for_each(|(i, v)| *v *= sizes[i / k]);
        let tile = chosen(s, format, m, k, columns, false)?;
        check(s, &run(s, &w, &s.upload(&x)?, columns, tile)?, &w, &x)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::assert_suite;

    /// A software driver's matrices lie in other lanes: there it has nothing to try.
    #[test]
    fn products_are_within_the_error_of_rounded_factors() {
        assert_suite(suite);
    }
}
