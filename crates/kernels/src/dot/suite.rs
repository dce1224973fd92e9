//! Which products are tried: every format at the sizes where chunks, lanes and stages end, one and two bytes of x, 1 to 16 columns, every way to
//! cut the work.

use super::reference::{Bounded, bounded};
use super::{Tile, record, select};
use crate::Kernels;
use crate::gemv::reference::gated;
use crate::gemv::suite::{Matrix, same_bits};
use crate::gemv::{Args, Epilogue, Gate, InputNorm, ProductClass};
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite, compare};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::{shape_classes, tolerance};

/// Every case of integer-dot products. Where the device has none, there is nothing to try.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "dot");
    let have: Vec<FormatRef> =
        formats().iter().copied().filter(|&f| chosen(&s, f, 1, 512, 1, false).is_ok()).collect();
    if have.is_empty() {
        return s.finish();
    }
    for format in have {
        shapes(&mut s, format);
        columns(&mut s, format);
        gates(&mut s, format);
    }
    for format in ["Q4_K", "Q6_K"].into_iter().filter_map(by_name) {
        tiles(&mut s, format);
    }
    epilogues(&mut s);
    norms(&mut s);
    super::sublayer_suite::cases(&mut s);
    many_rows(&mut s);
    not_numbers(&mut s);
    s.finish()
}

pub(super) fn chosen(
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

fn run(s: &Suite<'_>, w: &Matrix, x: &Placed, columns: usize, tile: Tile) -> Result<Placed, Failure> {
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
    s.run(|rec| record(s.kernels(), rec, "dot", &args, tile))?;
    Ok(out)
}

pub(super) fn bounds(w: &Matrix, x: &Host, bytes: u32) -> Vec<Vec<Bounded>> {
    bounded(w.format, &w.file, w.k, &x.rows().collect::<Vec<_>>(), bytes)
}

/// Holds a result against the bound of its error.
pub(super) fn check(s: &Suite<'_>, out: &Placed, want: &[Vec<Bounded>]) -> Result<Host, Failure> {
    let got = s.read(out)?;
    let values = want.iter().flatten().map(|p| p.value as f32).collect();
    compare(&got, &Host { width: got.width, data: values }, |_, c, r| want[c][r].error as f32)?;
    Ok(got)
}

fn shapes(s: &mut Suite<'_>, format: FormatRef) {
    let lanes = s.kernels().policy().dot.lanes.min(s.kernels().subgroup_size()) as usize;
    let blocks = if format.block_elems == 256 { lanes.div_ceil(4) } else { lanes };
    let sizes = shape_classes(blocks).into_iter().zip(shape_classes(4).into_iter().cycle());
    // What the stage does at these lengths depends on the chunk alone; codes differ.
    let all = ["Q4_K", "Q6_K", "Q8_0"].contains(&format.name);
    for (i, (blocks, m)) in sizes.enumerate().filter(|(i, _)| all || [0, 3].contains(i)) {
        let (k, bytes) = (blocks * format.block_elems, 1 + i as u32 % 2);
        s.case(format!("{format} {m}×{k}, {bytes} bytes"), |s| {
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, 1, k, 1.0);
            let tile = Tile { bytes, ..chosen(s, format, m, k, 1, false)? };
            check(s, &run(s, &w, &s.upload(&x)?, 1, fitted(tile, format, k))?, &bounds(&w, &x, bytes))
                .map(drop)
        });
    }
}

/// Two bytes may not fit where one did: then x goes in parts.
fn fitted(tile: Tile, format: FormatRef, k: usize) -> Tile {
    let steps = (k as u32).div_ceil(format.chunk).div_ceil(tile.lanes);
    let fits = |&stage: &u32| {
        let [staged, scales] = Tile { stage, ..tile }.shared(format);
        16 * staged + 8 * scales <= 14 << 10
    };
    Tile { stage: (1..=steps).rev().find(fits).unwrap_or(1), ..tile }
}

/// Several columns are right, and each has the very bits it has alone.
fn columns(s: &mut Suite<'_>, format: FormatRef) {
    let (m, k) = (5, 768);
    let columns = [2, 3, 8][s.rng().below(3)];
    s.case(format!("{format} {m}×{k}, {columns} columns"), |s| {
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let tile = |columns| chosen(s, format, m, k, columns, false);
        let bytes = tile(1)?.bytes;
        let got = check(s, &run(s, &w, &s.upload(&x)?, columns, tile(columns)?)?, &bounds(&w, &x, bytes))?;
        let c = rng.below(columns);
        let one = Host { width: k, data: x.data[c * k..][..k].to_vec() };
        let placed = s.upload_as(&one, Layout::Unaligned)?;
        let alone = s.read(&run(s, &w, &placed, 1, tile(1)?)?)?;
        same_bits(&alone.data, &got.data[c * m..][..m])
    });
}

