//! The dispatch.

use super::{KERNELS, Tile};
use crate::gemv::{Args, Operands, ProductClass};
use crate::launch::refuse;
use crate::{Error, Kernels, Unsupported};
use zinc_vulkan::Recorder;

/// Columns of a workgroup.
const COLUMNS: u32 = 8;

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
    if args.norm.is_some() {
        return Ok(refuse("linear", "a norm of columns in slices")?);
    }
    let operands = Operands::of(args, COLUMNS)?;
    let (format, m, k) = (operands.format, operands.params.m, operands.params.k);
    let class = ProductClass { format, m, k, gated: operands.up.is_some() };
    if let Err(reason) = tile.check(kernels.caps(), kernels.policy(), &class) {
        return Err(Unsupported { op: "linear", format: Some(format.name), reason }.into());
    }
    let flag = u32::from;
    let rest = [
        (3, flag(operands.aligned)),
        (4, flag(operands.bias.is_some())),
        (5, flag(operands.has_residual())),
        (6, operands.activation()),
    ];
    let specialization: Vec<(u32, u32)> = tile.specialization(&class).into_iter().chain(rest).collect();
    operands.dispatch(kernels, rec, label, (&KERNELS[0], &specialization), tile.groups)
}
