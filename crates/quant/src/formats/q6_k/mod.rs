//! Q6_K: 256 elements, 210 bytes; 16 sub-blocks of 16 elements.
//!
//! | bytes | field |
//! |---|---|
//! | 0..128 | low 4 bits: each half of 128 elements has 64 bytes; the low nibbles are its elements 0 to 63, the high ones 64 to 127 |
//! | 128..192 | upper 2 bits: each half has 32 bytes; byte l holds elements l, l + 32, l + 64, l + 96 from the low bits up |
//! | 192..208 | i8 scale of each sub-block |
//! | 208..210 | f16 d (2-byte aligned) |
//!
//! w = (d·scale)·(q − 32), in this order: the product has 25 significant bits.

use crate::bits::{f16_at, field, halves, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("Q6_K", ggml 14, 256 elements in 210 bytes,
    planes [0 .. 128, 128 .. 192, 192 .. 208, 208 .. 210], "q6_k.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 210], y: &mut [f32; 256]) {
    let d = f16_at(b, 208);
    let scales = field::<16>(b, 192);
    let step = |s: usize| d * f32::from(scales[s] as i8);
    for (g, pair) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let steps = halves(step(2 * g), step(2 * g + 1));
        let (half, group) = (g / 4, g % 4);
        let low = field::<32>(b, 64 * half + 32 * (group % 2));
        let high = field::<32>(b, 128 + 32 * half);
        let (low_shift, high_shift) = (group / 2 * 4, group * 2);
        for l in 0..32 {
            let q = (low[l] >> low_shift) & 15 | ((high[l] >> high_shift) & 3) << 4;
            pair[l] = steps[l] * (i32::from(q) - 32) as f32;
        }
    }
}

fn encode_block(x: &[f32; 256], b: &mut [u8; 210]) {
    b.fill(0);
    let subs = x.as_chunks::<16>().0;
    let steps: [f32; 16] = std::array::from_fn(|s| extreme(&subs[s]) / -32.0);
    let d = put_f16(b, 208, extreme(&steps) / -128.0);
    for (s, sub) in subs.iter().enumerate() {
        let scale = nearest(steps[s] * inverse(d), -128, 127);
        b[192 + s] = scale as i8 as u8;
        let step = d * scale as f32;
        let (half, group, part) = (s / 8, s / 2 % 4, s % 2);
        for (l, &v) in sub.iter().enumerate() {
            let code = nearest(v * inverse(step) + 32.0, 0, 63) as u8;
            b[64 * half + 32 * (group % 2) + 16 * part + l] |= (code & 15) << (group / 2 * 4);
            b[128 + 32 * half + 16 * part + l] |= (code >> 4) << (group * 2);
        }
    }
}
