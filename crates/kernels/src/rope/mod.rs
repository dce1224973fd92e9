//! Rotary position embedding, alone and fused with head norms and the KV write.

pub mod qk_norm_rope_kv;
pub mod reference;
#[allow(clippy::module_inception)]
pub mod rope;
mod suite;

use crate::launch::{groups_over, refuse};
use crate::{Kernel, Unsupported};
pub use suite::suite;
use zinc_plan::Pairing;
use zinc_vulkan::Slice;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[rope::KERNEL, qk_norm_rope_kv::KERNEL];

/// How heads are turned.
#[derive(Debug, Clone, Copy)]
pub struct Rotation<'a> {
    /// f32 pairs (cos, sin), `[position][rotated_pairs]`, of every position that a row may have: `RopeTable::cos_sin`.
    pub table: &'a Slice,
    /// Pairs of dimensions that turn; the rest of a head is copied.
    pub rotated_pairs: u32,
    /// Which dimensions are a pair.
    pub pairing: Pairing,
}

/// Whether `rows` rows of `width` columns can be turned, `pairs` pairs of each head of `head_size`.
///
/// # Errors
/// [`Unsupported`] where they are not whole heads, a head has not so many pairs, or there are too many.
pub fn supports(
    op: &'static str,
    width: u32,
    head_size: u32,
    pairs: u32,
    rows: u32,
) -> Result<(), Unsupported> {
    if head_size == 0 || !head_size.is_multiple_of(2) || 2 * u64::from(pairs) > u64::from(head_size) {
        return refuse(op, format!("{pairs} pairs in a head of {head_size}"));
    }
    if !width.is_multiple_of(head_size) || width / head_size > 0xffff {
        return refuse(op, format!("{width} columns of heads of {head_size}"));
    }
    groups_over(op, u64::from(rows) * u64::from(width / 2), 1).map(|_| ())
}

impl Rotation<'_> {
    fn check(&self, op: &'static str, width: u32, head_size: u32, rows: u32) -> Result<(), Unsupported> {
        supports(op, width, head_size, self.rotated_pairs, rows)?;
        if !self.table.address().is_multiple_of(8) {
            return refuse(op, "a table that does not begin at a multiple of 8 bytes");
        }
        Ok(())
    }

    /// The shaders' number of the pairing.
    pub(crate) fn pairing_number(&self) -> u32 {
        match self.pairing {
            Pairing::Adjacent => 0,
            Pairing::Halves => 1,
        }
    }
}
