//! The dispatch of kernels that take a tile of rows: `attention_tiled.comp`, and `attention_matrix.comp` on matrix cores.

use super::Tile;
use super::attention::Args;
use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Access, Binding, Recorder};

pub(super) const KERNEL: Kernel = kernel("attention_tiled");

/// A kernel that takes a tile of rows.
pub(super) const fn kernel(stem: &'static str) -> Kernel {
    Kernel { stem, bindings: 7, params_bytes: size_of::<Params>() as u32 }
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    q_stride: u32,
    out_stride: u32,
    rows: u32,
    kv_heads: u32,
    group: u32,
    max_pages: u32,
    window: u32,
    /// Factor of q·k.
    scale: f32,
    /// Soft cap of the scores; 0: none.
    cap: f32,
    has_sinks: u32,
}

/// How all rows are taken in tiles.
pub(super) struct Tiles<'a> {
    pub kernel: &'static Kernel,
    pub specialization: &'a [(u32, u32)],
    /// Rows of a tile.
    pub rows: u32,
    /// Workgroups that share out the heads of a KV head.
    pub splits: u32,
    /// Factor of q·k, and soft cap, as the kernel counts scores.
    pub scores: (f32, f32),
    /// What the kernel does to the result's memory.
    pub out: Access,
}

/// Records the kernel of invocations for all rows.
pub(super) fn record(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: &Tile,
) -> Result<(), Error> {
    let tiles = Tiles {
        kernel: &KERNEL,
        specialization: &tile.specialization(&args.shape(), is_vec4(args)),
        rows: tile.rows(),
        splits: tile.splits,
        scores: (args.scale, args.softcap.unwrap_or(0.0)),
        out: Access::ReadWrite,
    };
    record_tiles(k, rec, label, args, &tiles)
}

/// Whether queries and results may be read and written by `vec4`.
pub(super) fn is_vec4(args: &Args<'_>) -> bool {
    args.q.is_vec4(args.rows) && args.out.is_vec4(args.rows)
}

/// Records a kernel for all rows.
pub(super) fn record_tiles(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    by: &Tiles<'_>,
) -> Result<(), Error> {
    let (cache, rows) = (&args.cache, args.rows);
    let tiles = rows.div_ceil(by.rows);
    if tiles > 65_535 {
        return Ok(refuse("attention", format!("{rows} rows in tiles of {}", by.rows))?);
    }
    let (scale, cap) = by.scores;
    let params = Params {
        q_stride: args.q.stride,
        out_stride: args.out.stride,
        rows,
        kv_heads: cache.kv_heads,
        group: args.shape().group(),
        max_pages: cache.max_pages,
        window: args.window.unwrap_or(0),
        scale,
        cap,
        has_sinks: u32::from(args.sinks.is_some()),
    };
    k.launch(
        rec,
        &Launch {
            kernel: by.kernel,
            variant: &[("KV", cache.kind.name())],
            specialization: by.specialization,
            bindings: &[
                Binding::read(&args.q.bytes(rows)?),
                Binding::read(cache.k),
                Binding::read(cache.v),
                Binding::read(args.row_info),
                Binding::read(cache.pages),
                Binding::read(args.sinks.unwrap_or(args.row_info)),
                Binding { slice: &args.out.bytes(rows)?, access: by.out },
            ],
            params: bytemuck::bytes_of(&params),
            groups: [tiles, cache.kv_heads * by.splits, 1],
            label,
        },
    )
}
