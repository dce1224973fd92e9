//! Rows of tables: token embeddings and copies of rows.

use crate::suite::CaseResult;
use crate::{Kernel, Kernels};

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[];

/// Every case of this family.
pub fn suite(_kernels: &Kernels) -> Vec<CaseResult> {
    Vec::new()
}
