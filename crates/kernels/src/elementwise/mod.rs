//! Operations on columns, each element for itself.

pub mod activate;
pub mod add;
pub mod add_bias;
mod dispatch;
pub mod reference;
pub mod scale;
pub mod sigmoid_gate;
pub mod slice;
pub mod softcap;
mod suite;

use crate::Kernel;
pub use dispatch::supports;
pub use suite::suite;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[dispatch::KERNEL];
