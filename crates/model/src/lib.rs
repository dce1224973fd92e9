//! From a model file to a plan.
//!
//! `arch/<family>.rs` reads a file's metadata and tensors into a [`ModelSpec`]: plain dimensions and rules, and the only place that
//! knows GGUF keys. [`lower`] turns any `ModelSpec` into a [`zinc_plan::Plan`]; it is written once for all architectures, by kind of
//! mixer and kind of FFN. [`Model::from_gguf`] does both.
//!
//! A tensor that is missing, has another shape or is not used by the architecture's rules is an error: a model is run whole or not
//! at all.

mod arch;
mod error;
mod lower;
mod reader;
mod spec;

pub use arch::architectures;
pub use error::Error;
pub use lower::lower;
pub use spec::{
    Attention, DeltaNet, Dense, Ffn, GateUp, LayerSpec, Mixer, ModelSpec, Moe, Projection, RecurrentInputs,
    RouterNorm, SharedExpert,
};

use zinc_gguf::Gguf;
use zinc_plan::Plan;

/// A model that can be run.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its dimensions and rules.
    pub spec: ModelSpec,
    /// What it computes for a row.
    pub plan: Plan,
    /// What a user should know: parts of the file that are left out, and why.
    pub notes: Vec<String>,
}

impl Model {
    /// Reads and checks a model: every tensor accounted for, every shape right, every format known, the plan consistent.
    ///
    /// The error is the exact reason why this file can not be run.
    pub fn from_gguf(gguf: &Gguf) -> Result<Model, Error> {
        let (spec, notes) = arch::read(gguf)?;
        let plan = lower(&spec);
        plan.check()?;
        Ok(Model { spec, plan, notes })
    }
}

/// Whether a file can be run: the notes of a model that can, else exactly why not.
pub fn support(gguf: &Gguf) -> Result<Vec<String>, Error> {
    Model::from_gguf(gguf).map(|model| model.notes)
}
