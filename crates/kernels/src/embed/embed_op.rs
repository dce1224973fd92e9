//! Embedding rows and copying rows.

use super::KERNELS;
use crate::gemv::Weights;
use crate::launch::{Launch, groups_over};
use crate::{Error, Kernels, Mat, RowInfo, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Recorder, Slice};

/// Invocations of a workgroup; they do not work together.
const WORKGROUP: u32 = 64;
/// Elements of the smallest chunk of any format's GLSL; formats with larger ones leave invocations idle.
const SMALLEST_CHUNK: u32 = 16;

/// `out[i] = table[rows[i].token] · scale`.
#[derive(Debug, Clone, Copy)]
pub struct EmbedArgs<'a> {
    /// The table; a token beyond its rows reads its last one.
    pub table: Weights<'a>,
    /// A [`RowInfo`] for each row.
    pub rows: &'a Slice,
    /// Number of rows.
    pub count: u32,
    /// Factor.
    pub scale: f32,
    /// `count` rows of `k` elements.
    pub out: Mat<'a>,
}

/// `out[i] = x[indices[i]]`.
#[derive(Debug, Clone, Copy)]
pub struct CopyArgs<'a> {
    /// The rows to choose from.
    pub x: Mat<'a>,
    /// Their number; an index beyond reads the last one.
    pub rows: u32,
    /// A u32 for each row of the result.
    pub indices: &'a Slice,
    /// Rows of the result.
    pub count: u32,
    /// `count` rows as wide as `x`.
    pub out: Mat<'a>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct EmbedParams {
    count: u32,
    m: u32,
    k: u32,
    row_bytes: u32,
    result_stride: u32,
    scale: f32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct CopyParams {
    count: u32,
    rows: u32,
    width: u32,
    x_stride: u32,
    result_stride: u32,
}

/// Whether a table of rows of `k` elements can be read.
///
/// # Errors
/// [`Unsupported`] where `k` is not whole blocks.
pub fn supports(format: FormatRef, k: u32) -> Result<(), Unsupported> {
    if k > 0 && (k as usize).is_multiple_of(format.block_elems) {
        return Ok(());
    }
    let reason = format!("rows of {k} elements are not whole blocks of {}", format.block_elems);
    Err(Unsupported { op: "embed", format: Some(format.name), reason })
}

/// Records an embedding.
///
/// # Errors
/// [`Unsupported`] where the shapes do not fit, else what the recorder says.
pub fn embed(kernels: &Kernels, rec: &mut Recorder, label: &str, args: &EmbedArgs<'_>) -> Result<(), Error> {
    let Weights { slice, format, m, k } = args.table;
    supports(format, k)?;
    if args.out.width != k {
        let reason = format!("a result of {} columns for rows of {k}", args.out.width);
        return Err(Unsupported { op: "embed", format: Some(format.name), reason }.into());
    }
    let row_bytes = format.device_row_bytes(k as usize) as u64;
    let table = slice.slice(0, row_bytes * u64::from(m))?;
    let rows = args.rows.slice(0, RowInfo::BYTES * u64::from(args.count))?;
    let out = args.out.bytes(args.count)?;
    let params = EmbedParams {
        count: args.count,
        m,
        k,
        row_bytes: row_bytes as u32,
        result_stride: args.out.stride,
        scale: args.scale,
    };
    let size = kernels.threads(WORKGROUP);
    let invocations = u64::from(args.count) * u64::from(k.div_ceil(SMALLEST_CHUNK));
    kernels.launch(
        rec,
        &Launch {
            kernel: &KERNELS[0],
            variant: &[("FORMAT", format.name)],
            specialization: &[(0, size)],
            bindings: &[Binding::read(&table), Binding::read(&rows), Binding::write(&out)],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("embed", invocations, size)?,
            label,
        },
    )
}

/// Records a copy of chosen rows.
///
/// # Errors
/// [`Unsupported`] where the shapes do not fit, else what the recorder says.
pub fn copy_rows(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &CopyArgs<'_>,
) -> Result<(), Error> {
    if args.x.width != args.out.width {
        let reason = format!("{} columns into {}", args.x.width, args.out.width);
        return Err(Unsupported { op: "copy_rows", format: None, reason }.into());
    }
    let x = args.x.bytes(args.rows)?;
    let indices = args.indices.slice(0, 4 * u64::from(args.count))?;
    let out = args.out.bytes(args.count)?;
    let params = CopyParams {
        count: args.count,
        rows: args.rows,
        width: args.x.width,
        x_stride: args.x.stride,
        result_stride: args.out.stride,
    };
    let size = kernels.threads(WORKGROUP);
    let invocations = u64::from(args.count) * u64::from(args.x.width);
    kernels.launch(
        rec,
        &Launch {
            kernel: &KERNELS[1],
            variant: &[],
            specialization: &[(0, size)],
            bindings: &[Binding::read(&x), Binding::read(&indices), Binding::write(&out)],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("copy_rows", invocations, size)?,
            label,
        },
    )
}
