//! The modules that the build script compiled.

use std::ops::Range;

/// A compiled shader in one of its variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shader {
    /// File name of the source without extension.
    pub stem: &'static str,
    /// A value for each dimension that the source's header declares, in its order.
    pub variant: &'static [(&'static str, &'static str)],
    /// Bytes of push constants that it declares: 8 a binding, then the params.
    pub push_bytes: u32,
    words: Range<usize>,
}

#[repr(C, align(4))]
struct Aligned<T: ?Sized>(T);

static WORDS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/shaders.spv")));

static SHADERS: &[Shader] = &include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

impl Shader {
    /// Stem and variant: `gemv FORMAT=Q4_K GATE=no`, the name of its pipelines.
    pub fn name(&self) -> String {
        self.variant.iter().fold(self.stem.to_owned(), |name, (d, v)| format!("{name} {d}={v}"))
    }

    /// The module's words.
    pub fn spirv(&self) -> &'static [u32] {
        &bytemuck::cast_slice(&WORDS.0)[self.words.clone()]
    }
}

/// Every shader in every variant.
pub fn shaders() -> &'static [Shader] {
    SHADERS
}

/// The shader of this name and variant; the dimensions may come in any order.
pub fn shader(stem: &str, variant: &[(&str, &str)]) -> Option<&'static Shader> {
    SHADERS.iter().find(|s| {
        s.stem == stem && s.variant.len() == variant.len() && variant.iter().all(|v| s.variant.contains(v))
    })
}
