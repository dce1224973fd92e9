//! Products whose lanes decode the weights that their matrices multiply (`gemm_lanes.comp`): weights go from memory to registers, and only x is shared.
//!
//! # Budget
//!
//! On an H200 a tile of 128 × 128 with 64 × 64 a subgroup multiplies a step of 64 in 955 cycles of a multiprocessor and moves 48 KiB through shared memory for it, 384
//! cycles. Measured with parts left out (4,096 × 12,288 in Q4_K, 2,048 columns, TFLOP/s): products from shared memory alone 494, without barriers 574 as from registers; with
//! decoding 288. It is the pause between barriers, in which a subgroup decodes and does not multiply, and two workgroups a multiprocessor do not
//! fill each other's. Decoded in lanes, 33 instructions of a subgroup go before 64 of its 16 × 8 products, in between: 300 with a step of 32 in shared
//! memory, 334 with 64.

use super::{GemmShape, Matrix, Tile};
use crate::launch::Launch;
use crate::{Error, Kernel, Kernels};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, MemoryKind, RecorderOptions};

pub(super) const KERNEL: Kernel = Kernel { stem: "lanes", bindings: 1, params_bytes: 0 };

/// Lanes of a subgroup.
const LANES: u32 = 32;
/// Elements of a lane.
const EACH: u32 = 8;

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

/// The policy's tiles, where the device's matrices allow them.
pub(crate) fn allowed(kernels: &Kernels) -> &'static [GemmShape] {
    let shapes = kernels.policy().gemm.lanes;
    let sixteen = super::matrix_of(kernels.caps()) == Matrix::Khr { m: 16, n: 16, k: 16 };
    // A device that cannot say is not one of them.
    let ours = || elements(kernels).is_ok_and(|found| (0..).zip(&found).all(|(i, &e)| e == element(i)));
    if !shapes.is_empty() && sixteen && kernels.subgroup_size() == LANES && ours() { shapes } else { &[] }
}

/// The element that lane i / 8 is to have at i % 8, numbered by rows.
fn element(i: u32) -> f32 {
    let (lane, e) = (i / EACH, i % EACH);
    let (row, column) = (lane / 4 + e / 4 * 8, lane % 4 * 2 + e % 2 + e / 2 % 2 * 8);
    (16 * row + column) as f32
}

/// The elements that lanes do have.
fn elements(kernels: &Kernels) -> Result<Vec<f32>, Error> {
    let device = kernels.device();
    let bytes = u64::from(4 * LANES * EACH);
    let out = device.alloc(MemoryKind::Device, bytes, "lanes")?.all();
    let mut rec = device.recorder(&RecorderOptions { label: "lanes".into(), ..Default::default() })?;
    kernels.launch(
        &mut rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, LANES)],
            bindings: &[Binding::write(&out)],
            params: &[],
            groups: [1, 1, 1],
            label: "lanes",
        },
    )?;
    device.submit(&[&rec.finish()?])?.wait()?;
    let bytes = device.download(&out)?;
    Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
}
