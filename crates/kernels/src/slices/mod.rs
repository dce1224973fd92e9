//! Products of a weight matrix with few columns on matrix cores: x stays in registers, weights go by.
//!
//! # Budget
//!
//! Few columns are to be bound by the weights' bytes. On an H200 4.5 TB/s are 34 bytes a nanosecond of each multiprocessor, and a load takes 0.8 µs: 27 KiB must be on the
//! way at any time. 16 subgroups with the next 16 rows of 256 elements of Q4_K each (2.3 KiB) have 36. A step of these takes about 300 instructions of a subgroup for decoding,
//! 4 for each 16 weights of a lane, and 16 products of matrices; 4 schedulers issue the steps of 16 subgroups in 0.6 µs. x is read once a workgroup, that is 132 times, from the
//! second-level cache: 8 columns of 4,096 are 128 KiB.
//!
//! # Error
//!
//! That of products in tiles ([`crate::gemm`]): both factors are rounded to f16, sums are f32. Here x has a power of two for each slice of a column, not one for all of it.

mod slices_op;
mod suite;
mod tile;

pub use slices_op::record;
pub use suite::suite;
pub use tile::{SlicesPolicy, Tile, candidates, fits, select};

use crate::Kernel;
use crate::gemv::Params;

/// The kernels of this family.
pub const KERNELS: &[Kernel] =
    &[Kernel { stem: "slices", bindings: 7, params_bytes: size_of::<Params>() as u32 }];
