//! Small pieces that the encoders share.

/// The value of largest magnitude, with its sign; 0 for an empty slice.
pub(crate) fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |best: f32, &v| if v.abs() > best.abs() { v } else { best })
}

/// Smallest and largest value of a slice that is not empty.
pub(crate) fn min_max(x: &[f32]) -> (f32, f32) {
    x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)))
}

/// 1/x, and 0 for 0: a block whose scale is 0 has all codes 0. The reciprocal of a subnormal scale may be infinite, whence
/// the check of the result.
pub(crate) fn inverse(x: f32) -> f32 {
    let inverse = 1.0 / x;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The nearest integer within `lo..=hi`.
pub(crate) fn nearest(x: f32, lo: i32, hi: i32) -> i32 {
    (x.round_ties_even() as i32).clamp(lo, hi)
}

/// The index of the entry nearest to `x` in a table of code values.
pub(crate) fn nearest_entry(x: f32, table: &[i8; 16]) -> u8 {
    let distance = |i: usize| (x - f32::from(table[i])).abs();
    (1..16).fold(0, |best, i| if distance(i) < distance(best) { i } else { best }) as u8
}
