//! Reads and writes the GGUF container. Knows nothing about models: keys, types and bytes.
//!
//! A file is a header, key-value metadata, a table of tensors, and the tensors' bytes. Versions 2 and 3 are read, little endian,
//! also when a model is split over several files (`name-00001-of-00003.gguf`). Files are mapped, not read.
//!
//! Files come from strangers, so nothing in them is trusted: every count is compared with the bytes that are there
//! before anything is allocated, arithmetic is checked, and whatever is wrong becomes an [`Error`] that names the file, the byte
//! offset, and what was expected and found. When [`Gguf::open`] succeeds, every tensor's type is known and its bytes lie within
//! the file.
//!
//! ```
//! use zinc_gguf::{Gguf, GgmlType, Writer};
//! let mut writer = Writer::new();
//! writer.metadata("general.name", "tiny").tensor("w", &[2], GgmlType::F32);
//! let bytes = writer.to_bytes(|_| Ok(vec![0; 8].into()))?;
//!
//! let file = Gguf::from_bytes(bytes, "tiny.gguf")?;
//! assert_eq!(file.metadata().str("general.name")?, "tiny");
//! let w = file.tensor("w").unwrap();
//! assert_eq!((w.dims.as_slice(), file.data(w).len()), ([2].as_slice(), 8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cursor;
mod error;
mod file;
mod ggml_type;
mod metadata;
mod mmap;
mod parse;
mod split;
mod value;
mod write;

pub use error::{Error, Problem};
pub use file::{Gguf, Part, TensorInfo};
pub use ggml_type::GgmlType;
pub use metadata::{FromValue, Metadata};
pub use value::{Array, Strings, Value};
pub use write::{WriteError, Writer};
