//! Q3_K: 256 elements, 110 bytes; 16 sub-blocks of 16 elements.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | third bits: bit i of byte l belongs to element 32·i + l |
//! | 32..96 | low 2 bits: each half of 128 elements has 32 bytes; byte l holds elements l, l + 32, l + 64, l + 96 from the low bits up |
//! | 96..108 | 6-bit scales: bytes 0 to 7 have the low nibbles of scales s and s + 8, bytes 8 to 11 the upper 2 bits of s, s + 4, s + 8, s + 12 |
//! | 108..110 | f16 d |
//!
//! w = d·(scale − 32)·(q − 4) with the 3-bit code q.

use crate::bits::{f16_at, field, halves, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("Q3_K", ggml 11, 256 elements in 110 bytes,
    planes [32 .. 96, 0 .. 32, 96 .. 108, 108 .. 110], "q3_k.glsl");

/// The 6-bit scale of sub-block `s`.
#[inline(always)]
fn scale(packed: &[u8; 12], s: usize) -> i32 {
    let low = (packed[s % 8] >> (s / 8 * 4)) & 15;
    let high = (packed[8 + s % 4] >> (s / 4 * 2)) & 3;
    i32::from(low | high << 4)
}

#[inline(always)]
fn decode_block(b: &[u8; 110], y: &mut [f32; 256]) {
    let d = f16_at(b, 108);
    let thirds = field::<32>(b, 0);
    let codes = field::<64>(b, 32);
    let scales = field::<12>(b, 96);
    let step = |s: usize| d * (scale(scales, s) - 32) as f32;
    for (g, pair) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let steps = halves(step(2 * g), step(2 * g + 1));
        let codes = field::<32>(codes, g / 4 * 32);
        let shift = g % 4 * 2;
        for l in 0..32 {
            let q = (codes[l] >> shift) & 3 | ((thirds[l] >> g) & 1) << 2;
            pair[l] = steps[l] * (i32::from(q) - 4) as f32;
        }
    }
}

fn encode_block(x: &[f32; 256], b: &mut [u8; 110]) {
    b.fill(0);
    let subs = x.as_chunks::<16>().0;
    let steps: [f32; 16] = std::array::from_fn(|s| extreme(&subs[s]) / -4.0);
    let d = put_f16(b, 108, extreme(&steps) / -32.0);
    for (s, sub) in subs.iter().enumerate() {
        let scale = nearest(steps[s] * inverse(d), -32, 31);
        let packed = (scale + 32) as u8;
        b[96 + s % 8] |= (packed & 15) << (s / 8 * 4);
        b[104 + s % 4] |= (packed >> 4) << (s / 4 * 2);
        let step = d * scale as f32;
        for (l, &v) in sub.iter().enumerate() {
            let code = nearest(v * inverse(step) + 4.0, 0, 7) as u8;
            b[32 + s / 8 * 32 + s % 2 * 16 + l] |= (code & 3) << (s / 2 % 4 * 2);
            b[s % 2 * 16 + l] |= (code >> 2) << (s / 2);
        }
    }
}
