//! Softmax attention over a paged cache, for any number of rows.
//!
//! A row's keys are split into blocks at multiples of the policy's `key_block`. For few rows `attention.comp` computes each block's
//! exponent, sum and weighted values in a workgroup of its own, and `attention_combine.comp` joins them. For many rows of a sequence
//! `attention_tiled.comp` walks over the blocks with a tile of rows. Both do the arithmetic of `glsl/attention.glsl` and give the same
//! bits: what is computed for a row depends on its own position and window alone, not on the other rows, the variant, or how many blocks
//! the commands were recorded for.

#[allow(clippy::module_inception)]
pub mod attention;
mod bench;
mod policy;
pub mod reference;
mod suite;
mod tile;
mod tiled;

use crate::Kernel;
pub use bench::{BenchShape, BenchTiming, bench};
pub use policy::{AttentionPolicy, Shape, Split, Variant, select};
pub use suite::suite;
pub use tile::{Tile, TilePolicy, candidates};

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[attention::KERNEL, attention::COMBINE, tiled::KERNEL];
