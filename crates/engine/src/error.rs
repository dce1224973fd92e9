//! What can go wrong between a file and its answer.

use crate::memory::DoesNotFit;
use crate::sampler::NotFinite;
use crate::validate::ValidationReport;

/// Errors of the engine. Each says what to do next where something can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// Its architecture or tensors.
    #[error(transparent)]
    Model(#[from] zinc_model::Error),
    /// Its tokenizer.
    #[error(transparent)]
    Text(#[from] zinc_text::Error),
    /// The Vulkan runtime.
    #[error(transparent)]
    Vulkan(#[from] zinc_vulkan::Error),
    /// A kernel.
    #[error(transparent)]
    Kernels(#[from] zinc_kernels::Error),
    /// An operation that no kernel can do.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Heads that the KV cache cannot hold in this type.
    #[error(
        "a {kv_type} KV cache takes heads whose size is a multiple of {unit}, the model's keys have {key_size} elements and its values {value_size}\nhint: leave out `--kv {kv_type}`: f16 takes them"
    )]
    CacheType {
        /// The type.
        kv_type: &'static str,
        /// What sizes must be a multiple of.
        unit: u32,
        /// Elements of a key head.
        key_size: u32,
        /// Elements of a value head.
        value_size: u32,
    },
    /// Model and context do not fit into the device's memory.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
    /// The logits are no numbers.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    /// The CPU executor.
    #[error(transparent)]
    Cpu(#[from] zinc_cpu::Error),
    /// A sequence has no room for more tokens.
    #[error(
        "{tokens} tokens do not fit into a context of {context}\nhint: load the model with a larger context, or shorten the text"
    )]
    ContextFull {
        /// Tokens that the sequence would have.
        tokens: usize,
        /// Tokens it may have.
        context: usize,
    },
    /// Pages of the KV cache that others hold.
    #[error(
        "{needed} pages of the KV cache are needed, {free} are free\nhint: let go of kept prefixes, or load the model with more room for them"
    )]
    NoPages {
        /// Pages needed.
        needed: usize,
        /// Pages that nobody holds.
        free: usize,
    },
    /// A sequence cannot begin with what another one has read.
    #[error("a sequence cannot begin with shared pages: {0}")]
    NotShareable(&'static str),
    /// A token id beyond the vocabulary.
    #[error("token {token} is beyond the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The token.
        token: u32,
        /// Tokens of the vocabulary.
        vocab: u32,
    },
    /// Nothing to generate from.
    #[error("the prompt has no tokens\nhint: give at least one token or character")]
    EmptyPrompt,
    /// All sequences are in use.
    #[error("all {sequences} sequences are in use\nhint: drop one, or load the model for more of them")]
    NoSequence {
        /// Sequences of the engine.
        sequences: u32,
    },
    /// A sequence of another engine.
    #[error("the sequence belongs to another engine")]
    ForeignSequence,
    /// A value of an option.
    #[error("{0}")]
    Option(String),
    /// A result of a step that is not the last one.
    #[error("the result of step {step} was asked for, the buffers hold step {held}")]
    StaleResult {
        /// The step whose result is wanted.
        step: u64,
        /// The step whose result is there.
        held: u64,
    },
    /// The validation layer found fault with a load or a run.
    #[error("the validation layer says:\n{0}")]
    ValidationLayer(String),
    /// Batched prefill computes something else than other paths.
    #[error("validation failed: {}", ValidationReport::headline(.0))]
    Validation(Box<ValidationReport>),
}

impl Error {
    /// Whether the device is lost, so that nothing more can be computed on it.
    pub fn device_lost(&self) -> bool {
        use zinc_vulkan::Error::DeviceLost;
        matches!(
            self,
            Error::Vulkan(DeviceLost { .. }) | Error::Kernels(zinc_kernels::Error::Vulkan(DeviceLost { .. }))
        )
    }
}

/// Why a plan cannot be compiled for a number of rows: the answer of the kernels' own selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kernel for `{op}` ({}) with {format} weights at {rows} rows: {reason}\nhint: `--backend cpu` runs every architecture", place(*.layer, .label))]
pub struct Unsupported {
    /// The operation.
    pub op: String,
    /// Its layer.
    pub layer: Option<u32>,
    /// Its label.
    pub label: String,
    /// Block format of its weight; `-` without one.
    pub format: String,
    /// Rows of the step.
    pub rows: u32,
    /// What is missing.
    pub reason: String,
}

impl Unsupported {
    /// Without the place and what to do.
    pub fn in_short(&self) -> String {
        format!("the GPU has no kernel for `{}` with {} weights", self.op, self.format)
    }
}

fn place(layer: Option<u32>, label: &str) -> String {
    match layer {
        Some(layer) => format!("layer {layer}, `{label}`"),
        None => format!("`{label}`"),
    }
}
