//! Rows of tables: token embeddings, and copies of rows.

mod embed_op;
mod suite;

pub use embed_op::{CopyArgs, EmbedArgs, copy_rows, embed, supports};
pub use suite::suite;

use crate::Kernel;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[
    Kernel { stem: "embed", bindings: 3, params_bytes: size_of::<embed_op::EmbedParams>() as u32 },
    Kernel { stem: "copy_rows", bindings: 3, params_bytes: size_of::<embed_op::CopyParams>() as u32 },
];
