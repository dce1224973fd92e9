//! Q4_1: 32 elements, 20 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..4 | f16 m |
//! | 4..20 | codes: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = d·q + m.

use crate::bits::{f16_at, field, nibbles, put_f16};
use crate::rounding::{inverse, min_max, nearest};

block_format!("Q4_1", ggml 3, 32 elements in 20 bytes, planes [4 .. 20, 0 .. 4], "q4_1.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 20], y: &mut [f32; 32]) {
    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
    for (y, q) in y.iter_mut().zip(nibbles(field(b, 4))) {
        *y = d * f32::from(q) + m;
    }
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 20]) {
    let (lo, hi) = min_max(x);
    let d = put_f16(b, 0, (hi - lo) / 15.0);
    let m = put_f16(b, 2, lo);
    let code = |v: f32| nearest((v - m) * inverse(d), 0, 15) as u8;
    for j in 0..16 {
        b[4 + j] = code(x[j]) | code(x[j + 16]) << 4;
    }
}
