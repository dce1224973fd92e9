//! Tokenizers, detokenising, chat templates and stop strings: everything between text and token ids.
//!
//! - [`Tokenizer`]: the vocabulary of a GGUF file. Byte-level BPE with the pretokenizer that the file names,
//!   sentencepiece by scores, Gemma 4's BPE; the ids are those of the model's own `tokenizer.json`.
//! - [`Detokenizer`]: ids back to text, one at a time, never half a character.
//! - [`ChatTemplate`]: a conversation to the text that the model was trained on, as the file's Jinja template says.
//!   Whatever a message contains, it never becomes a control token: see [`Rendered`].
//! - [`AnswerParser`]: reasoning, content and tool calls out of what the model says.
//! - [`StopStrings`]: stop strings in a stream, wherever the stream is cut.
#![forbid(unsafe_code)]

mod detokenize;
mod error;
mod load;
mod merge;
mod merges;
mod model;
mod parse;
mod pretokenize;
mod special;
mod stop;
mod template;
mod tokenizer;
mod vocab;

pub use detokenize::Detokenizer;
pub use error::Error;
pub use parse::{AnswerFormat, AnswerParser, Call, Delta, Piece, Tool, ToolFormat};
pub use stop::{StopStep, StopStrings};
pub use template::{ChatTemplate, Message, RenderInput, Rendered, strftime};
pub use tokenizer::{ControlTokens, Tokenizer};
pub use vocab::TokenType;
