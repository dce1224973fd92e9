//! From logits to the next token.

pub mod adjust;
pub mod advance;
pub mod argmax;
pub mod reference;
mod suite;
pub mod top_k;

use crate::Kernel;
pub use suite::suite;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[argmax::KERNEL, top_k::KERNEL, adjust::KERNEL, advance::KERNEL];
