//! The paged KV cache and what writes it.
//!
//! A page holds 16 tokens of one layer: `[page][kv_head][16][head_size]`, keys and values each in memory of their own. The page of a
//! position is `pages[sequence · max_pages + position / 16]`; layers may share the table.

pub mod kv_write;
pub mod reference;
pub(crate) mod suite;

use crate::launch::refuse;
use crate::{Kernel, Unsupported};
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
}

impl KvType {
    /// Both.
    pub const ALL: [KvType; 2] = [KvType::F16, KvType::F32];

    /// Value of the shaders' dimension `KV`.
    pub fn name(self) -> &'static str {
        match self {
            KvType::F16 => "f16",
            KvType::F32 => "f32",
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            KvType::F16 => 2,
            KvType::F32 => 4,
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
    u64::from(PAGE_TOKENS) * u64::from(kv_heads) * u64::from(size) * u64::from(kind.bytes())
}

/// Whether there can be a cache of such heads.
///
/// # Errors
/// [`Unsupported`] where a head's elements are no multiple of 8.
pub fn supports(op: &'static str, kv_heads: u32, key_size: u32, value_size: u32) -> Result<(), Unsupported> {
    let whole = |s: u32| s > 0 && s.is_multiple_of(8) && s <= 0xffff;
    if kv_heads > 0 && whole(key_size) && whole(value_size) {
        return Ok(());
    }
    let reason = format!("{kv_heads} KV heads of {key_size} and {value_size} elements");
    refuse(op, reason + "; a head needs a multiple of 8")
}

impl KvCache<'_> {
    /// What every kernel of a cache needs: heads, and 16-byte loads of 8 f16.
    pub(crate) fn check(&self, op: &'static str) -> Result<(), Unsupported> {
        supports(op, self.kv_heads, self.key_size, self.value_size)?;
        if [self.k, self.v].iter().any(|s| !s.address().is_multiple_of(16)) {
            return refuse(op, "a cache that does not begin at a multiple of 16 bytes");
        }
        Ok(())
    }
}
