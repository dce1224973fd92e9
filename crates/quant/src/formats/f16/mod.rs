//! F16: 1 element, 2 bytes, IEEE half precision.

use crate::bits::{f16_at, put_f16};

block_format!("F16", ggml 1, 1 elements in 2 bytes, planes [0 .. 2], "f16.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = f16_at(b, 0);
}

fn encode_block(x: &[f32; 1], b: &mut [u8; 2]) {
    put_f16(b, 0, x[0]);
}
