//! Q4_0: 32 elements, 18 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..18 | codes: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = d·(q − 8).

use crate::bits::{f16_at, field, nibbles, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("Q4_0", ggml 2, 32 elements in 18 bytes, planes [2 .. 18, 0 .. 2], "q4_0.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 18], y: &mut [f32; 32]) {
    let d = f16_at(b, 0);
    for (y, q) in y.iter_mut().zip(nibbles(field(b, 2))) {
        *y = d * (i32::from(q) - 8) as f32;
    }
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 18]) {
    let d = put_f16(b, 0, extreme(x) / -8.0);
    let code = |v: f32| nearest(v * inverse(d) + 8.0, 0, 15) as u8;
    for j in 0..16 {
        b[2 + j] = code(x[j]) | code(x[j + 16]) << 4;
    }
}
