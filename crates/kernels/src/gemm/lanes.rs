//! Products whose lanes decode the weights that their matrices multiply (`gemm_lanes.comp`): weights go from memory to registers, and only x is shared.
//!
//! # Budget
//!
//! On an H200 a tile of 128 × 128 with 64 × 64 a subgroup multiplies a step of 64 in 955 cycles of a multiprocessor and moves 48 KiB through shared memory for it, 384
//! cycles. Measured with parts left out (4,096 × 12,288 in Q4_K, 2,048 columns, TFLOP/s): products from shared memory alone 494, without barriers 574 as from registers; with
//! decoding 288. It is the pause between barriers, in which a subgroup decodes and does not multiply, and two workgroups a multiprocessor do not
//! fill each other's. Decoded in lanes, 33 instructions of a subgroup go before 64 of its 16 × 8 products, in between: 300 with a step of 32 in shared
//! memory, 334 with 64.

use super::Tile;
use crate::lanes::LANES;
use zinc_quant::FormatRef;

/// Whether `gemm_lanes.comp` can have a tile, but for what holds for all tiles.
pub(super) fn check(tile: &Tile, subgroup_size: u32, format: FormatRef, gated: bool) -> Result<(), String> {
    let matrices = if gated { 2 } else { 1 };
    let &Tile { rows, columns, step, sub_columns, buffers, .. } = tile;
    if crate::shader("gemm_lanes", &[("FORMAT", format.name)]).is_none() {
        return Err(format!("no lanes share chunks of {format}"));
    }
    let threads = tile.threads(subgroup_size);
    let fits = subgroup_size == LANES && sub_columns == columns && step == 64 && buffers == 2;
    match fits && matrices * rows <= threads && (8 * columns).is_multiple_of(threads) {
        true => Ok(()),
        false => Err(format!("{tile:?} is none for lanes that decode")),
    }
}
