//! Products of a weight matrix with columns, the K-parallel way: a team of lanes splits the K of a few rows, for up to 64 columns at once.
//!
//! # Budget
//!
//! Per weight element and column there is one multiply-add; everything else is to be shared.
//!
//! **One column** is bound by instructions before bytes: a card that streams 4.64 TB/s and issues 30 · 10¹² lane operations a second (132
//! multiprocessors · 128 · 1.8 GHz) has 3.7 of them for an element of Q4_K (0.5625 bytes), 5.4 for Q6_K, 6.9 for Q8_0, 13 for F16. An element
//! of Q4_K takes about 2 to become a float (`glsl/format.md`), 1 for its scale, 1 for the product, 0.5 for the scale's own decoding and 0.4 for
//! x, loads and the loop. Leaving parts of it out shows what each costs (an H200, 12,288 × 4,096): all of it 1.99 TB/s; without decoding
//! scales 2.22; with one operation a conversion 2.30; without loading x 2.07; without all three 3.23.
//!
//! **Many columns** are bound by multiply-adds. A team of R rows and C columns loads an x for R of them and decodes a weight for C: at R = 4 and
//! C = 16 an element's share of decoding is 0.25 operations and of loading x 0.06, but x comes from shared memory at 32 values a cycle, which at
//! R = 4 takes as long as the multiply-adds. Reached: 15 to 16 · 10¹² multiply-adds a second of 30. R = 8 halves the loads and doubles the
//! decoding and the registers: 12 · 10¹². The serial way (`lanes` 1: an invocation a row) reads weights in strides: 6 · 10¹² at 8
//! columns, 2 at 32.
//!
//! Tried and left out: a loop over the runs of a chunk that is not unrolled, with runs of 16 elements, makes code a quarter as long and is 5 % slower for 512
//! columns and 7 % for one on the H200.
//!
//! Sweeps: `bench/results/2026-11-30-h200-gemv-sweep.txt`.

mod cut;
mod experts;
mod gemv_op;
mod operands;
pub(crate) mod reference;
pub(crate) mod suite;
mod tile;
mod tuned;

pub use cut::Cut;
pub(crate) use experts::check as check_experts;
pub use experts::{Biases, ExpertArgs, Up, record_experts};
pub use gemv_op::{Args, Epilogue, Gate, InputNorm, Sublayer, Weights, record};
pub(crate) use operands::{NormedParams, Operands, Params};
pub use suite::suite;
pub use tile::{ProductClass, Tile, candidates, fits_experts, select, select_experts, shaped_experts};
pub use tuned::{TuneResult, TuneShape, Tuned, tune};

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] =
    &[Kernel { stem: "gemv", bindings: 7, params_bytes: size_of::<Params>() as u32 }];
