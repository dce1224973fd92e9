//! A paged cache on the host.

use super::{KvType, PAGE_TOKENS};
use crate::RowInfo;
use half::f16;

/// Keys or values of a layer, as f32 values that the cache's element type can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCache {
    /// Element type.
    pub kind: KvType,
    /// KV heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub size: usize,
    /// The pages' elements.
    pub data: Vec<f32>,
}

impl HostCache {
    /// Index of the first element of a head at a position of the row's sequence.
    pub fn index(&self, pages: &[u32], max_pages: usize, sequence: u32, position: u32, head: usize) -> usize {
        let page = pages[sequence as usize * max_pages + (position / PAGE_TOKENS) as usize] as usize;
        let tokens = PAGE_TOKENS as usize;
        ((page * self.kv_heads + head) * tokens + (position % PAGE_TOKENS) as usize) * self.size
    }

    /// Stores a row's heads.
    pub fn write(&mut self, pages: &[u32], max_pages: usize, row: RowInfo, heads: &[f32]) {
        for (head, values) in heads.chunks_exact(self.size).enumerate() {
            let at = self.index(pages, max_pages, row.sequence, row.position, head);
            self.data[at..at + self.size].copy_from_slice(&self.kind.rounded(values));
        }
    }

    /// The bytes of the device's cache.
    pub fn bytes(&self) -> Vec<u8> {
        match self.kind {
            KvType::F16 => self.data.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            KvType::F32 => self.data.iter().flat_map(|&v| v.to_le_bytes()).collect(),
            KvType::Q8_0 => {
                let heads = self.data.chunks_exact(PAGE_TOKENS as usize * self.size);
                heads.flat_map(q8_0_bytes).collect()
            }
        }
    }
}

/// Codes, then scales. What q8_0 holds already becomes the codes and scales that it came from.
fn q8_0_bytes(values: &[f32]) -> Vec<u8> {
    let blocks: Vec<(f16, [i8; 32])> = values.chunks_exact(32).map(q8_0).collect();
    let codes = blocks.iter().flat_map(|(_, codes)| codes.map(|c| c as u8));
    codes.chain(blocks.iter().flat_map(|(scale, _)| scale.to_le_bytes())).collect()
}

/// A block as GGML's reference rounds it (`quantize_row_q8_0_ref`): the largest magnitude over 127 is the scale; values over it, before it is f16, are
/// rounded to nearest, halves away from zero. Codes are 0 where f16 has no such scale.
fn q8_0(values: &[f32]) -> (f16, [i8; 32]) {
    let largest = values.iter().fold(0f32, |m, v| m.max(v.abs()));
    let scale = largest / 127.0;
    let rounded = f16::from_f32(scale);
    if !rounded.is_finite() || values.iter().any(|v| v.is_nan()) {
        return (f16::NAN, [0; 32]);
    }
    let inverse = if rounded == f16::ZERO { 0.0 } else { 1.0 / scale };
    let mut codes = [0; 32];
    for (code, v) in codes.iter_mut().zip(values) {
        *code = (v * inverse).round() as i8;
    }
    (rounded, codes)
}

impl KvType {
    /// The nearest values of this type: ties to even, or of whole blocks as GGML's reference has them.
    pub fn rounded(self, values: &[f32]) -> Vec<f32> {
        match self {
            KvType::F16 => values.iter().map(|&v| f16::from_f32(v).to_f32()).collect(),
            KvType::F32 => values.to_vec(),
            KvType::Q8_0 => {
                let blocks = values.chunks_exact(32).map(q8_0);
                blocks.flat_map(|(scale, codes)| codes.map(|c| f32::from(c) * scale.to_f32())).collect()
            }
        }
    }
}
