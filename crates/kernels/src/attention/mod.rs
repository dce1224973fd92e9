//! Softmax attention over a paged cache, for any number of rows.
//!
//! A row's keys are split into blocks at multiples of the policy's `key_block`. `attention.comp` computes each block's maximum, sum
//! and weighted values, `attention_combine.comp` joins them. What is computed for a row depends on its own position and window
//! alone: not on the other rows, and not on how many blocks the commands were recorded for.

#[allow(clippy::module_inception)]
pub mod attention;
mod policy;
pub mod reference;
mod suite;

use crate::Kernel;
pub use policy::{AttentionPolicy, Shape, Variant, select};
pub use suite::suite;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[attention::KERNEL, attention::COMBINE];
