//! Products with the matrices of the experts that rows have chosen.

use super::gemv_op::record_columns;
use super::{Gate, Operands, ProductClass, Tile, Weights};
use crate::moe::Grouping;
use crate::{Error, Kernels, Mat, Unsupported};
use zinc_vulkan::{Recorder, Slice};

/// Where an expert's second matrix lies.
#[derive(Debug, Clone, Copy)]
pub enum Up<'a> {
    /// In a tensor of the same shape and format.
    Apart(&'a Slice),
    /// In the same tensor: the second half of each expert's rows.
    Behind,
}

/// Biases, `m` f32 values an expert.
#[derive(Debug, Clone, Copy)]
pub struct Biases<'a> {
    /// Of the matrix; of the gate where there is one.
    pub first: &'a Slice,
    /// Of up.
    pub up: Option<&'a Slice>,
}

/// A product of slots with their experts' matrices.
#[derive(Debug, Clone, Copy)]
pub struct ExpertArgs<'a> {
    /// The matrices, expert after expert; `m` and `k` are those of one.
    pub weights: Weights<'a>,
    /// A second matrix of each expert: the result is act(gate·x, up·x).
    pub up: Option<(Gate, Up<'a>)>,
    /// Added to the products, before the activation.
    pub biases: Option<Biases<'a>>,
    /// Rows of `k` elements, which all slots share, or of `top_k · k`, a part a slot.
    pub x: Mat<'a>,
    /// Who has which expert.
    pub grouping: Grouping,
    /// Rows of `2 · top_k` elements.
    pub choice: Mat<'a>,
    /// What `moe::pack` made of the choice, where the grouping is packed.
    pub lists: &'a Slice,
    /// Rows of `top_k · m` elements (half of `m` with [`Up::Behind`]).
    pub out: Mat<'a>,
}

impl ExpertArgs<'_> {
    /// Rows of the result's slots.
    pub(crate) fn m(&self) -> u32 {
        if matches!(self.up, Some((_, Up::Behind))) { self.weights.m / 2 } else { self.weights.m }
    }

    fn row_bytes(&self) -> u64 {
        self.weights.format.device_row_bytes(self.weights.k as usize) as u64
    }

    /// From an expert's matrix to the next one's.
    pub(crate) fn expert_bytes(&self) -> Result<u32, Error> {
        let bytes = self.row_bytes() * u64::from(self.weights.m);
        u32::try_from(bytes).or_else(|_| fail(&self.weights, format!("an expert of {bytes} bytes")))
    }

    /// The experts' matrices, beginning with the first one's, and those of up.
    pub(crate) fn matrices(&self) -> Result<(Slice, Option<Slice>), Error> {
        let (Weights { slice, m, .. }, row) = (self.weights, self.row_bytes());
        let all = row * u64::from(m) * u64::from(self.grouping.experts);
        let up = match self.up {
            None => None,
            Some((_, Up::Apart(up))) => Some(up.slice(0, all)?),
            Some((_, Up::Behind)) => {
                let half = row * u64::from(m / 2);
                Some(slice.slice(half, all - half)?)
            }
        };
        Ok((slice.slice(0, all)?, up))
    }

    /// The biases of the matrix, or of the gate, and of up.
    pub(crate) fn bias_slices(&self) -> Result<(Option<Slice>, Option<Slice>), Error> {
        let bytes = 4 * u64::from(self.m()) * u64::from(self.grouping.experts);
        let of = |b: Option<&Slice>| b.map(|b| b.slice(0, bytes)).transpose();
        Ok((of(self.biases.map(|b| b.first))?, of(self.biases.and_then(|b| b.up))?))
    }
}

/// Records a product with a tile of [`select_experts`](super::select_experts).
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record_experts(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ExpertArgs<'_>,
    tile: Tile,
) -> Result<(), Error> {
    record_columns(kernels, rec, label, &Operands::of_experts(args, tile.columns)?, tile)
}

fn fail<T>(weights: &Weights<'_>, reason: String) -> Result<T, Error> {
    Err(Unsupported { op: "expert_linear", format: Some(weights.format.name), reason }.into())
}

/// Shapes that belong together, `columns` being those of a workgroup, and addresses that 16-byte loads allow. Of x its kernel knows whether it fits.
pub(crate) fn check(args: &ExpertArgs<'_>, x_fits: bool, columns: u32) -> Result<(), Error> {
    let (g, Weights { slice, format, m: rows, k }, m) = (args.grouping, args.weights, args.m());
    g.fits("expert_linear", &ProductClass { format, m, k, gated: args.up.is_some() }, columns)?;
    let fail = |reason| fail(&args.weights, reason);
    if !x_fits || args.out.width != m * g.top_k {
        let (x, out) = (args.x.width, args.out.width);
        return fail(format!("{x} and {out} columns for {} slots of {m}×{k}", g.top_k));
    }
    if args.choice.width != 2 * g.top_k {
        return fail(format!("a choice of {} columns for {} slots", args.choice.width, g.top_k));
    }
    if matches!(args.up, Some((_, Up::Behind))) && !rows.is_multiple_of(2) {
        return fail(format!("two halves of {rows} rows"));
    }
    if args.biases.is_some_and(|b| b.up.is_some() != args.up.is_some()) {
        return fail("biases of some matrices".into());
    }
    let up = match args.up {
        Some((_, Up::Apart(up))) => up,
        _ => slice,
    };
    if [slice, up].iter().any(|s| !s.address().is_multiple_of(16)) {
        return fail("weights that do not begin at a multiple of 16 bytes".into());
    }
    if [args.x.stride, args.out.stride].iter().any(|s| s.checked_mul(g.rows).is_none()) {
        return fail(format!("{} rows beyond 2^32 elements", g.rows));
    }
    Ok(())
}
