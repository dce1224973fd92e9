//! The dispatch.

use super::{KERNELS, Tile};
use crate::gemv::{Args, ExpertArgs, Operands};
use crate::{Error, Kernels, Unsupported};
use zinc_vulkan::Recorder;

/// Records a product with a tile of [`select`](super::select) or [`candidates`](super::candidates).
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: Tile,
) -> Result<(), Error> {
    record_columns(kernels, rec, label, &Operands::of(args, tile.columns)?, tile)
}

/// Records a product of slots with a tile of [`select_experts`](super::select_experts).
///
/// # Errors
/// As [`record`].
pub fn record_experts(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ExpertArgs<'_>,
    tile: Tile,
) -> Result<(), Error> {
    record_columns(kernels, rec, label, &Operands::of_experts(args, tile.columns)?, tile)
}

fn record_columns(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    operands: &Operands,
    tile: Tile,
) -> Result<(), Error> {
    let (format, m, k) = (operands.format, operands.params.m, operands.params.k);
    if let Err(reason) = tile.check(kernels.subgroup_size()) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let flag = u32::from;
    let [staged, scales] = tile.shared(format);
    // With all of x in the stage a workgroup takes several batches of rows, and can norm x.
    let whole = tile.holds(format, k);
    if operands.norm.is_some() && !whole {
        let reason = format!("a norm of {k} columns, of which a part is staged at a time");
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let blocks = if operands.norm.is_some() { tile.squares(format) } else { 1 };
    let specialization = [
        (0, tile.subgroups * kernels.subgroup_size()),
        (1, tile.rows),
        (2, tile.columns),
        (3, tile.lanes),
        (4, tile.bytes),
        (5, tile.stage),
        (6, flag(operands.aligned)),
        (7, flag(operands.bias.is_some())),
        (8, flag(operands.has_residual())),
        (9, operands.activation()),
        (10, flag(tile.ahead)),
        (11, tile.pitch()),
        (12, staged),
        (13, scales),
        (14, operands.experts_mode()),
        (15, if operands.experts.is_some() { tile.columns } else { 1 }),
        (16, flag(operands.norm.is_some())),
        (17, if operands.norm.is_some() { tile.columns * blocks } else { 1 }),
        (18, blocks),
        (19, flag(whole)),
        (20, flag(operands.sublayer.is_some())),
        (21, flag(operands.sublayer.as_ref().is_some_and(|s| s.scale.is_some()))),
        (22, flag(operands.sublayer.as_ref().is_some_and(|s| s.out.is_some()))),
    ];
    let batches = m.div_ceil(tile.batch_rows(kernels.subgroup_size()));
    let groups = if whole { batches.div_ceil(tile.batches) } else { batches };
    operands.dispatch_normed(kernels, rec, label, (&KERNELS[0], &specialization), groups)
}
