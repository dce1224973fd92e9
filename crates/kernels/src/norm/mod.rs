//! Norms over groups of columns.

pub mod gated_rms_norm;
pub mod l2_norm;
mod norm_dispatch;
pub mod reference;
pub mod rms_norm;
mod suite;
mod team;

use crate::Kernel;
pub use norm_dispatch::{packs, supports};
pub use suite::suite;
pub(crate) use team::{SUBGROUP_COLUMNS, Team};

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[norm_dispatch::KERNEL];
