//! The dispatch.

use super::{KERNELS, Tile};
use crate::gemv::{Args, Gate, Operands, variant};
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
    let format = args.weights.format;
    if let Err(reason) = tile.check(kernels.subgroup_size()) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let operands = Operands::of(args)?;
    let flag = u32::from;
    let [staged, scales] = tile.shared(format);
    let specialization = [
        (0, tile.subgroups * kernels.subgroup_size()),
        (1, tile.rows),
        (2, tile.columns),
        (3, tile.lanes),
        (4, tile.bytes),
        (5, tile.stage),
        (6, flag(args.x.is_vec4(args.columns))),
        (7, flag(args.epilogue.bias.is_some())),
        (8, flag(args.epilogue.residual.is_some())),
        (9, flag(matches!(args.up, Some((Gate::GeGlu, _))))),
        (10, flag(tile.ahead)),
        (11, tile.pitch()),
        (12, staged),
        (13, scales),
    ];
    let pipeline = kernels.pipeline(&KERNELS[0], &variant(args), &specialization)?;
    let batches = args.weights.m.div_ceil(tile.batch_rows(kernels.subgroup_size()));
    // With x in several parts a workgroup takes one batch of rows.
    let whole = tile.stage * tile.lanes >= args.weights.k.div_ceil(format.chunk);
    let groups = if whole { batches.div_ceil(tile.batches) } else { batches };
    operands.dispatch(rec, label, &pipeline, groups, tile.columns)
}
