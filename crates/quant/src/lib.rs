//! Quantised block formats: layout, decode, encode and the GLSL that decodes them on a GPU.
//!
//! A weight matrix is stored row by row, and each row as a run of *blocks*: a fixed number of elements in a fixed number of
//! bytes. This crate is the only one that knows what lies inside a block. Everything about one format lives in its folder
//! `src/formats/<format>/`, and `src/formats/mod.rs` is the list:
//!
//! * `mod.rs`: where each byte of a block lies, the value of an element, a decoder that is bit-exact with ggml's, and a plain
//!   round-to-nearest encoder (for synthetic models and tests; it makes no attempt at the quality of a real quantiser);
//! * `<format>.glsl`: the decoder for the GPU, handed out as text in [`Format::glsl`] and compiled by the kernels' build script.
//!
//! To add a format: write the folder, add its line to the list. The tests here and the kernels' suites iterate the list.
//!
//! ```
//! let format = zinc_quant::by_name("Q8_0").unwrap();
//! let weights: Vec<f32> = (0..64).map(|i| i as f32 / 64.0).collect();
//! let mut row = vec![0u8; format.row_bytes(64)];
//! format.encode_row(&weights, &mut row);
//! let mut back = vec![0.0; 64];
//! format.decode_row(&row, &mut back);
//! assert!((back[10] - weights[10]).abs() < 0.01);
//! ```

mod bits;
mod format;
mod formats;
mod k_scales;
mod rounding;

pub use format::{Format, FormatRef, Plane};
pub use formats::{by_ggml_type, by_name, formats};
