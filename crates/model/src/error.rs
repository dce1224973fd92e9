//! Why a file can not be run.

/// Why a file is no model that can be run. Names the tensor or key, and what was expected of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A metadata key is missing or has another type.
    #[error(transparent)]
    Metadata(#[from] zinc_gguf::Error),
    /// A metadata key has a value that makes no sense.
    #[error("metadata key `{key}` is {found}, expected {expected}")]
    Value {
        /// The whole key.
        key: String,
        /// The value.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// No architecture of this name is known.
    #[error("architecture `{name}` is not known\nhint: zinc runs {known}")]
    UnknownArchitecture {
        /// The value of `general.architecture`.
        name: String,
        /// Names of the known ones.
        known: String,
    },
    /// The architecture is known, but not this variant of it.
    #[error("`{architecture}` models with {what} are not supported")]
    Variant {
        /// The architecture.
        architecture: String,
        /// What is not supported.
        what: String,
    },
    /// A tensor that the architecture needs is not in the file.
    #[error(
        "tensor `{tensor}` {expected:?} is missing\nhint: the file is incomplete, or made by a converter that is too old or too new"
    )]
    MissingTensor {
        /// Name of the tensor.
        tensor: String,
        /// Layer, where it belongs to one.
        layer: Option<u32>,
        /// Shape it should have, innermost dimension first; empty where the tensor itself decides.
        expected: Vec<u64>,
    },
    /// A tensor has another shape than the metadata and the other tensors imply.
    #[error("tensor `{tensor}` has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Name of the tensor.
        tensor: String,
        /// Layer, where it belongs to one.
        layer: Option<u32>,
        /// Shape it should have, innermost dimension first.
        expected: Vec<u64>,
        /// Shape it has.
        found: Vec<u64>,
    },
    /// A tensor has a length that can not be divided as it must be.
    #[error("tensor `{tensor}` has shape {found:?}: {what}")]
    Dimension {
        /// Name of the tensor.
        tensor: String,
        /// Shape it has.
        found: Vec<u64>,
        /// What is wrong with it.
        what: String,
    },
    /// Tensors that the architecture's rules do not use: running without them would give wrong answers.
    #[error(
        "`{architecture}` has no use for {count} tensors of the file, the first is `{first}`\nhint: the file may hold a variant of the architecture that zinc does not know"
    )]
    UnusedTensors {
        /// The architecture.
        architecture: String,
        /// How many there are.
        count: usize,
        /// The first of them in the order of the file.
        first: String,
    },
    /// A tensor's blocks can not be decoded.
    #[error("tensor `{tensor}` has format {format}, which zinc does not read\nhint: zinc reads {known}")]
    Format {
        /// Name of the tensor.
        tensor: String,
        /// Name of the format.
        format: String,
        /// Names of the known formats.
        known: String,
    },
    /// The plan that follows from the file is inconsistent.
    #[error(transparent)]
    Plan(#[from] zinc_plan::PlanError),
}
