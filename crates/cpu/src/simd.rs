//! The inner loops. They are plain loops over eight lanes that the compiler vectorises; each is compiled for AVX2 with FMA and for the
//! baseline, and the one for the processor is chosen when it runs.
//!
//! A dot product has one accumulator of eight lanes: lane l sums the elements l, l + 8, l + 16, …, and the lanes are added pairwise
//! at the end. This order does not depend on how many products are computed side by side.
#![allow(unsafe_code, reason = "the dispatcher that `multiversion` writes calls what it has checked")]

use multiversion::{multiversion, target::target_cfg_f};

const LANES: usize = 8;

/// Weight rows that [`products`] takes together.
pub(crate) const TILE_ROWS: usize = 4;

#[inline(always)]
fn fused<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// The dot products of R vectors with C vectors, all of one length.
#[inline(always)]
fn tile<const R: usize, const C: usize, const FMA: bool>(w: [&[f32]; R], x: [&[f32]; C]) -> [[f32; C]; R] {
    let k = w[0].len();
    let (w, x) = (w.map(|w| w[..k].as_chunks::<LANES>()), x.map(|x| x[..k].as_chunks::<LANES>()));
    let mut acc = [[[0.0f32; LANES]; C]; R];
    for i in 0..k / LANES {
        for r in 0..R {
            for c in 0..C {
                let (a, b) = (&w[r].0[i], &x[c].0[i]);
                for l in 0..LANES {
                    acc[r][c][l] = fused::<FMA>(a[l], b[l], acc[r][c][l]);
                }
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            for (l, (&a, &b)) in w[r].1.iter().zip(x[c].1).enumerate() {
                acc[r][c][l] = fused::<FMA>(a, b, acc[r][c][l]);
            }
        }
    }
    acc.map(|row| row.map(|a| ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))))
}

/// `out[r·n + c] = w[r] · x[c]` for weight rows of `k` elements, `n` the number of vectors in `x`.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn products(w: &[f32], k: usize, x: &[&[f32]], out: &mut [f32]) {
    const FMA: bool = target_cfg_f!(target_feature = "fma");
    let n = x.len();
    let tiles = w.chunks_exact(TILE_ROWS * k);
    let rest = tiles.remainder();
    let out_tiles = out.chunks_mut(TILE_ROWS * n);
    for (w, out) in tiles.zip(out_tiles) {
        let w = [&w[..k], &w[k..2 * k], &w[2 * k..3 * k], &w[3 * k..4 * k]];
        let columns = x.chunks_exact(3);
        for (i, &x) in columns.remainder().iter().enumerate() {
            let y = tile::<4, 1, FMA>(w, [x]);
            let c = n - columns.remainder().len() + i;
            (0..4).for_each(|r| out[r * n + c] = y[r][0]);
        }
        for (i, x) in columns.enumerate() {
            let y = tile::<4, 3, FMA>(w, [x[0], x[1], x[2]]);
            (0..4).for_each(|r| out[r * n + 3 * i..][..3].copy_from_slice(&y[r]));
        }
    }
    let done = w.len() / (TILE_ROWS * k) * TILE_ROWS;
    for (i, w) in rest.chunks_exact(k).enumerate() {
        for (c, &x) in x.iter().enumerate() {
            out[(done + i) * n + c] = tile::<1, 1, FMA>([w], [x])[0][0];
        }
    }
}

/// The dot product of two vectors of one length.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const FMA: bool = target_cfg_f!(target_feature = "fma");
    tile::<1, 1, FMA>([a], [b])[0][0]
}

/// `scores[j] = q · keys[j·stride ..]`.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn scores(q: &[f32], keys: &[f32], stride: usize, scores: &mut [f32]) {
    const FMA: bool = target_cfg_f!(target_feature = "fma");
    let key = |j: usize| &keys[j * stride..][..q.len()];
    let whole = scores.len() / 4 * 4;
    for j in (0..whole).step_by(4) {
        let y = tile::<4, 1, FMA>([key(j), key(j + 1), key(j + 2), key(j + 3)], [q]);
        (0..4).for_each(|r| scores[j + r] = y[r][0]);
    }
    for j in whole..scores.len() {
        scores[j] = tile::<1, 1, FMA>([key(j)], [q])[0][0];
    }
}

/// `y += a · x`.
#[inline(always)]
fn add_scaled<const FMA: bool>(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = fused::<FMA>(a, x, *y);
    }
}

/// `out = Σ_j weights[j] · values[j·stride ..]`, in order of j.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn weighted_sum(weights: &[f32], values: &[f32], stride: usize, out: &mut [f32]) {
    const FMA: bool = target_cfg_f!(target_feature = "fma");
    out.fill(0.0);
    for (j, &w) in weights.iter().enumerate() {
        add_scaled::<FMA>(w, &values[j * stride..][..out.len()], out);
    }
}

/// One step of the gated delta rule on a head's state, `out.len()` rows of `k.len()` elements:
/// `S *= decay; d = rate·(v − S·k); S += d ⊗ k; out = S·q`.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn delta_step(
    state: &mut [f32],
    (q, k, v): (&[f32], &[f32], &[f32]),
    decay: f32,
    rate: f32,
    out: &mut [f32],
) {
    const FMA: bool = target_cfg_f!(target_feature = "fma");
    for ((s, &v), out) in state.chunks_exact_mut(k.len()).zip(v).zip(out) {
        s.iter_mut().for_each(|s| *s *= decay);
        let d = rate * (v - tile::<1, 1, FMA>([s], [k])[0][0]);
        add_scaled::<FMA>(d, k, s);
        *out = tile::<1, 1, FMA>([s], [q])[0][0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_testkit::{Rng, shape_classes};

    #[test]
    fn products_do_not_depend_on_their_company() {
        let mut rng = Rng::fresh();
        for k in [1, 7, 8, 9, 64, 100] {
            for m in shape_classes(TILE_ROWS) {
                let w = rng.normals(m * k, 1.0);
                let x = rng.normals(11 * k, 1.0);
                let x: Vec<&[f32]> = x.chunks_exact(k).collect();
                let mut all = vec![f32::NAN; m * x.len()];
                products(&w, k, &x, &mut all);
                for (r, w) in w.chunks_exact(k).enumerate() {
                    for (c, x) in x.iter().enumerate() {
                        let exact: f64 = w.iter().zip(*x).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                        let size: f64 = w.iter().zip(*x).map(|(&a, &b)| f64::from(a * b).abs()).sum();
                        let got = all[r * 11 + c];
                        assert_eq!(got.to_bits(), dot(w, x).to_bits());
                        assert!(
                            (f64::from(got) - exact).abs() <= zinc_testkit::tolerance::PRODUCT_REL * size
                        );
                    }
                }
            }
        }
    }
}
