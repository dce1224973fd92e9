//! Operations whose rows depend on the rows before them: a causal convolution and the gated delta rule.
//!
//! Their states are f32 and lie in slots, one behind the other: of a convolution `[taps − 1][channels]`, the oldest input first; of a
//! delta net `[head][value][key]`.

pub mod bench;
pub mod chunked;
pub mod conv;
mod conv_suite;
pub mod delta_net;
pub mod reference;
mod run;
pub(crate) mod suite;

use crate::Kernel;
pub use run::{NO_STATE, PartRows, Run, RunTable};
pub use suite::suite;
use zinc_vulkan::Slice;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[conv::KERNEL, delta_net::KERNEL, chunked::PREPARE, chunked::KERNEL];

/// The parts of a step on the device.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// A [`Run`] a part; entries that a step does not use have no rows.
    pub runs: &'a Slice,
    /// For each row of the batch the index of its part, u32.
    pub row_parts: &'a Slice,
    /// Entries to look at.
    pub count: u32,
}
