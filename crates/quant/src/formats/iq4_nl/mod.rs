//! IQ4_NL: 32 elements, 18 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..18 | codes: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = d·LEVELS\[q\], sixteen levels that lie closer together near zero.

use crate::bits::{f16_at, field, put_f16};
use crate::rounding::{extreme, inverse, nearest_entry};

block_format!("IQ4_NL", ggml 20, 32 elements in 18 bytes, planes [2 .. 18, 0 .. 2], "iq4_nl.glsl");

/// The value of each code; IQ4_XS has the same.
pub(super) const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// [`LEVELS`] as the decoder wants them.
const FLOAT_LEVELS: [f32; 16] = {
    let mut levels = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        levels[i] = LEVELS[i] as f32;
        i += 1;
    }
    levels
};

/// Decodes 32 elements that share a step: nibbles as above.
#[inline(always)]
pub(super) fn decode_levels(step: f32, codes: &[u8; 16], y: &mut [f32; 32]) {
    let (low, high) = y.split_at_mut(16);
    for (y, code) in low.iter_mut().zip(codes) {
        *y = step * FLOAT_LEVELS[usize::from(code & 15)];
    }
    for (y, code) in high.iter_mut().zip(codes) {
        *y = step * FLOAT_LEVELS[usize::from(code >> 4)];
    }
}

/// Encodes 32 elements with the given step.
pub(super) fn encode_levels(step: f32, x: &[f32; 32], codes: &mut [u8; 16]) {
    let code = |v: f32| nearest_entry(v * inverse(step), &LEVELS);
    for j in 0..16 {
        codes[j] = code(x[j]) | code(x[j + 16]) << 4;
    }
}

/// The step that puts the value of largest magnitude on the outermost level.
pub(super) fn step_for(x: &[f32; 32]) -> f32 {
    extreme(x) / f32::from(LEVELS[0])
}

#[inline(always)]
fn decode_block(b: &[u8; 18], y: &mut [f32; 32]) {
    decode_levels(f16_at(b, 0), field(b, 2), y);
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 18]) {
    let d = put_f16(b, 0, step_for(x));
    encode_levels(d, x, crate::bits::exactly_mut(&mut b[2..]));
}
