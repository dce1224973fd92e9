//! Softmax attention over a paged cache, for any number of rows.
//!
//! A row's keys are split into blocks at multiples of the policy's `key_block`. For few rows `attention.comp` computes each block's
//! exponent, sum and weighted values in a workgroup of its own, and the last workgroup of a row joins them. For many rows of a sequence
//! `attention_tiled.comp` walks over the blocks with a tile of rows. Both do the arithmetic of `glsl/attention.glsl` and give the same
//! bits: what is computed for a row depends on its own position and window alone, not on the other rows, the variant, or how many blocks
//! the commands were recorded for.
//!
//! In decoding `decode_attention.comp` does this from the projections on: it norms and turns queries and keys, and writes the cache.
//!
//! Where [`crate::Precision::Fast`] allows it, `attention_matrix.comp` takes tiles of rows to matrix cores: queries, keys and weights in f16, sums in f32;
//! `attention_lanes.comp` does where lanes hold the elements of matrices as NVIDIA's do. There too a row's result does not depend on the other rows.

#[allow(clippy::module_inception)]
pub mod attention;
mod bench;
pub mod decode;
mod decode_suite;
mod lanes;
mod matrix;
mod matrix_suite;
mod policy;
pub mod reference;
mod suite;
mod tile;
mod tiled;

use crate::Kernel;
pub use bench::{BenchShape, BenchTiming, bench};
pub use decode::DecodeArgs;
pub use lanes::{LanesPolicy, LanesTile, lanes_candidates};
pub use matrix::{MatrixPolicy, MatrixTile, matrix_candidates, matrix_of};
pub use policy::{AttentionPolicy, Shape, Split, Variant, select, split_candidates};
pub use suite::suite;
pub use tile::{Tile, TilePolicy, candidates};

/// The kernels of this family.
pub const KERNELS: &[Kernel] =
    &[attention::KERNEL, decode::KERNEL, tiled::KERNEL, matrix::KERNEL, lanes::KERNEL];
