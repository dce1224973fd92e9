//! The inner loops. They are plain loops over eight lanes that the compiler vectorises; each is compiled for AVX2 with FMA and for the
//! baseline, and the one for the processor is chosen when it runs.
//!
//! A dot product has one accumulator of eight lanes: lane l sums the elements l, l + 8, l + 16, …, and the lanes are added pairwise
//! at the end. This order does not depend on how many products are computed side by side.
#![allow(unsafe_code, reason = "the dispatcher that `multiversion` writes calls what it has checked")]

use multiversion::{multiversion, target::target_cfg_f};
use std::array::from_fn;

const LANES: usize = 8;
type Lanes = [f32; LANES];

/// Weight rows that [`products`] takes together.
pub(crate) const TILE_ROWS: usize = 4;

#[inline(always)]
fn fused<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn accumulate<const FMA: bool>(a: &Lanes, b: &Lanes, acc: &mut Lanes) {
    for l in 0..LANES {
        acc[l] = fused::<FMA>(a[l], b[l], acc[l]);
    }
}

/// The dot products of R vectors with C vectors, all of one length.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "r and c index two arrays each")]
fn tile<const R: usize, const C: usize, const FMA: bool>(w: [&[f32]; R], x: [&[f32]; C]) -> [[f32; C]; R] {
    let k = w[0].len();
    let steps = k / LANES;
    // Cut to one length, so that no bounds are checked in the loop.
    let w_steps: [&[Lanes]; R] = from_fn(|r| &w[r].as_chunks().0[..steps]);
    let x_steps: [&[Lanes]; C] = from_fn(|c| &x[c].as_chunks().0[..steps]);
    let mut acc = [[[0.0; LANES]; C]; R];
    for i in 0..steps {
        for r in 0..R {
            for c in 0..C {
                accumulate::<FMA>(&w_steps[r][i], &x_steps[c][i], &mut acc[r][c]);
            }
        }
    }
    if !k.is_multiple_of(LANES) {
        let w: [Lanes; R] = from_fn(|r| padded(&w[r][steps * LANES..]));
        let x: [Lanes; C] = from_fn(|c| padded(&x[c][steps * LANES..k]));
        for r in 0..R {
            for c in 0..C {
                accumulate::<FMA>(&w[r], &x[c], &mut acc[r][c]);
            }
        }
    }
    acc.map(|row| row.map(sum))
}

#[inline(always)]
fn padded(rest: &[f32]) -> Lanes {
    let mut lanes = [0.0; LANES];
    lanes.iter_mut().zip(rest).for_each(|(l, &v)| *l = v);
    lanes
}

/// The sum of the lanes. Takes a copy and is not inlined, so that in the loop above the accumulators stay in registers as whole vectors:
/// else the compiler lays them out for these additions, at a tenth of the speed.
#[inline(never)]
fn sum(a: Lanes) -> f32 {
    ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
}

// Each tile is a function of its own: inlined into a larger one, the compiler keeps the accumulators in memory.

#[multiversion(targets("x86_64+avx2+fma"))]
fn tile_4x3(w: [&[f32]; 4], x: [&[f32]; 3]) -> [[f32; 3]; 4] {
    tile::<4, 3, { target_cfg_f!(target_feature = "fma") }>(w, x)
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn tile_4x1(w: [&[f32]; 4], x: [&[f32]; 1]) -> [[f32; 1]; 4] {
    tile::<4, 1, { target_cfg_f!(target_feature = "fma") }>(w, x)
}

/// The dot product of two vectors of one length.
#[multiversion(targets("x86_64+avx2+fma"))]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    tile::<1, 1, { target_cfg_f!(target_feature = "fma") }>([a], [b])[0][0]
}

/// `out[r·n + c] = w[r] · x[c]` for weight rows of `k` elements, `n` the number of vectors in `x`.
pub(crate) fn products(w: &[f32], k: usize, x: &[&[f32]], out: &mut [f32]) {
    let n = x.len();
    let tiles = w.chunks_exact(TILE_ROWS * k);
    let (rest, done) = (tiles.remainder(), tiles.len() * TILE_ROWS);
    for (w, out) in tiles.zip(out.chunks_mut(TILE_ROWS * n)) {
        let w = from_fn(|r| &w[r * k..][..k]);
        let (threes, ones) = x.as_chunks::<3>();
        for (i, &x) in threes.iter().enumerate() {
            let y = tile_4x3(w, x);
            (0..TILE_ROWS).for_each(|r| out[r * n + 3 * i..][..3].copy_from_slice(&y[r]));
        }
        for (c, &x) in (n - ones.len()..n).zip(ones) {
            let y = tile_4x1(w, [x]);
            (0..TILE_ROWS).for_each(|r| out[r * n + c] = y[r][0]);
        }
    }
    for (w, out) in rest.chunks_exact(k).zip(out[done * n..].chunks_mut(n)) {
        out.iter_mut().zip(x).for_each(|(y, x)| *y = dot(w, x));
    }
}

/// `scores[j] = q · keys[j·stride ..]`.
pub(crate) fn scores(q: &[f32], keys: &[f32], stride: usize, scores: &mut [f32]) {
    let key = |j: usize| &keys[j * stride..][..q.len()];
    let (fours, ones) = scores.as_chunks_mut::<4>();
    let done = 4 * fours.len();
    for (i, four) in fours.iter_mut().enumerate() {
        *four = tile_4x1(from_fn(|r| key(4 * i + r)), [q]).map(|[score]| score);
    }
    ones.iter_mut().enumerate().for_each(|(j, score)| *score = dot(key(done + j), q));
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
        let d = rate * (v - dot(s, k));
        add_scaled::<FMA>(d, k, s);
        *out = dot(s, q);
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
