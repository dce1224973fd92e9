//! The dispatch of `attention_tiled.comp`.

use super::Tile;
use super::attention::Args;
use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "attention_tiled", bindings: 7, params_bytes: size_of::<Params>() as u32 };

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
    scale: f32,
    softcap: f32,
    has_sinks: u32,
}

/// Records the kernel for all rows.
pub(super) fn record(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: &Tile,
) -> Result<(), Error> {
    let (cache, rows) = (&args.cache, args.rows);
    let tiles = rows.div_ceil(tile.rows());
    if tiles > 65_535 {
        return Ok(refuse("attention", format!("{rows} rows in tiles of {}", tile.rows()))?);
    }
    let params = Params {
        q_stride: args.q.stride,
        out_stride: args.out.stride,
        rows,
        kv_heads: cache.kv_heads,
        group: args.shape().group(),
        max_pages: cache.max_pages,
        window: args.window.unwrap_or(0),
        scale: args.scale,
        softcap: args.softcap.unwrap_or(0.0),
        has_sinks: u32::from(args.sinks.is_some()),
    };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &tile
                .specialization(&args.shape(), args.q.is_vec4(rows) && args.out.is_vec4(rows)),
            bindings: &[
                Binding::read(&args.q.bytes(rows)?),
                Binding::read(cache.k),
                Binding::read(cache.v),
                Binding::read(args.row_info),
                Binding::read(cache.pages),
                Binding::read(args.sinks.unwrap_or(args.row_info)),
                Binding::read_write(&args.out.bytes(rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [tiles, cache.kv_heads * tile.splits, 1],
            label,
        },
    )
}
