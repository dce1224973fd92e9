//! Embedding rows and copying rows.

use super::KERNELS;
use crate::gemv::Weights;
use crate::{Error, Kernels, Mat, Unsupported, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Dispatch, Recorder, Slice};

/// Bytes of a `RowInfo`: token, position, sequence, flags.
const ROW_INFO: u64 = 16;
/// The largest chunk of any format's GLSL, in elements; a row has as many invocations as the smallest, 16, would give.
const SMALLEST_CHUNK: u32 = 16;

/// `out[i] = table[rows[i].token] · scale`.
#[derive(Debug, Clone, Copy)]
pub struct EmbedArgs<'a> {
    /// The table; a token beyond its rows reads its last one.
    pub table: Weights<'a>,
    /// A `RowInfo` for each row.
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
    let rows = args.rows.slice(0, ROW_INFO * u64::from(args.count))?;
    let out = args.out.bytes(args.count)?;
    let params = EmbedParams {
        count: args.count,
        m,
        k,
        row_bytes: row_bytes as u32,
        result_stride: args.out.stride,
        scale: args.scale,
    };
    let bindings = [Binding::read(&table), Binding::read(&rows), Binding::write(&out)];
    let invocations = u64::from(args.count) * u64::from(k.div_ceil(SMALLEST_CHUNK));
    let variant = [("FORMAT", format.name)];
    dispatch(kernels, rec, label, 0, &variant, &bindings, bytemuck::bytes_of(&params), invocations)
}

/// Records a copy of chosen rows.
///
/// # Errors
/// [`Unsupported`] where the shapes do not fit, else what the recorder says.
pub fn copy_rows(kernels: &Kernels, rec: &mut Recorder, label: &str, args: &CopyArgs<'_>) -> Result<(), Error> {
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
    let bindings = [Binding::read(&x), Binding::read(&indices), Binding::write(&out)];
    let invocations = u64::from(args.count) * u64::from(args.x.width);
    dispatch(kernels, rec, label, 1, &[], &bindings, bytemuck::bytes_of(&params), invocations)
}

/// A dispatch of independent invocations.
#[allow(clippy::too_many_arguments)]
fn dispatch(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    kernel: usize,
    variant: &[(&str, &str)],
    bindings: &[Binding<'_>],
    params: &[u8],
    invocations: u64,
) -> Result<(), Error> {
    let size = kernels.subgroup_size().max(64);
    let pipeline = kernels.pipeline(&KERNELS[kernel], variant, &[(0, size)])?;
    let groups = u32::try_from(invocations.div_ceil(u64::from(size))).map_err(|_| Unsupported {
        op: KERNELS[kernel].stem,
        format: None,
        reason: format!("{invocations} elements at once"),
    })?;
    let [gx, gy] = fold_groups(groups);
    rec.dispatch(&Dispatch { pipeline: &pipeline, bindings, params, groups: [gx, gy, 1], label })?;
    Ok(())
}
