//! Products of a weight matrix with many columns in tiles, with f16 factors and f32 sums: the fast policy's way.
//!
//! Activations become f16 once ([`convert`], scaled row by row so that nothing overflows) and are read by every product of them; weights become f16
//! in each workgroup, on their way to shared memory. Values of weights beyond f16's range (65,504, in F32 and BF16 files alone) become the
//! largest there is.
//!
//! # Budget
//!
//! A tile of R rows and C columns decodes R weights and copies C activations for R·C multiply-adds of a k. On an H200 subgroup matrices multiply 460
//! TFLOP/s from registers: a step of 128 × 128 × 64 in 1,080 cycles of a multiprocessor. Decoding its 8,192 weights takes 4 to 5 instructions each
//! on 128 lanes, 250 to 320 cycles, which other subgroups' products hide if registers leave room for them; loads from shared memory take 32 KiB of
//! fragments for each 64 × 64 of a subgroup.
//!
//! Few columns leave most of a card idle with large tiles: 4,096 rows are 32 workgroups of 128. So K is cut into parts, and for a few rows of decoding
//! tiles are narrow. The choice ([`select`]) weighs tiles and parts by what the busiest multiprocessor has to do (`cost.rs`).
//!
//! **Few columns** are to be bound by the weights' bytes. On an H200 4.5 TB/s are 34 bytes a nanosecond of each multiprocessor, and a load takes 0.8 µs: 27 KiB
//! must be on the way at any time. A tile of 64 × 16 with steps of 64 has 2.3 KiB of Q4_K on the way and takes about 0.2 µs of a multiprocessor for a step
//! (decoding 0.09, products 0.04, fragments 0.07), so a dozen of these workgroups, or half as many with steps of 128, keep it busy: 4,096
//! rows are 64 tiles of 64, whence 16 to 24 parts.

mod bench;
mod convert;
mod cost;
mod experts;
mod gemm_op;
mod lanes;
mod policy;
pub(crate) mod suite;
mod tile;
mod tried;

pub use bench::{Bench, BenchTiming};
pub use convert::{ConvertArgs, Packed, convert};
pub use experts::{fits_experts, group, record_experts, select_experts};
pub use gemm_op::{Args, record};
pub use policy::{Costs, GemmPolicy, GemmShape};
pub use suite::suite;
pub(crate) use tile::narrow;
pub use tile::{Matrix, Tile, matrix_of, select};
pub use tried::{candidates, expert_tiles, fits, likely};

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[gemm_op::KERNEL, gemm_op::LANES, convert::KERNEL];
