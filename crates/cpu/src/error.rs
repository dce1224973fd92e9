//! What can be wrong with a call.

/// Why a plan or a batch was refused. Nothing has been computed and no sequence has changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] zinc_plan::PlanError),
    /// The plan names a tensor that the file does not have in this shape and format.
    #[error("tensor `{tensor}` of the plan is not in the file, or has another shape or format there")]
    Weight {
        /// Name of the tensor.
        tensor: String,
    },
    /// A row names a sequence that is not there.
    #[error("row {row} belongs to sequence {sequence}, but there are {count}")]
    Sequence {
        /// Index of the row.
        row: usize,
        /// The sequence it names.
        sequence: u32,
        /// Number of sequences.
        count: usize,
    },
    /// A row's position does not follow what its sequence holds.
    #[error("row {row} has position {found} of sequence {sequence}, expected {expected}")]
    Position {
        /// Index of the row.
        row: usize,
        /// Its sequence.
        sequence: u32,
        /// Its position.
        found: u32,
        /// The next position of the sequence.
        expected: u32,
    },
    /// A sequence is full.
    #[error(
        "sequence {sequence} is full: its context is {max_context} tokens\nhint: ask for a larger context"
    )]
    Context {
        /// The sequence.
        sequence: u32,
        /// Tokens that fit.
        max_context: u32,
    },
    /// A row's token is not in the vocabulary.
    #[error("row {row} has token {token}, but the vocabulary has {vocab}")]
    Token {
        /// Index of the row.
        row: usize,
        /// The token id.
        token: u32,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// A sequence was made for another plan.
    #[error("sequence {sequence} was made for another model")]
    ForeignSequence {
        /// Index of the sequence.
        sequence: usize,
    },
}
