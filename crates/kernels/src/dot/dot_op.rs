//! The dispatch.

use super::{KERNELS, Tile};
use crate::gemv::{Args, Gate, Operands, variant};
use crate::launch::is_vec4;
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
    // With all of x in the stage a workgroup takes several batches of rows, and can norm x.
    let whole = tile.holds(format, args.weights.k);
    if args.norm.is_some() && !whole {
        let reason = format!("a norm of {} columns, of which a part is staged at a time", args.weights.k);
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let blocks = if args.norm.is_some() { tile.squares(format) } else { 1 };
    let specialization = [
        (0, tile.subgroups * kernels.subgroup_size()),
        (1, tile.rows),
        (2, tile.columns),
        (3, tile.lanes),
        (4, tile.bytes),
        (5, tile.stage),
        (6, flag(args.x.is_vec4(args.columns) && args.norm.is_none_or(|n| is_vec4(n.weight)))),
        (7, flag(args.epilogue.bias.is_some())),
        (8, flag(args.epilogue.residual.is_some())),
        (9, flag(matches!(args.up, Some((Gate::GeGlu, _))))),
        (10, flag(tile.ahead)),
        (11, tile.pitch()),
        (12, staged),
        (13, scales),
        (16, flag(args.norm.is_some())),
        (17, if args.norm.is_some() { tile.columns * blocks } else { 1 }),
        (18, blocks),
    ];
    let pipeline = kernels.pipeline(&KERNELS[0], &variant(args), &specialization)?;
    let batches = args.weights.m.div_ceil(tile.batch_rows(kernels.subgroup_size()));
    let groups = if whole { batches.div_ceil(tile.batches) } else { batches };
    operands.dispatch(rec, label, &pipeline, groups, tile.columns, args.norm.map_or(0.0, |n| n.eps))
}
