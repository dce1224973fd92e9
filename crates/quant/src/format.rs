//! What every block format has, and how rows of blocks are read, written and laid out on the device.

use std::fmt;
use std::hash::{Hash, Hasher};

/// One quantised block format. Plain data; two formats are equal when their ggml ids are.
pub struct Format {
    /// The name as ggml and GGUF files spell it: `Q4_K`.
    pub name: &'static str,
    /// ggml's id of the type.
    pub ggml_type: u32,
    /// Elements in a block.
    pub block_elems: usize,
    /// Bytes in a block, as in the file.
    pub block_bytes: usize,
    /// Decodes exactly one block: `block_bytes` bytes to `block_elems` values. Panics where a slice has another length.
    pub decode: fn(&[u8], &mut [f32]),
    /// Encodes exactly one block of finite values by rounding to nearest. Panics where a slice has another length.
    pub encode: fn(&[f32], &mut [u8]),
    /// How a block is split on the device. The planes cover every byte of the block once.
    pub planes: &'static [Plane],
    /// GLSL that decodes the format.
    pub glsl: &'static str,
    /// Elements that a lane of a shader decodes at a time: `CHUNK` of the GLSL.
    pub chunk: u32,
    /// Elements of a run: what of a chunk lies side by side and shares a scale.
    pub run: u32,
    /// Decodes whole blocks: the loop over blocks with the decoder inlined.
    pub(crate) decode_blocks: fn(&[u8], &mut [f32]),
}

/// A format of the list; there is one instance of each.
pub type FormatRef = &'static Format;

/// A byte range of every block, or pieces of it at equal distances.
///
/// On the device a row is stored plane by plane: plane 0 of all blocks, padding to 16 bytes, plane 1 of all blocks, padding, and
/// so on. Each plane is then read with aligned wide loads, also where the block's own size is odd. A row begins at a
/// multiple of [`Format::device_row_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// First byte within the block.
    pub offset: usize,
    /// Bytes of the block that belong to the plane.
    pub len: usize,
    /// Bytes of a piece, of which the plane has a whole number.
    pub piece: usize,
    /// From a piece's first byte to the next one's.
    pub step: usize,
}

impl Plane {
    /// The bytes `first` to `end`.
    pub(crate) const fn range(first: usize, end: usize) -> Plane {
        let len = end - first;
        Plane { offset: first, len, piece: len, step: len }
    }

    /// Of the range the first `piece` of each `step` bytes.
    pub(crate) const fn by(self, piece: usize, step: usize) -> Plane {
        Plane { len: self.len.div_ceil(step) * piece, piece, step, ..self }
    }

    /// The first bytes of the pieces within a block.
    pub fn pieces(&self) -> impl Iterator<Item = usize> + use<> {
        let Plane { offset, len, piece, step } = *self;
        (0..len / piece).map(move |i| offset + i * step)
    }
}

/// Planes begin at multiples of this many bytes: the widest load of a shader.
const PLANE_ALIGN: usize = 16;

impl Format {
    /// Blocks in a row of `k` elements. Panics where `k` is no multiple of the block.
    pub fn row_blocks(&self, k: usize) -> usize {
        assert!(k.is_multiple_of(self.block_elems), "a row of {k} elements is not whole blocks of {self}");
        k / self.block_elems
    }

    /// Bytes of a row of `k` elements in a file. Panics where `k` is no multiple of the block.
    pub fn row_bytes(&self, k: usize) -> usize {
        self.row_blocks(k) * self.block_bytes
    }

    /// Decodes whole blocks, a row or a part of one. Panics where the lengths do not belong together.
    pub fn decode_row(&self, src: &[u8], dst: &mut [f32]) {
        assert_eq!(src.len(), self.row_bytes(dst.len()), "bytes of {} elements of {self}", dst.len());
        (self.decode_blocks)(src, dst);
    }

