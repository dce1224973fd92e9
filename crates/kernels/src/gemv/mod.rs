//! Products of a weight matrix with 1 to 8 columns, the K-parallel way: a subgroup or more a row, K split over its lanes.
//!
//! # Budget
//!
//! Per weight element and column there is one multiply-add; everything else is to be shared. On a card that streams 4.64 TB/s and issues
//! 30 · 10¹² lane operations a second (132 multiprocessors · 128 · 1.8 GHz), an element may cost
//!
//! | format | bytes an element | operations at full bandwidth | this kernel by count, one column, 4 rows a subgroup | reached (H200, driver 580.159) |
//! |---|---|---|---|---|
//! | Q4_K | 0.5625 | 3.7 | 2.75 codes + 0.8 scales + 0.25 Σx + 0.3 loads and loop = 4.1 | 2.1–2.2 TB/s, 47 % |
//! | Q6_K | 0.82 | 5.4 | 3.5 + 0.3 + 0.3 = 4.1 | 2.6–2.7 TB/s, 57 % |
//! | Q8_0 | 1.0625 | 6.9 | 2.75 + 0.1 + 0.3 = 3.2 | 2.8 TB/s, 60 %; 3.7 with x staged |
//! | F16 | 2 | 13 | 2.2 | 4.0 TB/s, 87 % |
//!
//! Codes become floats in two ways at once (see `glsl/format.md`); a scale applied to each element would be one more operation,
//! `d·Σq·x + m·Σx` applies it once a run instead.
//!
//! x comes through L1: 4 bytes an element for each subgroup that passes, which at one row a subgroup would be 33 TB/s, more than L1
//! gives. With R rows a subgroup it is 1/R of that; four rows also share Σx. In flight are R · 32 bytes a lane.
//! An isolated product of 28 MB takes 6 µs at full bandwidth, so rows alone do not fill the device: K is split over subgroups.
//!
//! Unexplained: Q4_K stays at 3.9 · 10¹² elements a second whatever the tile, the staging of x and the way of conversion, at 64 registers
//! and 32 subgroups a multiprocessor. The compiler's code has about 5.5 instructions an element, more than the count above.

mod bench;
mod gemv_op;
mod reference;
mod suite;

pub use bench::{BenchShape, BenchTiming, bench};
pub use gemv_op::{Args, Epilogue, Gate, Tile, Weights, candidates, record, select};
pub use suite::suite;

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] =
    &[Kernel { stem: "gemv", bindings: 6, params_bytes: size_of::<gemv_op::Params>() as u32 }];
