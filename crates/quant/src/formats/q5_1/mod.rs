//! Q5_1: 32 elements, 24 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..4 | f16 m |
//! | 4..8 | u32: bit j is the fifth bit of element j |
//! | 8..24 | low bits: element j is the low nibble of byte j, element j + 16 the high one |
//!
//! w = d·q + m.

use crate::bits::{f16_at, field, nibbles, put_f16};
use crate::rounding::{inverse, min_max, nearest};

block_format!("Q5_1", ggml 7, 32 elements in 24 bytes, planes [8 .. 24, 4 .. 8, 0 .. 4], "q5_1.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 24], y: &mut [f32; 32]) {
    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
    let fifth = u32::from_le_bytes(*field(b, 4));
    for (j, (y, low)) in y.iter_mut().zip(nibbles(field(b, 8))).enumerate() {
        let q = u32::from(low) | ((fifth >> j) & 1) << 4;
        *y = d * (q as i32) as f32 + m;
    }
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 24]) {
    let (lo, hi) = min_max(x);
    let d = put_f16(b, 0, (hi - lo) / 31.0);
    let m = put_f16(b, 2, lo);
    let code = |v: f32| nearest((v - m) * inverse(d), 0, 31) as u8;
    let mut fifth = 0u32;
    for j in 0..16 {
        let (q0, q1) = (code(x[j]), code(x[j + 16]));
        b[8 + j] = (q0 & 15) | (q1 & 15) << 4;
        fifth |= u32::from(q0 >> 4) << j | u32::from(q1 >> 4) << (j + 16);
    }
    b[4..8].copy_from_slice(&fifth.to_le_bytes());
}
