//! Activations in f16, as the products of matrices read them.

use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels, Mat, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "convert", bindings: 3, params_bytes: size_of::<Params>() as u32 };

/// Invocations of a workgroup at most, which has one row.
const THREADS: u32 = 256;
/// Groups of four elements that an invocation keeps at most: rows of 16,384 elements are read once.
const MOST_KEPT: u32 = 16;

/// `rows` rows of `k` elements in f16, each padded with zeros to a multiple of 64, then an f32 a row: what its elements are to be multiplied with.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// The memory that holds it.
    pub slice: &'a Slice,
    /// Where it begins in it, in bytes, at an address that is a multiple of 16: [`Packed::bytes_for`] bytes.
    pub offset: u64,
    /// Rows that it was made for.
    pub rows: u32,
    /// Elements of a row.
    pub k: u32,
}

impl<'a> Packed<'a> {
    /// What lies in an activation buffer of [`Packed::width`] columns, or of several times as many: so many packed rows for each of its rows.
    ///
    /// # Errors
    /// [`Unsupported`] where the buffer has another width.
    pub fn within(mat: Mat<'a>, rows: u32, k: u32) -> Result<Packed<'a>, Unsupported> {
        let whole = mat.width.is_multiple_of(Packed::width(k)) && (rows <= 1 || mat.stride == mat.width);
        let parts = mat.width / Packed::width(k);
        match rows.checked_mul(parts).filter(|&n| whole && n > 0) {
            Some(rows) => Ok(Packed { slice: mat.slice, offset: 4 * u64::from(mat.offset), rows, k }),
            None => refuse("convert", format!("{} columns for packed rows of {k}", mat.width)),
        }
    }

    /// Columns of f32 that a row takes, its factor included.
    pub fn width(k: u32) -> u32 {
        Packed::pitch(k) / 2 + 1
    }

    /// Elements from a row to the next.
    pub fn pitch(k: u32) -> u32 {
        k.next_multiple_of(64)
    }

    /// Where element `i` of a row lies in it: of each 16, elements 4t … 4t + 3 at 2t, 2t + 8, 2t + 1 and 2t + 9 (`packed_row.glsl`).
    pub fn place(i: usize) -> usize {
        let (word, byte) = (i % 16 / 4, i % 4);
        i / 16 * 16 + 2 * word + byte / 2 + byte % 2 * 8
    }

    /// Bytes of so many rows of `k` elements.
    pub fn bytes_for(rows: u32, k: u32) -> u64 {
        4 * u64::from(rows) * u64::from(Packed::width(k))
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.slice.address() + self.offset
    }

    /// All of it.
    ///
    /// # Errors
    /// Where the buffer is shorter.
    pub fn bytes(&self) -> Result<Slice, Error> {
        Ok(self.slice.slice(self.offset, Packed::bytes_for(self.rows, self.k))?)
    }

    /// The rows, and their factors.
    pub(super) fn parts(&self) -> Result<(Slice, Slice), Error> {
        let values = u64::from(self.rows) * 2 * u64::from(Packed::pitch(self.k));
        let all = self.bytes()?;
        Ok((all.slice(0, values)?, all.slice(values, 4 * u64::from(self.rows))?))
    }
}

/// A conversion.
#[derive(Debug, Clone, Copy)]
pub struct ConvertArgs<'a> {
    /// `out.rows` rows of `out.k` elements, or a part as many rows of several times as many elements: each is several packed rows.
    pub x: Mat<'a>,
    /// Where they go.
    pub out: Packed<'a>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Params {
    k: u32,
    x_stride: u32,
    pitch: u32,
    rows: u32,
    parts: u32,
}

/// Records a conversion.
///
/// # Errors
/// [`Unsupported`](crate::Unsupported) where widths differ or the packed rows are not aligned; else what the recorder says.
pub fn convert(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ConvertArgs<'_>,
) -> Result<(), Error> {
    let (x, Packed { rows, k, .. }) = (args.x, args.out);
    let parts = x.width / k.max(1);
    if parts == 0 || x.width != parts * k || !rows.is_multiple_of(parts) {
        return Ok(refuse("convert", format!("rows of {} elements for packed rows of {k}", x.width))?);
    }
    let x_rows = rows / parts;
    let elements = u64::from(rows) * u64::from(Packed::pitch(k));
    let elements = elements.max(u64::from(x_rows) * u64::from(x.stride));
    let (values, scales) = args.out.parts()?;
    if !values.address().is_multiple_of(16) || elements > u64::from(u32::MAX) {
        return Ok(refuse("convert", format!("{rows} rows that are not aligned, or beyond 2^32 elements"))?);
    }
    let params = Params { k, x_stride: x.stride, pitch: Packed::pitch(k) / 4, rows, parts };
    let [gx, gy] = fold_groups(rows);
    let threads = kernels.threads(THREADS.min(Packed::pitch(k) / 4));
    let kept = params.pitch.div_ceil(threads);
    kernels.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[
                (0, threads),
                (1, u32::from(x.is_vec4(x_rows) && (parts == 1 || k.is_multiple_of(4)))),
                (2, if kept <= MOST_KEPT { kept } else { 0 }),
            ],
            bindings: &[Binding::read(&x.bytes(x_rows)?), Binding::write(&values), Binding::write(&scales)],
            params: bytemuck::bytes_of(&params),
            groups: [gx, gy, 1],
            label,
        },
    )
}
