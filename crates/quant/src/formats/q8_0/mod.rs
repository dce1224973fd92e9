//! Q8_0: 32 elements, 34 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | f16 d |
//! | 2..34 | i8 codes in order (2-byte aligned) |
//!
//! w = d·q.

use crate::bits::{f16_at, field, put_f16};
use crate::rounding::{extreme, inverse, nearest};

block_format!("Q8_0", ggml 8, 32 elements in 34 bytes, planes [2 .. 34, 0 .. 2], "q8_0.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 34], y: &mut [f32; 32]) {
    let d = f16_at(b, 0);
    for (y, &code) in y.iter_mut().zip(field::<32>(b, 2)) {
        *y = d * f32::from(code as i8);
    }
}

fn encode_block(x: &[f32; 32], b: &mut [u8; 34]) {
    let d = put_f16(b, 0, extreme(x).abs() / 127.0);
    for (code, &v) in b[2..].iter_mut().zip(x) {
        *code = nearest(v * inverse(d), -127, 127) as i8 as u8;
    }
}