fn gates(s: &mut Suite<'_>, format: FormatRef) {
    let (kind, columns) = if format.name == "Q4_K" { (Gate::GeGlu, 2) } else { (Gate::SwiGlu, 1) };
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
        let tile = fitted(Tile { bytes: 2, ..chosen(s, format, m, k, columns, true)? }, format, k);
        s.run(|rec| record(s.kernels(), rec, "dot", &args, tile))?;
        let flat = |w: &Matrix| bounds(w, &x, 2).into_iter().flatten().collect::<Vec<_>>();
        check_gated(s, &out, kind, &flat(&gate), &flat(&up))
    });
}

/// Holds activated products against the errors of both, the steepest slope of the activations being below 1.2, and the activation's own.
pub(super) fn check_gated(
    s: &Suite<'_>,
    out: &Placed,
    kind: Gate,
    gate: &[Bounded],
    up: &[Bounded],
) -> Result<(), Failure> {
    let pairs: Vec<(&Bounded, &Bounded)> = gate.iter().zip(up).collect();
    let want = pairs.iter().map(|(g, u)| gated(kind, g.value, u.value) as f32).collect();
    let m = out.mat().width as usize;
    s.compare(out, &Host { width: m, data: want }, |_, c, r| {
        let (g, u) = pairs[c * m + r];
        let products = 1.2 * g.error * (u.value.abs() + u.error) + 1.2 * g.value.abs() * u.error;
        (products + f64::from(tolerance::ACTIVATION_REL) * (g.value * u.value).abs()) as f32
    })
}

/// Tiles of all kinds: (lanes, bytes, rows, columns, subgroups, stage, batches, ahead), of 1, 3 and 5 columns. Those that agree in lanes and bytes
/// give the same bits.
fn tiles(s: &mut Suite<'_>, format: FormatRef) {
    let all = [
        (8, 1, 1, 1, 1, 1, 1, false),
        (8, 1, 4, 2, 2, 9, 2, true),
        (4, 2, 2, 3, 3, 2, 1, true),
        (4, 1, 3, 4, 1, 18, 3, false),
        (2, 2, 1, 2, 2, 3, 1, false),
        (1, 1, 2, 1, 2, 4, 1, true),
        (64, 2, 2, 5, 2, 1, 1, true),
    ];
    let subgroup = s.kernels().subgroup_size();
    for (i, (lanes, bytes, rows, columns, subgroups, stage, batches, ahead)) in all.into_iter().enumerate() {
        let lanes = lanes.min(subgroup);
        let tile = Tile { lanes, bytes, rows, columns, subgroups, stage, batches, ahead };
        let plain = Tile { rows: 1, columns: 1, subgroups: 1, stage: 2, batches: 1, ahead: false, ..tile };
        let columns = [1, 3, 5][i % 3];
        for m in if i == 1 {
            vec![1, tile.batch_rows(subgroup) as usize * 2 + 1]
        } else {
            vec![tile.batch_rows(subgroup) as usize * 2 + 1]
        } {
            s.case(format!("{format} {m} rows, {columns} columns, {tile:?}"), |s| {
                let mut rng = s.rng();
                let k = 2304;
                let w = Matrix::random(s, &mut rng, format, m, k)?;
                let x = Host::random(&mut rng, columns, k, 1.0);
                let placed = s.upload(&x)?;
                let got = check(s, &run(s, &w, &placed, columns, tile)?, &bounds(&w, &x, bytes))?;
                same_bits(&s.read(&run(s, &w, &placed, columns, plain)?)?.data, &got.data)
            });
        }
    }
}

/// Bias and residual are added after the product, in this order, in f32.
fn epilogues(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q8_0") else { return };
    s.case("bias and residual", |s| {
        let (m, k, columns) = (9, 512, 2);
        let mut rng = s.rng();
        let w = Matrix::random(s, &mut rng, format, m, k)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let biases = rng.normals(m, 1.0);
        let added = Host::random(&mut rng, columns, m, 1.0);
        let (placed, residuals, bias) = (s.upload(&x)?, s.upload(&added)?, s.values(&biases)?);
        let out = s.output(columns, m)?;
        let args = Args {
            weights: w.weights(),
            up: None,
            x: placed.mat(),
            norm: None,
            columns: columns as u32,
            epilogue: Epilogue { bias: Some(&bias), residual: Some(residuals.mat()) },
            out: out.mat(),
        };
        let tile = chosen(s, format, m, k, columns, false)?;
        s.run(|rec| record(s.kernels(), rec, "dot", &args, tile))?;
        let plain = s.read(&run(s, &w, &placed, columns, tile)?)?;
        let sum = |(i, v): (usize, &f32)| v + biases[i % m] + added.data[i];
        let want: Vec<f32> = plain.data.iter().enumerate().map(sum).collect();
        same_bits(&want, &s.read(&out)?.data)
    });
}

