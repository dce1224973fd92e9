//! What the operations share: `elementwise.comp`.

use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "elementwise", bindings: 3, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    width: u32,
    a_stride: u32,
    b_stride: u32,
    out_stride: u32,
    flag: u32,
    first: u32,
    len: u32,
    alpha: f32,
    limit: f32,
}

/// The second operand.
#[derive(Clone, Copy)]
pub(super) enum Second<'a> {
    None,
    /// As wide as the output.
    Columns(Mat<'a>),
    /// One column.
    Column(Mat<'a>),
    /// Parts of wider columns, as [`Numbers`] say.
    Parts(Mat<'a>),
    /// An f32 a column of the output, for all rows.
    Row(&'a Slice),
    /// One f32.
    Element(&'a Slice),
}

/// Numbers of an operation, as the shader's push constants name them.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    pub flag: u32,
    pub first: u32,
    pub len: u32,
    pub alpha: f32,
    pub limit: f32,
}

/// An operation's operands.
pub(super) struct Elementwise<'a> {
    pub op: &'static str,
    /// Value of the shader's dimension `OP`.
    pub variant: &'static str,
    pub a: Mat<'a>,
    pub b: Second<'a>,
    pub out: Mat<'a>,
    pub rows: u32,
    pub numbers: Numbers,
}

/// Whether there can be `rows` rows of `width` columns.
///
/// # Errors
/// [`Unsupported`] where one dispatch does not reach all of them.
pub fn supports(op: &'static str, width: u32, rows: u32) -> Result<(), Unsupported> {
    groups_over(op, u64::from(rows) * u64::from(width.div_ceil(4)), 1).map(|_| ())
}

impl Elementwise<'_> {
    /// Refuses operands that are not as wide as the output.
    pub fn check_widths(&self) -> Result<(), Error> {
        let b = match self.b {
            Second::Columns(m) => m.width,
            Second::Column(m) if m.width != 1 => m.width,
            Second::Row(s) => (s.len() / 4).min(u64::from(self.out.width)) as u32,
            _ => self.out.width,
        };
        if self.a.width != self.out.width || b != self.out.width {
            let reason = format!("{} and {b} columns to {}", self.a.width, self.out.width);
            return Ok(refuse(self.op, reason)?);
        }
        Ok(())
    }

    pub fn record(&self, k: &Kernels, rec: &mut Recorder, label: &str) -> Result<(), Error> {
        let (a, out, rows, n) = (&self.a, &self.out, self.rows, self.numbers);
        let b_aligned = match self.b {
            Second::Columns(m) => m.is_vec4(rows),
            Second::Parts(m) => m.is_vec4(rows) && n.flag.is_multiple_of(4) && n.first.is_multiple_of(4),
            Second::Row(s) => is_vec4(s),
            Second::None | Second::Column(_) | Second::Element(_) => true,
        };
        let aligned = a.is_vec4(rows) && out.is_vec4(rows) && b_aligned && out.width.is_multiple_of(4);
        let bytes = a.bytes(rows)?;
        let (b, b_stride) = match self.b {
            Second::None => (bytes.clone(), 0),
            Second::Columns(m) | Second::Column(m) | Second::Parts(m) => (m.bytes(rows)?, m.stride),
            Second::Row(s) | Second::Element(s) => (s.clone(), 0),
        };
        let params = Params {
            rows,
            width: out.width,
            a_stride: a.stride,
            b_stride,
            out_stride: out.stride,
            flag: n.flag,
            first: n.first,
            len: n.len,
            alpha: n.alpha,
            limit: n.limit,
        };
        let threads = k.threads(128);
        let chunks = u64::from(rows) * u64::from(out.width.div_ceil(4));
        k.launch(
            rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("OP", self.variant)],
                specialization: &[(0, threads), (1, u32::from(aligned))],
                bindings: &[Binding::read(&bytes), Binding::read(&b), Binding::write(&out.bytes(rows)?)],
                params: bytemuck::bytes_of(&params),
                groups: groups_over(self.op, chunks, threads)?,
                label,
            },
        )
    }
}
