//! The list of formats, a line each, and the macro by which a format's folder declares itself.

use crate::format::FormatRef;

/// Declares the static `FORMAT` of a format's module from its layout and the module's functions
/// `decode_block(&[u8; BYTES], &mut [f32; ELEMS])` and `encode_block(&[f32; ELEMS], &mut [u8; BYTES])`. Its GLSL may be several files, what
/// formats share first.
macro_rules! block_format {
    ($name:literal, ggml $id:literal, $elems:literal elements in $bytes:literal bytes,
     planes [$($offset:literal .. $end:literal $(by $piece:literal of $step:literal)?),+], $($glsl:literal),+) => {
        pub(super) static FORMAT: crate::format::Format = crate::format::Format {
            name: $name,
            ggml_type: $id,
            block_elems: $elems,
            block_bytes: $bytes,
            decode: |block, values| decode_block(crate::bits::exactly(block), crate::bits::exactly_mut(values)),
            encode: |values, block| encode_block(crate::bits::exactly(values), crate::bits::exactly_mut(block)),
            planes: &[$(crate::format::Plane::range($offset, $end)$(.by($piece, $step))?),+],
            glsl: concat!($(include_str!($glsl)),+),
            chunk: crate::format::number_of(concat!($(include_str!($glsl)),+), "#define CHUNK "),
            run: crate::format::number_of(concat!($(include_str!($glsl)),+), "#define RUN "),
            decode_blocks,
        };

        /// The loop over blocks, compiled for several levels of the processor with the decoder inlined.
        #[allow(unsafe_code, reason = "the dispatcher that `multiversion` writes calls what it has checked")]
        #[multiversion::multiversion(targets("x86_64+avx2+fma"))]
        fn decode_blocks(src: &[u8], dst: &mut [f32]) {
            // A block by itself becomes vectors; inlined into the loop over blocks, pairs of blocks are interleaved, at half the speed.
            #[multiversion::inherit_target]
            #[inline(never)]
            fn one(block: &[u8; $bytes], values: &mut [f32; $elems]) {
                decode_block(block, values);
            }
            for (block, values) in src.as_chunks().0.iter().zip(dst.as_chunks_mut().0) {
                if $elems == 1 { decode_block(block, values) } else { one(block, values) }
            }
        }
    };
}

/// Declares the modules and collects them.
macro_rules! list {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every format, in the order of the list.
        pub fn formats() -> &'static [FormatRef] {
            static FORMATS: &[FormatRef] = &[$(&$module::FORMAT),*];
            FORMATS
        }
    };
}

list![f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, mxfp4, iq4_nl, iq4_xs,];

/// The format with this ggml id; `None` where there is none here.
pub fn by_ggml_type(id: u32) -> Option<FormatRef> {
    formats().iter().copied().find(|f| f.ggml_type == id)
}

/// The format of this name, as [`crate::Format::name`] spells it, in any case.
pub fn by_name(name: &str) -> Option<FormatRef> {
    formats().iter().copied().find(|f| f.name.eq_ignore_ascii_case(name))
}
