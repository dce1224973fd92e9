//! Products with the matrices of the experts that rows have chosen.

use super::gemv_op::{Params, Product, Slots};
use super::{Gate, ProductClass, Weights, select_experts};
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

/// Records a product by the policy's own tile.
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record_experts(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ExpertArgs<'_>,
) -> Result<(), Error> {
    let (g, Weights { slice, format, m: rows, k }) = (args.grouping, args.weights);
    let behind = matches!(args.up, Some((_, Up::Behind)));
    let m = if behind { rows / 2 } else { rows };
    check(args, m)?;
    let class = ProductClass { format, m, k, gated: args.up.is_some() };
    let tile = select_experts(kernels.policy(), &class, g.top_k, g.columns())?;
    let row_bytes = format.device_row_bytes(k as usize) as u64;
    let (matrix, all) = (row_bytes * u64::from(rows), row_bytes * u64::from(rows) * u64::from(g.experts));
    let (Ok(expert_bytes), Ok(row_bytes)) = (u32::try_from(matrix), u32::try_from(row_bytes)) else {
        return fail(&args.weights, format!("an expert of {matrix} bytes"));
    };
    let up = match args.up {
        None => None,
        Some((gate, Up::Apart(up))) => Some((gate, up.slice(0, all)?)),
        Some((gate, Up::Behind)) => Some((gate, slice.slice(matrix / 2, all - matrix / 2)?)),
    };
    let bias_bytes = 4 * u64::from(m) * u64::from(g.experts);
    let slots = match g.is_packed() {
        true => (2, args.lists.slice(0, g.list_bytes())?, g.pairs_at()),
        false => (1, args.choice.bytes(g.rows)?, args.choice.stride),
    };
    let x_step = if args.x.width == k { 0 } else { k };
    let product = Product {
        format,
        weight: slice.slice(0, all)?,
        up,
        x: args.x.bytes(g.rows)?,
        aligned: args.x.is_vec4(g.rows) && x_step.is_multiple_of(4),
        bias: args.biases.map(|b| b.first.slice(0, bias_bytes)).transpose()?,
        second: args.biases.and_then(|b| b.up).map(|up| up.slice(0, bias_bytes)).transpose()?,
        has_residual: false,
        experts: Some((slots.0, slots.1)),
        out: args.out.bytes(g.rows)?,
        batches: g.batches(),
        params: Params {
            m,
            k,
            row_bytes,
            x_stride: args.x.stride,
            result_stride: args.out.stride,
            columns: g.pairs(),
            ..Params::default()
        },
        slots: Slots { slots: g.top_k, x_step, expert_bytes, choice_at: slots.2, ..Slots::default() },
    };
    product.record(kernels, rec, label, tile)
}

fn fail<T>(weights: &Weights<'_>, reason: String) -> Result<T, Error> {
    Err(Unsupported { op: "expert_linear", format: Some(weights.format.name), reason }.into())
}

/// Shapes that belong together, and addresses that 16-byte loads allow.
fn check(args: &ExpertArgs<'_>, m: u32) -> Result<(), Error> {
    let (g, Weights { slice, m: rows, k, .. }) = (args.grouping, args.weights);
    let fail = |reason| fail(&args.weights, reason);
    if ![k, k * g.top_k].contains(&args.x.width) || args.out.width != m * g.top_k {
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
