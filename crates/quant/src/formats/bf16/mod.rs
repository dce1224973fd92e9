//! BF16: 1 element, 2 bytes, the upper half of an f32.

block_format!("BF16", ggml 30, 1 elements in 2 bytes, planes [0 .. 2], "bf16.glsl");

#[inline(always)]
fn decode_block(b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
}

fn encode_block(x: &[f32; 1], b: &mut [u8; 2]) {
    *b = half::bf16::from_f32(x[0]).to_le_bytes();
}
