//! Chains of operations on whole rows in one dispatch: sums of experts, residuals, norms, scales. Each does to a row what it does apart, bit
//! for bit; between them the row stays in registers.

mod chain_op;
mod stage;
mod suite;

pub use chain_op::{Args, record, supports};
pub use stage::Stage;
pub use suite::suite;

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[chain_op::KERNEL];
