//! The paged KV cache and what writes it.
//!
//! A page holds 16 tokens of one layer: `[page][kv_head][16][head_size]`, keys and values each in memory of their own. The page of a
//! position is `pages[sequence · max_pages + position / 16]`; layers may share the table.
//!
//! Of [`KvType::Q8_0`] a head of a page has the codes of its 16 tokens first and their scales behind them. So every load of 8 codes is
//! aligned, which it is not in blocks of 34 bytes, and the scales that lie together are read together.

pub mod kv_write;
pub mod reference;
pub(crate) mod suite;

use crate::launch::refuse;
use crate::{Kernel, Unsupported};
use half::f16;
use std::ops::Range;
pub use suite::suite;
use zinc_vulkan::Slice;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[kv_write::KERNEL];

/// Tokens of a page.
pub const PAGE_TOKENS: u32 = 16;

/// Element type of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvType {
    /// The default.
    F16,
    /// For reference.
    F32,
    /// Blocks of 32 elements: codes of 8 bits and a scale in f16, rounded as the reference of GGML's Q8_0 rounds. 34 bytes where f16 has 64.
    Q8_0,
}

impl KvType {
    /// All of them.
    pub const ALL: [KvType; 3] = [KvType::F16, KvType::F32, KvType::Q8_0];

    /// Value of the shaders' dimension `KV`.
    pub fn name(self) -> &'static str {
        match self {
            KvType::F16 => "f16",
            KvType::F32 => "f32",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// What the size of a head must be a multiple of: chunks of 8 elements are read and written, or blocks.
    pub fn unit(self) -> u32 {
        match self {
            KvType::F16 | KvType::F32 => 8,
            KvType::Q8_0 => BLOCK,
        }
    }

    /// Bytes of a token's head of `size` elements. Not all of them may lie together: see [`row_ranges`].
    pub fn row_bytes(self, size: u32) -> u64 {
        row_ranges(self, size, 0).iter().map(|r| r.end - r.start).sum()
    }
}

/// Elements of a block of [`KvType::Q8_0`].
const BLOCK: u32 = 32;

/// Where the elements of a token lie in a page's head of `size` elements, in bytes: all of them, or their codes and then their scales.
pub fn row_ranges(kind: KvType, size: u32, token: u32) -> Vec<Range<u64>> {
    let (size, token, tokens) = (u64::from(size), u64::from(token), u64::from(PAGE_TOKENS));
    let row = |start: u64, bytes: u64| start + token * bytes..start + (token + 1) * bytes;
    match kind {
        KvType::F16 => vec![row(0, 2 * size)],
        KvType::F32 => vec![row(0, 4 * size)],
        KvType::Q8_0 => vec![row(0, size), row(tokens * size, size / u64::from(BLOCK) * 2)],
    }
}

/// The elements of a token's head from its bytes, those of its [`row_ranges`] one after the other.
pub fn decode_row(kind: KvType, bytes: &[u8]) -> Vec<f32> {
    let half = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]).to_f32();
    match kind {
        KvType::F16 => bytes.chunks_exact(2).map(half).collect(),
        KvType::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        KvType::Q8_0 => {
            let block = BLOCK as usize;
            let (codes, scales) = bytes.split_at(bytes.len() / (block + 2) * block);
            let blocks = codes.chunks_exact(block).zip(scales.chunks_exact(2));
            blocks.flat_map(|(codes, d)| codes.iter().map(move |&c| f32::from(c as i8) * half(d))).collect()
        }
    }
}

/// A layer's cache.
#[derive(Debug, Clone, Copy)]
pub struct KvCache<'a> {
    /// Pages of keys.
    pub k: &'a Slice,
    /// Pages of values.
    pub v: &'a Slice,
    /// Element type of both.
    pub kind: KvType,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
    /// u32 page numbers, `max_pages` a sequence.
    pub pages: &'a Slice,
    /// Entries of the page table a sequence.
    pub max_pages: u32,
}

/// Bytes of a page of heads with `size` elements.
pub fn page_bytes(kind: KvType, kv_heads: u32, size: u32) -> u64 {
    u64::from(PAGE_TOKENS) * u64::from(kv_heads) * kind.row_bytes(size)
}

/// Whether there can be a cache of such heads.
///
/// # Errors
/// [`Unsupported`] where a head's elements are no multiple of [`KvType::unit`].
pub fn supports(
    op: &'static str,
    kind: KvType,
    kv_heads: u32,
    key_size: u32,
    value_size: u32,
) -> Result<(), Unsupported> {
    let whole = |s: u32| s > 0 && s.is_multiple_of(kind.unit()) && s <= 0xffff;
    if kv_heads > 0 && whole(key_size) && whole(value_size) {
        return Ok(());
    }
    let reason = format!("{kv_heads} KV heads of {key_size} and {value_size} elements");
    refuse(op, format!("{reason}; a head of a cache of {} needs a multiple of {}", kind.name(), kind.unit()))
}

impl KvCache<'_> {
    /// What every kernel of a cache needs: whole chunks or blocks, and loads of 16 bytes.
    pub(crate) fn check(&self, op: &'static str) -> Result<(), Unsupported> {
        supports(op, self.kind, self.kv_heads, self.key_size, self.value_size)?;
        if [self.k, self.v].iter().any(|s| !s.address().is_multiple_of(16)) {
            return refuse(op, "a cache that does not begin at a multiple of 16 bytes");
        }
        Ok(())
    }
}
