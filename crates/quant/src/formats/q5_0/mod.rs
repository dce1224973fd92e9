//! Q5_0: 32 elements, 22 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..6 | u32, only 2-byte aligned: bit j is the fifth bit of element j |
//! | 6..22 | low bits: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = d·(q − 16).

use crate::bits::{f16_at, field, nibbles, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("Q5_0", ggml 6, 32 elements in 22 bytes, planes [6 .. 22, 2 .. 6, 0 .. 2], "q5_0.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 22], y: &mut [f32; 32]) {
    let d = f16_at(b, 0);
    let fifth = u32::from_le_bytes(*field(b, 2));
    for (j, (y, low)) in y.iter_mut().zip(nibbles(field(b, 6))).enumerate() {
        let q = u32::from(low) | ((fifth >> j) & 1) << 4;
        *y = d * (q as i32 as f32 - 16.0);
    }
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 22]) {
    let d = put_f16(b, 0, extreme(x) / -16.0);
    let code = |v: f32| nearest(v * inverse(d) + 16.0, 0, 31) as u8;
    let mut fifth = 0u32;
    for j in 0..16 {
        let (q0, q1) = (code(x[j]), code(x[j + 16]));
        b[6 + j] = (q0 & 15) | (q1 & 15) << 4;
        fifth |= u32::from(q0 >> 4) << j | u32::from(q1 >> 4) << (j + 16);
    }
    b[2..6].copy_from_slice(&fifth.to_le_bytes());
}
