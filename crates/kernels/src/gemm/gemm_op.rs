//! The dispatch.

use super::{Matrix, Packed, Tile};
use crate::gemv::{Epilogue, Gate, ProductClass, Weights};
use crate::launch::{Launch, refuse};
use crate::{DeviceClass, Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "gemm", bindings: 10, params_bytes: size_of::<Params>() as u32 };
pub(super) const LANES: Kernel = Kernel { stem: "gemm_lanes", ..KERNEL };

/// A product.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The matrix; the gate's where there is one.
    pub weights: Weights<'a>,
    /// A second matrix of the same shape and format: the result is act(gate·x)·(up·x).
    pub up: Option<(Gate, Weights<'a>)>,
    /// The columns of the product as rows of f16.
    pub x: Packed<'a>,
    /// Additions.
    pub epilogue: Epilogue<'a>,
    /// `x.rows` rows of `m` elements.
    pub out: Mat<'a>,
    /// Memory for the sums of parts: [`Tile::partial_bytes`] that nobody else uses meanwhile, wherever there are any.
    pub partials: Option<&'a Slice>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Params {
    pub m: u32,
    pub k: u32,
    pub row_bytes: u32,
    pub x_stride: u32,
    pub columns: u32,
    pub residual_stride: u32,
    pub result_stride: u32,
    pub slots: u32,
    pub x_step: u32,
    pub expert_bytes: u32,
    pub choice_at: u32,
    pub x_pitch: u32,
}

/// Records a product with a tile of [`select`](super::select), or of [`candidates`](super::candidates).
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together or the tile does not fit the device; else what the recorder says.
pub fn record(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    tile: &Tile,
) -> Result<(), Error> {
    check(kernels, args, tile)?;
    let (x, scales) = args.x.parts()?;
    if !x.address().is_multiple_of(16) {
        return Ok(refuse("linear", "packed rows that do not begin at a multiple of 16 bytes")?);
    }
    let Weights { format, m, k, slice } = args.weights;
    let columns = args.x.rows;
    let out = args.out.bytes(columns)?;
    let residual = args.epilogue.residual.map(|r| r.bytes(columns)).transpose()?;
    let row_bytes = format.device_row_bytes(k as usize) as u64;
    let weight = slice.slice(0, row_bytes * u64::from(m))?;
    let up = args.up.map(|(_, up)| up.slice.slice(0, row_bytes * u64::from(m))).transpose()?;
    let bias = args.epilogue.bias.map(|b| b.slice(0, 4 * u64::from(m))).transpose()?;
    let groups = [columns.div_ceil(tile.columns), m.div_ceil(tile.rows), tile.parts];
    let split = match (tile.partial_bytes(m, columns, args.up.is_some()), args.partials) {
        (0, _) => None,
        (bytes, Some(partials)) => {
            Some((partials.slice(0, bytes)?, kernels.counters(groups[0] * groups[1])?))
        }
        (bytes, None) => {
            return Ok(refuse("linear", format!("{} parts without {bytes} bytes for sums", tile.parts))?);
        }
    };
    let params = Params {
        m,
        k,
        row_bytes: row_bytes as u32,
        x_stride: Packed::pitch(k) / 8,
        columns,
        residual_stride: args.epilogue.residual.map_or(0, |r| r.stride),
        result_stride: args.out.stride,
        ..Params::default()
    };
    let gate = args.up.map(|(gate, _)| gate);
    let mut specialization = specialization(kernels, tile, bias.is_some(), residual.is_some(), gate);
    specialization.push(whole(tile, columns));
    let operands = Operands { weight, up, x, scales, bias, second: residual, lists: None, out, split };
    operands.launch(kernels, rec, label, (format, tile), &specialization, (&params, groups))
}

/// The buffers of a dispatch.
pub(super) struct Operands {
    pub weight: Slice,
    pub up: Option<Slice>,
    pub x: Slice,
    pub scales: Slice,
    pub bias: Option<Slice>,
    /// The residual, or the bias of `up`.
    pub second: Option<Slice>,
    /// The slots of experts.
    pub lists: Option<Slice>,
    pub out: Slice,
    /// Sums of parts, and counters of tiles.
    pub split: Option<(Slice, Slice)>,
}

impl Operands {
    /// Records the dispatch of a tile with its constants, of so many workgroups.
    pub(super) fn launch<'a>(
        &'a self,
        kernels: &Kernels,
        rec: &mut Recorder,
        label: &str,
        (format, tile): (FormatRef, &Tile),
        specialization: &[(u32, u32)],
        (params, groups): (&Params, [u32; 3]),
    ) -> Result<(), Error> {
        // What a variant does not read stands for it.
        let or = |slice: Option<&'a Slice>| slice.unwrap_or(&self.scales);
        let split = self.split.as_ref();
        kernels.launch(
            rec,
            &Launch {
                kernel: kernel(tile),
                variant: variant(format, tile).as_slice(),
                specialization,
                bindings: &[
                    Binding::read(&self.weight),
                    Binding::read(self.up.as_ref().unwrap_or(&self.weight)),
                    Binding::read(&self.x),
                    Binding::read(&self.scales),
                    Binding::read(or(self.bias.as_ref())),
                    Binding::read(or(self.second.as_ref())),
                    Binding::read(or(self.lists.as_ref())),
                    Binding::write(&self.out),
                    split.map_or(Binding::read(&self.scales), |(partials, _)| Binding::write(partials)),
                    split.map_or(Binding::read(&self.scales), |(_, done)| Binding::write(done)),
                ],
                params: bytemuck::bytes_of(params),
                groups,
                label,
            },
        )
    }
}

