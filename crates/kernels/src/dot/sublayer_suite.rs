//! Products that compute the row behind a sublayer first.

use super::suite::{bounds, check, check_gated, chosen};
use super::{Tile, record};
use crate::gemv::suite::{Matrix, same_bits};
use crate::gemv::{Args, Epilogue, Gate, InputNorm, Sublayer};
use crate::suite::{Failure, Host, Suite};
use zinc_quant::by_name;
use zinc_testkit::tolerance;

/// A product behind a sublayer.
#[derive(Clone, Copy)]
struct Case {
    format: &'static str,
    m: usize,
    k: usize,
    gated: bool,
    scaled: bool,
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for (format, m, k, gated, scaled) in [
        ("Q4_K", 9, 256, true, false),
        ("Q6_K", 33, 1280, false, true),
        ("Q4_K", 70, 2304, false, false),
        ("Q8_0", 5, 32, false, true),
    ] {
        s.case(format!("{format} {m}×{k} behind a sublayer, gated {gated}, scaled {scaled}"), |s| {
            case(s, Case { format, m, k, gated, scaled })
        });
    }
}

/// 1 / the root mean square.
fn factor(row: &[f32], eps: f32) -> f64 {
    let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / row.len() as f64;
    1.0 / (mean + f64::from(eps)).sqrt()
}

/// What is normed and added is stored and multiplied, once more normed; who does not store it gives the same bits, however the work is cut.
fn case(s: &Suite<'_>, Case { format, m, k, gated, scaled }: Case) -> Result<(), Failure> {
    let Some(format) = by_name(format) else { return Err(format!("no {format}").into()) };
    let mut rng = s.rng();
    let [w, up] = [Matrix::random(s, &mut rng, format, m, k)?, Matrix::random(s, &mut rng, format, m, k)?];
    let (x, row) = (Host::random(&mut rng, 1, k, 3.0), Host::random(&mut rng, 1, k, 1.0));
    let (first, second, by, eps) = (rng.normals(k, 1.0), rng.normals(k, 1.0), rng.normals(1, 1.0), 1e-3);
    let scale = if scaled { f64::from(by[0]) } else { 1.0 };
    let of_x = factor(&x.data, eps);
    let behind = |i: usize| f64::from(x.data[i]) * of_x * f64::from(first[i]) + f64::from(row.data[i]);
    let behind = Host { width: k, data: (0..k).map(|i| (behind(i) * scale) as f32).collect() };
    let of_row = factor(&behind.data, eps);
    let normed = |(v, w): (&f32, &f32)| (f64::from(*v) * of_row * f64::from(*w)) as f32;
    let normed = Host { width: k, data: behind.data.iter().zip(&second).map(normed).collect() };

    let (x, row) = (s.upload(&x)?, s.upload(&row)?);
    let (first, second, by) = (s.values(&first)?, s.values(&second)?, s.values(&by)?);
    let (kept, out) = (s.output(1, k)?, s.output(1, m)?);
    let scale_on = scaled.then_some(&by);
    let sublayer = Sublayer { weight: &first, row: row.mat(), scale: scale_on, out: Some(kept.mat()) };
    let args = Args {
        weights: w.weights(),
        up: gated.then_some((Gate::GeGlu, up.weights())),
        x: x.mat(),
        norm: Some(InputNorm { weight: &second, eps, sublayer: Some(sublayer) }),
        columns: 1,
        epilogue: Epilogue::default(),
        out: out.mat(),
    };
    let tile = chosen(s, format, m, k, 1, gated)?;
    s.run(|rec| record(s.kernels(), rec, "dot", &args, tile))?;
    let size = |i: usize| behind.data[i].abs() + (scale as f32 * 4.0).abs();
    s.compare(&kept, &behind, |_, _, i| tolerance::NORM_REL * size(i))?;
    let products = |w: &Matrix| bounds(w, &normed, tile.bytes);
    match gated {
        true => check_gated(s, &out, Gate::GeGlu, &products(&w)[0], &products(&up)[0])?,
        false => drop(check(s, &out, &products(&w))?),
    }
    let other = Tile { rows: 1, subgroups: 3, ahead: !tile.ahead, ..tile };
    let again = s.output(1, m)?;
    let norm = InputNorm { weight: &second, eps, sublayer: Some(Sublayer { out: None, ..sublayer }) };
    let args = Args { out: again.mat(), norm: Some(norm), ..args };
    s.run(|rec| record(s.kernels(), rec, "dot", &args, other))?;
    same_bits(&s.read(&out)?.data, &s.read(&again)?.data)
}
