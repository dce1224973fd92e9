//! The CPU executor: runs a [`zinc_plan::Plan`] in f32. It is the reference that every other path is measured against, and what a
//! machine without a GPU runs.
//!
//! Weights stay quantised in the mapped file; rows are decoded as they are needed, once for all rows of a batch. Each output is
//! summed in an order that depends on the shapes alone, so the logits of a row do not change by a bit with the rows beside it:
//! token by token, in chunks or together with other sequences.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (gguf, plan): (std::sync::Arc<zinc_gguf::Gguf>, zinc_plan::Plan) = todo!();
//! use zinc_plan::Row;
//! let cpu = zinc_cpu::Cpu::new(gguf, plan)?;
//! let mut sequences = vec![cpu.new_sequence(4096)];
//! let rows = [Row { sequence: 0, position: 0, token: 1, wants_logits: true }];
//! let logits = cpu.forward(&rows, &mut sequences)?;
//! assert_eq!(logits.row(0).len(), cpu.plan().vocab() as usize);
//! # Ok(()) }
//! ```

mod error;
mod executor;
mod ops;
mod parallel;
mod sequence;
mod simd;
mod values;
mod weights;

pub use error::Error;
pub use executor::Cpu;
pub use sequence::Sequence;
pub use values::{Logits, Values};
