//! Products of a weight matrix with few columns by integer dot products: x is rounded to integers, weights are the integers that they are.
//!
//! # Budget
//!
//! The kernel of `gemv` makes a float of each weight. Here four products are one instruction: an element of Q4_K takes a quarter of a mask and a quarter
//! of a dot product (half of one with two bytes of x), both at half rate on an H200, so 1.0 (1.5) of the 3.7 issue slots that its memory leaves; its
//! scale, x and loads about 0.7 more. What remains is latency: enough loads in flight before x is rounded and between chunks.
//!
//! # Error
//!
//! An element of x is off by half a step at most, the step being the largest value of its 32 elements / 127 with one byte, / 32639 with two; everything
//! else is exact but for the f32 sums over runs.

mod dot_op;
pub(crate) mod reference;
mod sublayer_suite;
mod suite;
mod tile;

pub use dot_op::{record, record_experts};
pub use suite::suite;
pub use tile::{Tile, candidates, fits, select, select_experts, shaped, shaped_experts};

use crate::Kernel;
use crate::gemv::NormedParams;

/// The kernels of this family.
pub const KERNELS: &[Kernel] =
    &[Kernel { stem: "dot", bindings: 8, params_bytes: size_of::<NormedParams>() as u32 }];
