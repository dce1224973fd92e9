//! Runs a model: memory planning, compilation of the plan to a schedule, execution, sequences, sampling, generation.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use zinc_engine::{Engine, Event, GenerateOptions, LoadOptions};
//! # fn main() -> Result<(), zinc_engine::Error> {
//! let mut engine = Engine::load(&LoadOptions::new("model.gguf"), &mut |_| ())?;
//! let prompt = engine.tokenizer()?.encode("The capital of France is", zinc_text::ControlTokens::AsText);
//! let mut sequence = engine.sequence()?;
//! let stats = engine.generate(&mut sequence, &prompt, &GenerateOptions::default(), &mut |event| {
//!     if let Event::Token { text, .. } = event {
//!         print!("{text}");
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! eprintln!("{:.1} tokens a second", stats.decode_rate());
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod batch;
mod compile;
mod embed;
mod engine;
mod error;
mod execute;
mod figures;
mod generate;
mod keyed;
mod memory;
mod open;
mod options;
mod report;
mod sampler;
mod sequence;
mod tuned;
mod validate;

pub use batch::{LogitRow, Part, PartOutput, StepLimits};
pub use compile::{Call, Place, Schedule, Scratch, Shape, Step, Target, compile};
pub use engine::Engine;
pub use error::{Error, Unsupported};
pub use execute::{LoadPlan, plan_without_device};
pub use figures::{DeviceFigures, MatrixFigure};
pub use generate::Event;
pub use memory::{DoesNotFit, MemoryPlan, fit, gib};
pub use options::{BackendWish, GenerateOptions, LoadOptions, LoadProgress, PrefillMode, Want};
pub use report::{
    Choices, Fallback, Logits, OpTime, PrefillPath, Products, Routing, RoutingSpread, Stats, StopReason,
    Summary,
};
pub use sampler::{Candidates, NotFinite, Sampler, SamplingOptions};
pub use sequence::{KeptStates, PageRef, Sequence};
pub use tuned::{Measured, TunedFile, model_class};
#[cfg(feature = "fault-injection")]
pub use validate::Fault;
pub use validate::{
    Against, Choice, Comparison, FirstDifference, Measure, Routes, Spot, Tolerance, ValidateOptions,
    ValidationReport, divergence, log_sum_exp,
};
pub use zinc_kernels::Precision;
pub use zinc_kernels::gemv::{Cut, Tile};
pub use zinc_kernels::kv::{KvType, PAGE_TOKENS};
pub use zinc_kernels::product::Product;
