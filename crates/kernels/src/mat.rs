//! Activations: columns of rows in memory.

use zinc_vulkan::{Error, Slice};

/// Bytes of an element.
const F32: u64 = 4;

/// Columns of an f32 activation bound to memory: `rows` rows of `width` elements, `stride` elements apart.
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a> {
    /// The buffer that holds the rows.
    pub slice: &'a Slice,
    /// Where the first row's first column lies in it, in elements.
    pub offset: u32,
    /// Elements from one row to the next.
    pub stride: u32,
    /// Columns.
    pub width: u32,
}

impl<'a> Mat<'a> {
    /// All of a slice as rows of `width` elements without gaps.
    pub fn dense(slice: &'a Slice, width: u32) -> Mat<'a> {
        Mat { slice, offset: 0, stride: width, width }
    }

    /// The bytes from the first element of row 0 to the last element of row `rows − 1`: what a dispatch binds.
    ///
    /// # Errors
    /// Where the buffer is shorter than that.
    pub fn bytes(&self, rows: u32) -> Result<Slice, Error> {
        self.rows(0, rows)
    }

    /// As [`Mat::bytes`], for rows `first .. first + rows`.
    ///
    /// # Errors
    /// Where the buffer is shorter than that.
    pub fn rows(&self, first: u32, rows: u32) -> Result<Slice, Error> {
        let start = u64::from(self.offset) + u64::from(first) * u64::from(self.stride);
        let len = match rows {
            0 => 0,
            _ => u64::from(rows - 1) * u64::from(self.stride) + u64::from(self.width),
        };
        self.slice.slice(start * F32, len * F32)
    }

    /// Whether every row begins at a multiple of 16 bytes, so that it may be read by `vec4`. `rows` is their number.
    pub fn is_vec4(&self, rows: u32) -> bool {
        let first = self.slice.address() + u64::from(self.offset) * F32;
        first.is_multiple_of(16) && (rows <= 1 || self.stride.is_multiple_of(4))
    }
}

/// `n` workgroups in x and y where a dimension holds 65,535: the shader's `folded_group()` may reach beyond `n`.
pub fn fold_groups(n: u32) -> [u32; 2] {
    const MAX: u32 = 65_535;
    let y = n.div_ceil(MAX);
    [if y <= 1 { n } else { n.div_ceil(y) }, y]
}
