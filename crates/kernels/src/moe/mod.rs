//! Experts: who computes what, and what becomes of it.
//!
//! `route` chooses experts for each row; a choice is an activation of `2·top_k` columns, the experts' numbers as floats and then their
//! weights. For a single row `decide` does that with the norm and the products before it. `pack` turns the choices of many rows into lists by expert, so that a matrix is read for all its rows at once. The products
//! themselves are those of [`crate::gemv`], [`crate::dot`] and [`crate::gemm`] ([`crate::product::select_experts`]), whose columns are then slots of
//! rows: in one family their sums have the same order whether a row is alone or packed with others. `expert_sum` adds a row's slots in their order.
//!
//! Nothing of it is known to the host: dispatches are sized for the most tiles that a choice can have, and the workgroups beyond those that
//! there are leave at once.

mod bench;
pub mod decide;
pub mod expert_bias;
pub mod expert_sum;
mod grouping;
pub mod pack;
mod products_suite;
pub mod reference;
pub mod route;
mod rows;
mod suite;

pub use bench::{Bench, BenchShape, BenchTiming, Way};
pub use grouping::Grouping;
pub use suite::suite;

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[route::KERNEL, pack::KERNEL, decide::KERNEL, rows::KERNEL];
