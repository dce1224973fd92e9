//! What can be wrong with a file.

use std::io;

/// Why a file could not be opened or a metadata key could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or mapped.
    #[error("`{file}`: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The file's content is wrong.
    #[error("`{file}`, byte {offset}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// Offset of the field that is wrong, in bytes from the start of the file.
        offset: u64,
        /// What was expected there, and what was found.
        problem: Box<Problem>,
    },
    /// A part of a split model is not there.
    #[error(
        "`{file}` is one of {count} parts, and `{missing}` is missing\nhint: put all parts into one folder"
    )]
    MissingPart {
        /// The part that was opened.
        file: String,
        /// The part that is not there.
        missing: String,
        /// How many parts there are.
        count: u32,
    },
    /// A metadata key that is needed is not there.
    #[error("`{file}`: metadata key `{key}` is missing")]
    MissingKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
    },
    /// A metadata key has a value of another type, or a number that does not fit.
    #[error("`{file}`, byte {offset}: metadata key `{key}` should be {expected}, found {found}")]
    WrongType {
        /// The file.
        file: String,
        /// Offset of the entry.
        offset: u64,
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type or value that is there.
        found: String,
    },
}

/// What is wrong at an offset of a file. Texts from the file are escaped and shortened.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what its fields are")]
pub enum Problem {
    #[error("expected the magic bytes `GGUF`, found `{found}`\nhint: this is not a GGUF file")]
    NotGguf { found: String },
    #[error(
        "expected a little-endian file, found a big-endian one\nhint: convert it with `gguf_convert_endian.py`"
    )]
    BigEndian,
    #[error("expected version 2 or 3, found {found}\nhint: convert the model again with a current converter")]
    Version { found: u32 },
    #[error(
        "expected {what} ({needed} bytes), found the end of the file after {left} bytes\nhint: is the download complete?"
    )]
    Truncated { what: &'static str, needed: u64, left: u64 },
    #[error("expected at most {most} {what} in the rest of the file, found a count of {found}")]
    Count { what: &'static str, found: u64, most: u64 },
    #[error("expected {what} in UTF-8, found invalid bytes")]
    NotUtf8 { what: &'static str },
    #[error("expected a metadata key of 1 to 65535 bytes, found {found}")]
    KeyLength { found: u64 },
    #[error("expected each metadata key once, found `{key}` again")]
    DuplicateKey { key: String },
    #[error("expected a metadata value type (0 to 12) for `{key}`, found {found}")]
    ValueType { key: String, found: u32 },
    #[error("expected a bool (0 or 1), found {found}")]
    Bool { found: u8 },
    #[error("expected arrays nested at most {limit} deep, found a deeper one")]
    Nesting { limit: u32 },
    #[error("expected `general.alignment` to be a power of two, found {found}")]
    Alignment { found: String },
    #[error("expected each tensor once, found `{tensor}` again")]
    DuplicateTensor { tensor: String },
    #[error("expected 1 to 4 dimensions of tensor `{tensor}`, found {found}")]
    Dims { tensor: String, found: u32 },
    #[error("expected dimensions of tensor `{tensor}` above 0, found {dims:?}")]
    ZeroDim { tensor: String, dims: Vec<u64> },
    #[error(
        "expected a known type of tensor `{tensor}`, found id {found}\nhint: the file may need a newer version of zinc"
    )]
    UnknownType { tensor: String, found: u32 },
    #[error("expected the size of tensor `{tensor}` to fit 64 bits, found dimensions {dims:?}")]
    TooLarge { tensor: String, dims: Vec<u64> },
    #[error(
        "expected rows of tensor `{tensor}` of whole {ggml_type} blocks of {block}, found a row of {row}"
    )]
    RowLength { tensor: String, ggml_type: &'static str, block: u64, row: u64 },
    #[error("expected the offset of tensor `{tensor}` to be a multiple of {alignment}, found {found}")]
    Misaligned { tensor: String, alignment: u64, found: u64 },
    #[error(
        "expected tensor `{tensor}` within the {file_bytes} bytes of the file, found it from {start} for {bytes} bytes\nhint: is the download complete?"
    )]
    Outside { tensor: String, start: u128, bytes: u64, file_bytes: u64 },
    #[error("expected tensors not to overlap, found `{tensor}` over `{other}`")]
    Overlap { tensor: String, other: String },
    #[error(
        "expected `{key}` = {expected} as the file's name says, found {found}\nhint: parts are named `NAME-00001-of-0000N.gguf`"
    )]
    Split { key: &'static str, expected: u64, found: String },
    #[error("expected {expected} tensors in all parts as `split.tensors.count` says, found {found}")]
    SplitTensors { expected: u64, found: u64 },
}

/// Text from a file as it may be shown: control characters escaped, long text cut.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(80).flat_map(char::escape_debug).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