    /// Encodes whole blocks of finite values. Panics where the lengths do not belong together.
    pub fn encode_row(&self, src: &[f32], dst: &mut [u8]) {
        assert_eq!(dst.len(), self.row_bytes(src.len()), "bytes of {} elements of {self}", src.len());
        for (x, block) in src.chunks_exact(self.block_elems).zip(dst.chunks_exact_mut(self.block_bytes)) {
            (self.encode)(x, block);
        }
    }

    /// Bytes of a row of `k` elements on the device: the planes, each padded to 16 bytes.
    pub fn device_row_bytes(&self, k: usize) -> usize {
        self.plane_offset(self.planes.len(), k)
    }

    /// Where plane number `plane` begins in a device row of `k` elements, in bytes.
    pub fn plane_offset(&self, plane: usize, k: usize) -> usize {
        let blocks = self.row_blocks(k);
        self.planes[..plane].iter().map(|p| (blocks * p.len).next_multiple_of(PLANE_ALIGN)).sum()
    }

    /// Lays a row of `k` elements out for the device. `src` is the row as in the file, `dst` has [`Format::device_row_bytes`]
    /// bytes; padding becomes zero. Panics on other lengths.
    pub fn pack_row(&self, src: &[u8], k: usize, dst: &mut [u8]) {
        assert_eq!(src.len(), self.row_bytes(k), "bytes of a row of {k} elements of {self}");
        assert_eq!(dst.len(), self.device_row_bytes(k), "device bytes of a row of {k} elements of {self}");
        let mut rest = dst;
        for plane in self.planes {
            let used = self.row_blocks(k) * plane.len;
            let (out, tail) = rest.split_at_mut(used.next_multiple_of(PLANE_ALIGN));
            rest = tail;
            out[used..].fill(0);
            if plane.len == self.block_bytes {
                out[..used].copy_from_slice(src);
                continue;
            }
            for (to, block) in out.chunks_exact_mut(plane.len).zip(src.chunks_exact(self.block_bytes)) {
                // Pieces are the widest loads: a copy of known length.
                if plane.piece == PLANE_ALIGN {
                    for (to, at) in to.as_chunks_mut::<PLANE_ALIGN>().0.iter_mut().zip(plane.pieces()) {
                        to.copy_from_slice(&block[at..at + PLANE_ALIGN]);
                    }
                    continue;
                }
                for (to, at) in to.chunks_exact_mut(plane.piece).zip(plane.pieces()) {
                    to.copy_from_slice(&block[at..at + plane.piece]);
                }
            }
        }
    }

    /// The inverse of [`Format::pack_row`]. Panics on other lengths.
    pub fn unpack_row(&self, src: &[u8], k: usize, dst: &mut [u8]) {
        assert_eq!(src.len(), self.device_row_bytes(k), "device bytes of a row of {k} elements of {self}");
        assert_eq!(dst.len(), self.row_bytes(k), "bytes of a row of {k} elements of {self}");
        for (i, plane) in self.planes.iter().enumerate() {
            let from = src[self.plane_offset(i, k)..].chunks_exact(plane.len);
            for (block, from) in dst.chunks_exact_mut(self.block_bytes).zip(from) {
                for (from, at) in from.chunks_exact(plane.piece).zip(plane.pieces()) {
                    block[at..at + plane.piece].copy_from_slice(from);
                }
            }
        }
    }
}

/// The number that `glsl` defines by `#define NAME `; without one the format does not compile.
pub(crate) const fn number_of(glsl: &str, define: &str) -> u32 {
    let (text, name) = (glsl.as_bytes(), define.as_bytes());
    let mut at = 0;
    loop {
        let mut same = 0;
        while same < name.len() && text[at + same] == name[same] {
            same += 1;
        }
        if same == name.len() {
            break;
        }
        at += 1;
    }
    at += name.len();
    let mut number = 0;
    while text[at].is_ascii_digit() {
        number = 10 * number + (text[at] - b'0') as u32;
        at += 1;
    }
    assert!(number > 0);
    number
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.ggml_type == other.ggml_type
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ggml_type.hash(state);
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
