//! The 12 bytes of 6-bit scales and minimums that Q4_K and Q5_K share: eight of each.
//!
//! With the bytes b: for j < 4, scale j is the low 6 bits of b\[j\] and minimum j those of b\[j+4\]. For j ≥ 4 the low 4 bits of
//! the scale are the low nibble of b\[j+4\], those of the minimum its high nibble, and their upper 2 bits are the top bits of
//! b\[j−4\] and b\[j\].

/// Scales and minimums of the eight sub-blocks.
#[inline(always)]
pub(crate) fn unpack(b: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = b[j] & 63;
        mins[j] = b[j + 4] & 63;
        scales[j + 4] = (b[j + 8] & 15) | (b[j] >> 6) << 4;
        mins[j + 4] = (b[j + 8] >> 4) | (b[j + 4] >> 6) << 4;
    }
    (scales, mins)
}

/// The inverse of [`unpack`]; all values are below 64.
pub(crate) fn pack(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut b = [0; 12];
    for j in 0..4 {
        b[j] = scales[j] | (scales[j + 4] >> 4) << 6;
        b[j + 4] = mins[j] | (mins[j + 4] >> 4) << 6;
        b[j + 8] = (scales[j + 4] & 15) | (mins[j + 4] & 15) << 4;
    }
    b
}

/// Scales and minimums of a super-block of eight times 32 elements whose codes are 0 to `max_code`: writes d, dmin and the
/// 12 bytes to the first 16 bytes of the block and returns step and minimum of each sub-block as a reader will get them.
pub(crate) fn encode(x: &[f32; 256], max_code: u8, block: &mut [u8]) -> [(f32, f32); 8] {
    let (mut steps, mut mins) = ([0.0f32; 8], [0.0f32; 8]);
    for (j, sub) in x.as_chunks::<32>().0.iter().enumerate() {
        let (lo, hi) = crate::rounding::min_max(sub);
        mins[j] = -lo.min(0.0);
        steps[j] = (hi + mins[j]).max(0.0) / f32::from(max_code);
    }
    let largest = |v: &[f32; 8]| v.iter().fold(0.0f32, |a, &b| a.max(b));
    let d = crate::bits::put_f16(block, 0, largest(&steps) / 63.0);
    let dmin = crate::bits::put_f16(block, 2, largest(&mins) / 63.0);
    let codes = |v: &[f32; 8], unit: f32| {
        v.map(|v| crate::rounding::nearest(v * crate::rounding::inverse(unit), 0, 63) as u8)
    };
    let (scale_codes, min_codes) = (codes(&steps, d), codes(&mins, dmin));
    block[4..16].copy_from_slice(&pack(&scale_codes, &min_codes));
    std::array::from_fn(|j| (d * f32::from(scale_codes[j]), dmin * f32::from(min_codes[j])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_is_the_inverse_of_unpack() {
        let scales = [1, 63, 16, 48, 5, 62, 33, 0];
        let mins = [0, 7, 63, 32, 63, 1, 17, 40];
        assert_eq!(unpack(&pack(&scales, &mins)), (scales, mins));
    }
}
