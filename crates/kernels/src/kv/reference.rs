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
            for (to, &v) in self.data[at..].iter_mut().zip(values) {
                *to = self.kind.rounded(v);
            }
        }
    }

    /// The bytes of the device's cache.
    pub fn bytes(&self) -> Vec<u8> {
        match self.kind {
            KvType::F16 => self.data.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            KvType::F32 => self.data.iter().flat_map(|&v| v.to_le_bytes()).collect(),
        }
    }
}

impl KvType {
    /// The nearest value of this type, ties to even.
    pub fn rounded(self, value: f32) -> f32 {
        match self {
            KvType::F16 => f16::from_f32(value).to_f32(),
            KvType::F32 => value,
        }
    }
}
