//! Q2_K: 256 elements, 84 bytes; 16 sub-blocks of 16 elements.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | per sub-block: scale in the low nibble, minimum in the high one |
//! | 16..80 | 2-bit codes: each half of 128 elements has 32 bytes; byte l holds elements l, l + 32, l + 64, l + 96 from the low bits up |
//! | 80..82 | f16 d |
//! | 82..84 | f16 dmin |
//!
//! w = d·scale·q − dmin·minimum.

use crate::bits::{f16_at, field, halves, put_f16};
use crate::rounding::{inverse, min_max, nearest};

block_format!("Q2_K", ggml 10, 256 elements in 84 bytes, planes [16 .. 80, 0 .. 16, 80 .. 84], "q2_k.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 84], y: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(b, 80), f16_at(b, 82));
    let scales = field::<16>(b, 0);
    let codes = field::<64>(b, 16);
    let step = |s: usize| d * f32::from(scales[s] & 15);
    let min = |s: usize| dmin * f32::from(scales[s] >> 4);
    for (g, pair) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let steps = halves(step(2 * g), step(2 * g + 1));
        let mins = halves(min(2 * g), min(2 * g + 1));
        let codes = field::<32>(codes, g / 4 * 32);
        let shift = g % 4 * 2;
        for l in 0..32 {
            pair[l] = steps[l] * f32::from((codes[l] >> shift) & 3) - mins[l];
        }
    }
}

fn encode_block(x: &[f32; 256], b: &mut [u8; 84]) {
    let subs = x.as_chunks::<16>().0;
    let mins: [f32; 16] = std::array::from_fn(|s| -min_max(&subs[s]).0.min(0.0));
    let steps: [f32; 16] = std::array::from_fn(|s| (min_max(&subs[s]).1 + mins[s]).max(0.0) / 3.0);
    let d = put_f16(b, 80, min_max(&steps).1 / 15.0);
    let dmin = put_f16(b, 82, min_max(&mins).1 / 15.0);
    b[16..80].fill(0);
    for (s, sub) in subs.iter().enumerate() {
        let scale = nearest(steps[s] * inverse(d), 0, 15) as u8;
        let min = nearest(mins[s] * inverse(dmin), 0, 15) as u8;
        b[s] = scale | min << 4;
        let (step, min) = (d * f32::from(scale), dmin * f32::from(min));
        for (l, &v) in sub.iter().enumerate() {
            let code = nearest((v + min) * inverse(step), 0, 3) as u8;
            b[16 + s / 8 * 32 + s % 2 * 16 + l] |= code << (s / 2 % 4 * 2);
        }
    }
}
