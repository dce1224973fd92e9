//! MXFP4 (OCP microscaling): 32 elements, 17 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | E8M0 exponent e |
//! | 1..17 | E2M1 codes: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = 2^(e − 127)·value with the sixteen E2M1 values 0, ½, 1, 1½, 2, 3, 4, 6 and their negatives. The table holds them
//! doubled, so that they are integers, and the scale is halved.

use crate::bits::{field, nibbles};
use crate::rounding::{extreme, nearest_entry};

block_format!("MXFP4", ggml 39, 32 elements in 17 bytes, planes [1 .. 17, 0 .. 1], "mxfp4.glsl");

/// Twice the E2M1 values.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The entry of [`DOUBLED`] by arithmetic, which vectorises where a look-up does not: the steps grow from 1 to 2 after 4 and to
/// 4 after 6, and the sign is applied as in two's complement.
#[inline(always)]
fn doubled(code: u8) -> i8 {
    let m = code & 7;
    let magnitude = m.wrapping_add(m.saturating_sub(4)).wrapping_add(m.saturating_sub(6) << 1) as i8;
    let sign = 0i8.wrapping_sub((code >> 3) as i8);
    (magnitude ^ sign).wrapping_sub(sign)
}

/// Half of the scale: 2^(e − 128), exact down to e = 0 (a subnormal f32).
#[inline(always)]
fn half_scale(e: u8) -> f32 {
    let e = u32::from(e);
    let (subnormal, normal) = (0x0020_0000u32.wrapping_shl(e), e.wrapping_sub(1) << 23);
    f32::from_bits(if e < 2 { subnormal } else { normal })
}

#[inline(always)]
fn decode_block(b: &[u8; 17], y: &mut [f32; 32]) {
    let d = half_scale(b[0]);
    for (y, code) in y.iter_mut().zip(nibbles(field(b, 1))) {
        *y = d * f32::from(doubled(code));
    }
}

/// The exponent is that of the largest magnitude less 2, the exponent of E2M1's largest value, as the OCP specification
/// has it: magnitudes between 6 and 8 times the scale saturate.
fn encode_block(x: &[f32; 32], b: &mut [u8; 17]) {
    let exponent = (extreme(x).to_bits() >> 23 & 255) as u8;
    b[0] = exponent.saturating_sub(2);
    let half_scale = half_scale(b[0]);
    let code = |v: f32| nearest_entry(v / half_scale, &DOUBLED);
    for j in 0..16 {
        b[1 + j] = code(x[j]) | code(x[j + 16]) << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_gives_the_table() {
        let all: Vec<i8> = (0..16).map(doubled).collect();
        assert_eq!(all, DOUBLED);
    }

    #[test]
    fn scales_are_powers_of_two() {
        for e in 0..=u8::MAX {
            assert_eq!(f64::from(half_scale(e)), (f64::from(e) - 128.0).exp2(), "exponent {e}");
        }
    }
}
