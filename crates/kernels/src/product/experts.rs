//! The same of products of slots with their experts' matrices.

use super::{Chooser, Product};
use crate::gemv::{self, Cut, ExpertArgs, ProductClass};
use crate::moe::Grouping;
use crate::{Error, Kernels, Unsupported, dot, gemm};
use zinc_vulkan::Recorder;

/// How the slots of a choice are grouped for the products that read it.
///
/// # Errors
/// [`Unsupported`] for numbers that `moe::pack` cannot handle.
pub fn group(
    by: &Chooser<'_>,
    classes: &[ProductClass],
    experts: u32,
    top_k: u32,
    rows: u32,
) -> Result<Grouping, Unsupported> {
    let own = Grouping::of(by.policy, experts, top_k, rows)?;
    if let Cut::Tuned(tuned) = by.cut
        && let Some(grouping) = tuned.experts.grouping(by, classes, &own)
    {
        return Ok(grouping);
    }
    if by.is_fast() && own.mean() >= by.policy.gemm.from_columns {
        return gemm::group(by, classes, experts, top_k, rows).or(Ok(own));
    }
    Ok(own)
}

/// The kernel for a product of slots that are grouped so.
///
/// # Errors
/// [`Unsupported`] where no family has one.
pub fn select_experts(
    by: &Chooser<'_>,
    class: &ProductClass,
    grouping: &Grouping,
) -> Result<Product, Unsupported> {
    if let Cut::Tuned(tuned) = by.cut
        && let Some(product) = tuned.experts.product(by, class, grouping)
    {
        return Ok(product);
    }
    let exact = || gemv::select_experts(by.policy, class, grouping).map(Product::Columns);
    if !by.is_fast() {
        return exact();
    }
    if grouping.mean() >= by.policy.gemm.from_columns {
        return gemm::select_experts(by, class, grouping).map(Product::Gemm).or_else(|_| exact());
    }
    dot::select_experts(by.caps, by.policy, class, grouping).map(Product::Dot).or_else(|_| exact())
}

/// Records a product of slots. Where it is one of f16 factors, x is what [`gemm::convert`] made of the rows, or of their parts.
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record_experts(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ExpertArgs<'_>,
    product: Product,
) -> Result<(), Error> {
    match product {
        Product::Columns(tile) => gemv::record_experts(kernels, rec, label, args, tile),
        Product::Dot(tile) => dot::record_experts(kernels, rec, label, args, tile),
        Product::Gemm(tile) => gemm::record_experts(kernels, rec, label, args, &tile),
        Product::Slices(_) => {
            let (op, format) = ("expert_linear", Some(args.weights.format.name));
            Err(Unsupported { op, format, reason: "slots in slices of K".into() }.into())
        }
    }
}
