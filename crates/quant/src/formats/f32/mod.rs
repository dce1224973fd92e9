//! F32: 1 element, 4 bytes, little endian.

block_format!("F32", ggml 0, 1 elements in 4 bytes, planes [0 .. 4], "f32.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 4], y: &mut [f32; 1]) {
    y[0] = f32::from_le_bytes(*b);
}

fn encode_block(x: &[f32; 1], b: &mut [u8; 4]) {
    *b = x[0].to_le_bytes();
}