/// The constants of a tile and of what is added to its results, in the order of their numbers in the shader.
pub(super) fn specialization(
    kernels: &Kernels,
    tile: &Tile,
    bias: bool,
    residual: bool,
    gate: Option<Gate>,
) -> Vec<(u32, u32)> {
    let mut values = tile.specialization(kernels.subgroup_size());
    let (alpha, limit) = gate.map_or((0.0, 0.0), Gate::constants);
    let flags = [bias, residual, gate.is_some()].map(u32::from);
    let of_gate = [gate.map_or(0, Gate::number), alpha.to_bits(), limit.to_bits()];
    values.extend((10..).zip(flags.into_iter().chain(of_gate)));
    values.push((20, u32::from(tile.parts > 1)));
    // Software drivers of Mesa's let a whole workgroup wait in a subgroup's barrier, and end it where one subgroup does.
    values.push((21, u32::from(kernels.policy().class == DeviceClass::Software)));
    values.push((24, u32::from(kernels.policy().gemm.together)));
    values
}

/// Whether so many columns fill their tiles, in the shader's constants.
fn whole(tile: &Tile, columns: u32) -> (u32, u32) {
    (23, u32::from(columns.is_multiple_of(tile.columns)))
}

/// Makes the pipeline of a product of so many columns without additions, gated by SwiGLU where it is gated.
///
/// # Errors
/// [`Unsupported`] where the tile does not fit the device, else what the driver says.
pub(super) fn prepare(
    kernels: &Kernels,
    class: &ProductClass,
    columns: u32,
    tile: &Tile,
) -> Result<(), Error> {
    let ProductClass { format, gated, .. } = *class;
    tile.check(kernels.caps(), kernels.subgroup_size(), format, gated)
        .or_else(|reason| refuse("linear", reason))?;
    let mut specialization = specialization(kernels, tile, false, false, gated.then_some(Gate::SwiGlu));
    specialization.push(whole(tile, columns));
    kernels.pipeline(kernel(tile), &variant(format, tile), &specialization)?;
    Ok(())
}

fn kernel(tile: &Tile) -> &'static Kernel {
    if tile.matrix == Matrix::Lanes { &LANES } else { &KERNEL }
}

fn variant(format: FormatRef, tile: &Tile) -> Vec<(&'static str, &'static str)> {
    let mut variant = vec![("FORMAT", format.name)];
    if tile.matrix != Matrix::Lanes {
        variant.push(("MATRIX", tile.matrix.variant()));
    }
    variant
}

/// Shapes that belong together, and addresses that 16-byte loads allow.
fn check(kernels: &Kernels, args: &Args<'_>, tile: &Tile) -> Result<(), Unsupported> {
    let Weights { format, m, k, slice } = args.weights;
    let fail = |reason: String| Err(Unsupported { op: "linear", format: Some(format.name), reason });
    if let Err(reason) = tile.check(kernels.caps(), kernels.subgroup_size(), format, args.up.is_some()) {
        return fail(reason);
    }
    if !k.is_multiple_of(tile.step) && tile.step > 64 || tile.parts > k.div_ceil(tile.step) {
        return fail(format!("rows of {k} elements in {} parts of steps of {}", tile.parts, tile.step));
    }
    if args.x.k != k || args.out.width != m {
        return fail(format!("{} and {} columns for weights of {m}×{k}", args.x.k, args.out.width));
    }
    if args.epilogue.residual.is_some_and(|r| r.width != m) {
        return fail(format!("a residual that has not the {m} columns of the result"));
    }
    if let Some((_, up)) = args.up
        && (up.format, up.m, up.k) != (format, m, k)
    {
        return fail(format!("gate {m}×{k} with up {}×{} in {}", up.m, up.k, up.format));
    }
    let addresses = [Some(slice), args.up.map(|(_, up)| up.slice)];
    if addresses.iter().flatten().any(|s| !s.address().is_multiple_of(16)) {
        return fail("weights that do not begin at a multiple of 16 bytes".into());
    }
    let strides = [args.out.stride, args.epilogue.residual.map_or(0, |r| r.stride)];
    if strides.iter().any(|s| s.checked_mul(args.x.rows).is_none()) {
        return fail(format!("{} columns beyond 2^32 elements", args.x.rows));
    }
    if m.div_ceil(tile.rows) > 65_535 || args.x.rows.div_ceil(tile.columns) > 65_535 {
        return fail(format!(
            "{m} rows and {} columns in tiles of {}×{}",
            args.x.rows, tile.rows, tile.columns
        ));
    }
    Ok(())
}