/// Products of normed columns: the norm is within the same error, whatever else is done.
fn norms(s: &mut Suite<'_>) {
    let shapes = [
        ("Q4_K", 9, 256, 1),
        ("Q6_K", 33, 1280, 1),
        ("Q8_0", 5, 32, 3),
        ("Q4_0", 7, 1056, 2),
        ("IQ4_XS", 3, 256, 8),
    ];
    for (name, m, k, columns) in shapes {
        let Some(format) = by_name(name) else { return };
        s.case(format!("{format} {m}×{k}, {columns} normed columns"), |s| {
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let x = Host::random(&mut rng, columns, k, 3.0);
            let (gamma, eps) = (rng.normals(k, 1.0), 1e-3f32);
            let normed = |row: &[f32]| {
                let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / k as f64;
                let factor = 1.0 / (mean + f64::from(eps)).sqrt();
                row.iter()
                    .zip(&gamma)
                    .map(|(v, g)| (f64::from(*v) * factor * f64::from(*g)) as f32)
                    .collect::<Vec<_>>()
            };
            let want = Host { width: k, data: x.rows().flat_map(normed).collect() };
            let (placed, weight, out) = (s.upload(&x)?, s.values(&gamma)?, s.output(columns, m)?);
            let added = Host::random(&mut rng, columns, m, 1.0);
            let residuals = s.upload(&added)?;
            let args = Args {
                weights: w.weights(),
                up: None,
                x: placed.mat(),
                norm: Some(InputNorm { weight: &weight, eps, sublayer: None }),
                columns: columns as u32,
                epilogue: Epilogue { bias: None, residual: Some(residuals.mat()) },
                out: out.mat(),
            };
            let tile = chosen(s, format, m, k, columns, false)?;
            s.run(|rec| record(s.kernels(), rec, "dot", &args, tile))?;
            let mut bounds = bounds(&w, &want, tile.bytes);
            let residual = added.data.chunks(m);
            for (column, residual) in bounds.iter_mut().zip(residual) {
                column.iter_mut().zip(residual).for_each(|(b, r)| b.value += f64::from(*r));
            }
            check(s, &out, &bounds)?;
            // The order of the squares depends on K alone.
            let other = Tile { rows: 1, columns: 1, subgroups: 1, batches: 2, ahead: !tile.ahead, ..tile };
            let again = s.output(columns, m)?;
            s.run(|rec| record(s.kernels(), rec, "dot", &Args { out: again.mat(), ..args }, other))?;
            same_bits(&s.read(&out)?.data, &s.read(&again)?.data)
        });
    }
}

/// As many rows as a vocabulary has, several columns.
fn many_rows(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q8_0") else { return };
    s.case("50001 rows", |s| {
        let (m, k, columns) = (50_001, 576, 3);
        let mut rng = s.rng();
        // The same rows again and again: they are dear to encode.
        let few = Matrix::random(s, &mut rng, format, 100, k)?;
        let file: Vec<u8> = few.file.iter().copied().cycle().take(m * format.row_bytes(k)).collect();
        let w = Matrix::packed(s, format, m, k, file)?;
        let x = Host::random(&mut rng, columns, k, 1.0);
        let tile = chosen(s, format, m, k, columns, false)?;
        let got = s.read(&run(s, &w, &s.upload(&x)?, columns, tile)?)?;
        let want = bounds(&few, &x, tile.bytes);
        let right = |i: usize| {
            let want = want[i / m][i % m % 100];
            (f64::from(got.data[i]) - want.value).abs() <= want.error
        };
        match (0..columns * m).find(|&i| !right(i)) {
            None => Ok(()),
            Some(i) => Err(format!("column {}, row {} is {:e}", i / m, i % m, got.data[i]).into()),
        }
    });
}

/// What is not a finite number in x is none in the result; zeros and the smallest numbers are nothing.
fn not_numbers(s: &mut Suite<'_>) {
    let Some(format) = by_name("Q4_K") else { return };
    for (value, finite) in
        [(f32::NAN, false), (f32::INFINITY, false), (f32::NEG_INFINITY, false), (1e-38, true), (0.0, true)]
    {
        s.case(format!("{value} in x"), |s| {
            let (m, k) = (3, 256);
            let mut rng = s.rng();
            let w = Matrix::random(s, &mut rng, format, m, k)?;
            let mut x = Host { width: k, data: vec![0.0; k] };
            x.data[rng.below(k)] = value;
            let got = s.read(&run(s, &w, &s.upload(&x)?, 1, chosen(s, format, m, k, 1, false)?)?)?;
            let right = |v: &f32| if finite { v.abs() < 1e-30 } else { !v.is_finite() };
            if got.data.iter().all(right) {
                Ok(())
            } else {
                Err(format!("{value} gives {:?}", got.data).into())
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::assert_suite;

    #[test]
    fn products_are_within_the_error_of_rounded_activations() {
        assert_suite(suite);
    }
}
