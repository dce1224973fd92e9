//! Stores the key and value heads of rows at their positions.

use super::KvCache;
use crate::launch::{Launch, groups_over, refuse};
use crate::{Error, Kernel, Kernels, Mat, RowInfo};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "kv_write", bindings: 6, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    kv_heads: u32,
    key_size: u32,
    value_size: u32,
    k_stride: u32,
    v_stride: u32,
    max_pages: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Key heads, `kv_heads · key_size` columns.
    pub k: Mat<'a>,
    /// Value heads, `kv_heads · value_size` columns.
    pub v: Mat<'a>,
    /// Where they go; f32 becomes f16 by rounding to nearest, ties to even, and blocks of q8_0 as GGML's reference has them.
    pub cache: KvCache<'a>,
    /// A [`RowInfo`] a row. The page table has the page of each row's position.
    pub row_info: &'a Slice,
    /// Rows.
    pub rows: u32,
}

/// Records the stores.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let (cache, rows) = (&args.cache, args.rows);
    cache.check("kv_write")?;
    let width = cache.kv_heads * (cache.key_size + cache.value_size);
    if args.k.width != cache.kv_heads * cache.key_size || args.v.width != cache.kv_heads * cache.value_size {
        let (k, v) = (args.k.width, args.v.width);
        return Ok(refuse("kv_write", format!("{k} and {v} columns for {width} of the cache"))?);
    }
    let params = Params {
        rows,
        kv_heads: cache.kv_heads,
        key_size: cache.key_size,
        value_size: cache.value_size,
        k_stride: args.k.stride,
        v_stride: args.v.stride,
        max_pages: cache.max_pages,
    };
    let row_info = args.row_info.slice(0, u64::from(rows) * RowInfo::BYTES)?;
    let (threads, aligned) = (k.threads(128), args.k.is_vec4(rows) && args.v.is_vec4(rows));
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &[(0, threads), (1, u32::from(aligned))],
            bindings: &[
                Binding::read(&args.k.bytes(rows)?),
                Binding::read(&args.v.bytes(rows)?),
                Binding::read(&row_info),
                Binding::read(cache.pages),
                Binding::write(cache.k),
                Binding::write(cache.v),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("kv_write", u64::from(rows) * u64::from(width / 8), threads)?,
            label,
        },
    )
}
