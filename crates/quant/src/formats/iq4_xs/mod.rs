//! IQ4_XS: 256 elements, 136 bytes; 8 sub-blocks of 32 elements.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..4 | u16: bits 2s and 2s + 1 are the upper bits of scale s |
//! | 4..8 | low 4 bits of the scales, two a byte, the even one in the low nibble |
//! | 8..136 | codes: 16 bytes a sub-block, element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = (d·(scale − 32))·LEVELS\[q\], in this order, with the levels of IQ4_NL.

use super::iq4_nl::{decode_levels, encode_levels, step_for};
use crate::bits::{exactly_mut, f16_at, field, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("IQ4_XS", ggml 23, 256 elements in 136 bytes,
    planes [8 .. 136, 4 .. 8, 2 .. 4, 0 .. 2], "iq4_xs.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 136], y: &mut [f32; 256]) {
    let d = f16_at(b, 0);
    let upper = u16::from_le_bytes(*field(b, 2));
    for (s, sub) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = i32::from((b[4 + s / 2] >> (s % 2 * 4)) & 15);
        let scale = low | i32::from((upper >> (2 * s)) & 3) << 4;
        decode_levels(d * (scale - 32) as f32, field(b, 8 + 16 * s), sub);
    }
}

fn encode_block(x: &[f32; 256], b: &mut [u8; 136]) {
    b.fill(0);
    let subs = x.as_chunks::<32>().0;
    let steps: [f32; 8] = std::array::from_fn(|s| step_for(&subs[s]));
    let d = put_f16(b, 0, extreme(&steps) / -32.0);
    let mut upper = 0u16;
    for (s, sub) in subs.iter().enumerate() {
        let scale = nearest(steps[s] * inverse(d), -32, 31);
        let packed = (scale + 32) as u8;
        b[4 + s / 2] |= (packed & 15) << (s % 2 * 4);
        upper |= u16::from(packed >> 4) << (2 * s);
        encode_levels(d * scale as f32, sub, exactly_mut(&mut b[8 + 16 * s..24 + 16 * s]));
    }
    b[2..4].copy_from_slice(&upper.to_le_bytes());
}
