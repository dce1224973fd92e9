//! What can be wrong with a file's tokenizer or chat template.

/// Errors of this crate. Each says what to do next where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key is missing or has the wrong type.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// A key holds something that cannot be used.
    #[error("`{key}` {reason}")]
    BadValue {
        /// The metadata key.
        key: &'static str,
        /// What is wrong with it, as the rest of the sentence.
        reason: String,
    },
    /// `tokenizer.ggml.model` names a kind of tokenizer that does not exist here.
    #[error("tokenizer model `{model}` is not supported\nhint: supported are {known}")]
    UnknownModel {
        /// The value in the file.
        model: String,
        /// The supported ones.
        known: String,
    },
    /// `tokenizer.ggml.pre` (or the override) names a pretokenizer that does not exist here.
    #[error(
        "pretokenizer `{name}` is unknown\nhint: if the model splits text like one of {known}, say so with `--pretokenizer NAME`"
    )]
    UnknownPretokenizer {
        /// The value in the file or of the override.
        name: String,
        /// The known ones.
        known: String,
    },
    /// A chat template that cannot be parsed or rendered.
    #[error("chat template, line {line}: {reason}")]
    Template {
        /// Line of the template, from 1; 0 where the engine does not know it.
        line: usize,
        /// What went wrong there.
        reason: String,
    },
}
