//! The tensor types that a GGUF file may name, as far as the container cares: how many bytes a row takes.

use std::fmt;

/// A tensor type with a known block size. Whether its blocks can be decoded is another crate's matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GgmlType(u32);

struct Known {
    id: u32,
    name: &'static str,
    elems: u32,
    bytes: u32,
}

/// Id, name, elements and bytes of a block. Ids 31 to 33 and 36 to 38 were interleaved layouts that ggml has removed; old files
/// still carry them.
#[rustfmt::skip]
const KNOWN: &[Known] = {
    const fn k(id: u32, name: &'static str, elems: u32, bytes: u32) -> Known {
        Known { id, name, elems, bytes }
    }
    &[
        k(0, "F32", 1, 4),
        k(1, "F16", 1, 2),
        k(2, "Q4_0", 32, 18),
        k(3, "Q4_1", 32, 20),
        k(6, "Q5_0", 32, 22),
        k(7, "Q5_1", 32, 24),
        k(8, "Q8_0", 32, 34),
        k(9, "Q8_1", 32, 36),
        k(10, "Q2_K", 256, 84),
        k(11, "Q3_K", 256, 110),
        k(12, "Q4_K", 256, 144),
        k(13, "Q5_K", 256, 176),
        k(14, "Q6_K", 256, 210),
        k(15, "Q8_K", 256, 292),
        k(16, "IQ2_XXS", 256, 66),
        k(17, "IQ2_XS", 256, 74),
        k(18, "IQ3_XXS", 256, 98),
        k(19, "IQ1_S", 256, 50),
        k(20, "IQ4_NL", 32, 18),
        k(21, "IQ3_S", 256, 110),
        k(22, "IQ2_S", 256, 82),
        k(23, "IQ4_XS", 256, 136),
        k(24, "I8", 1, 1),
        k(25, "I16", 1, 2),
        k(26, "I32", 1, 4),
        k(27, "I64", 1, 8),
        k(28, "F64", 1, 8),
        k(29, "IQ1_M", 256, 56),
        k(30, "BF16", 1, 2),
        k(31, "Q4_0_4_4", 32, 18),
        k(32, "Q4_0_4_8", 32, 18),
        k(33, "Q4_0_8_8", 32, 18),
        k(34, "TQ1_0", 256, 54),
        k(35, "TQ2_0", 256, 66),
        k(36, "IQ4_NL_4_4", 32, 18),
        k(37, "IQ4_NL_4_8", 32, 18),
        k(38, "IQ4_NL_8_8", 32, 18),
        k(39, "MXFP4", 32, 17),
        k(40, "NVFP4", 64, 36),
        k(41, "Q1_0", 128, 18),
    ]
};

impl GgmlType {
    /// 32-bit floats.
    pub const F32: GgmlType = GgmlType(0);
    /// 16-bit floats.
    pub const F16: GgmlType = GgmlType(1);

    /// The type with this id, where it is known.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        KNOWN.iter().any(|k| k.id == id).then_some(GgmlType(id))
    }

    /// All known types.
    pub fn known() -> impl Iterator<Item = GgmlType> {
        KNOWN.iter().map(|k| GgmlType(k.id))
    }

    fn entry(self) -> &'static Known {
        KNOWN.iter().find(|k| k.id == self.0).expect("only known ids are constructed")
    }

    /// ggml's number of the type.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The name, as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Elements in a block.
    pub fn block_elems(self) -> u64 {
        self.entry().elems.into()
    }

    /// Bytes in a block.
    pub fn block_bytes(self) -> u64 {
        self.entry().bytes.into()
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
