//! Shared by the tests of every crate: where fixtures and models lie, how results are compared, which shapes to try.

mod compare;
mod files;
mod rng;
mod shapes;
pub mod tolerance;

pub use compare::{Mismatch, compare_f32, max_abs_diff, relative_rms};
pub use files::{ARCHITECTURES, Fixture, Reference, fixtures, fixtures_dir, model_file, tokenizer_dir};
pub use rng::Rng;
pub use shapes::shape_classes;
