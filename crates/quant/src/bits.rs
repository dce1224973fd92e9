//! Reading the fields of a block.

/// The slice as an array of exactly `N` items. Panics where it has another length: the caller's mistake.
#[inline(always)]
pub(crate) fn exactly<T, const N: usize>(slice: &[T]) -> &[T; N] {
    let len = slice.len();
    slice.try_into().unwrap_or_else(|_| panic!("a block of {N} items, given {len}"))
}

/// As [`exactly`], mutable.
#[inline(always)]
pub(crate) fn exactly_mut<T, const N: usize>(slice: &mut [T]) -> &mut [T; N] {
    let len = slice.len();
    slice.try_into().unwrap_or_else(|_| panic!("a block of {N} items, given {len}"))
}

/// `N` bytes of a block from `at`. The bounds are constants where it is called, so no check remains.
#[inline(always)]
pub(crate) fn field<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    exactly(&block[at..at + N])
}

/// 4-bit codes of 32 elements: element j is the low nibble of byte j, element j + 16 the high one.
///
/// Decoders take codes apart first and then turn 32 of them into values in one plain loop: shorter loops, or loops with two
/// outputs, are unrolled before they can be vectorised, and are several times slower.
#[inline(always)]
pub(crate) fn nibbles(codes: &[u8; 16]) -> [u8; 32] {
    let mut elements = [0; 32];
    elements[..16].copy_from_slice(&codes.map(|c| c & 15));
    elements[16..].copy_from_slice(&codes.map(|c| c >> 4));
    elements
}

/// A value for each of the two halves of 32 elements.
#[inline(always)]
pub(crate) fn halves(first: f32, second: f32) -> [f32; 32] {
    let mut elements = [first; 32];
    elements[16..].fill(second);
    elements
}

/// The f16 at byte `at` of a block.
#[inline(always)]
pub(crate) fn f16_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes(*field(block, at)))
}

/// Writes `value`, rounded to f16, at byte `at` and returns what a reader will get. Values beyond f16's range saturate.
#[inline]
pub(crate) fn put_f16(block: &mut [u8], at: usize, value: f32) -> f32 {
    let max = f32::from(half::f16::MAX);
    let rounded = half::f16::from_f32(value.clamp(-max, max));
    block[at..at + 2].copy_from_slice(&rounded.to_le_bytes());
    rounded.to_f32()
}

/// f16 to f32 without branches, so that loops over it are vectorised. Exact, subnormals included.
///
/// The exponent and mantissa are shifted into f32's places and re-biased by a multiplication with 2^112, which also normalises
/// subnormals; infinities and NaN (exponent 31) get all exponent bits instead.
#[inline(always)]
pub(crate) fn f16_to_f32(h: u16) -> f32 {
    // Sign-extended: of the copies of the sign above the exponent, the mask keeps the highest.
    let shifted = (i32::from(h as i16) << 13) as u32 & 0x8fff_e000;
    let rebias = f32::from_bits((127 + 112) << 23);
    let finite = (f32::from_bits(shifted) * rebias).to_bits();
    let special = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(finite | special)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_converted_exactly() {
        for bits in 0..=u16::MAX {
            let want = half::f16::from_bits(bits).to_f32();
            let got = f16_to_f32(bits);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{bits:#06x}: {got} {want}"
            );
        }
    }

    #[test]
    fn scales_beyond_f16_saturate() {
        let mut block = [0; 2];
        assert_eq!(put_f16(&mut block, 0, 1e9), 65504.0);
        assert_eq!(put_f16(&mut block, 0, -1e9), -65504.0);
    }
}
