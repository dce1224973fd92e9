//! Q4_K: 256 elements, 144 bytes; 8 sub-blocks of 32 elements.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..4 | f16 dmin |
//! | 4..16 | 6-bit scales and minimums, see [`crate::k_scales`] |
//! | 16..144 | codes: 32 bytes for each 64 elements, the low nibbles are sub-block 2j, the high ones 2j + 1 |
//!
//! w = d·scale·q − dmin·minimum.

use crate::bits::{f16_at, field};
use crate::k_scales;
use crate::rounding::{inverse, nearest};

block_format!("Q4_K", ggml 12, 256 elements in 144 bytes,
    planes [0 .. 16, 16 .. 144 by 16 of 32, 32 .. 144 by 16 of 32], "../../k_scales.glsl", "q4_k.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 144], y: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    let (scales, mins) = k_scales::unpack(field(b, 4));
    for (j, pair) in y.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let codes = field::<32>(b, 16 + 32 * j);
        let (step0, min0) = (d * f32::from(scales[2 * j]), dmin * f32::from(mins[2 * j]));
        let (step1, min1) = (d * f32::from(scales[2 * j + 1]), dmin * f32::from(mins[2 * j + 1]));
        let (low, high) = pair.split_at_mut(32);
        for (y, code) in low.iter_mut().zip(codes) {
            *y = step0 * f32::from(code & 15) - min0;
        }
        for (y, code) in high.iter_mut().zip(codes) {
            *y = step1 * f32::from(code >> 4) - min1;
        }
    }
}

fn encode_block(x: &[f32; 256], b: &mut [u8; 144]) {
    let subs = k_scales::encode(x, 15, b);
    b[16..].fill(0);
    for (i, &v) in x.iter().enumerate() {
        let (step, min) = subs[i / 32];
        let code = nearest((v + min) * inverse(step), 0, 15) as u8;
        b[16 + i / 64 * 32 + i % 32] |= code << (i / 32 % 2 * 4);
    }
}
