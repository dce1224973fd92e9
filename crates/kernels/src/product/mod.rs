//! Products of a weight matrix with the rows of a batch: which kernel family computes one, by precision, device and shape.

mod bench;
mod experts;
mod tuned;
mod tuned_experts;

pub use bench::{BenchShape, BenchTiming, bench};
pub use experts::{group, record_experts, select_experts};
pub use tuned::{FastResult, FastTiles, tune_fast};
pub use tuned_experts::{ExpertClass, ExpertResult, ExpertShape, ExpertTile, ExpertTiles, tune_experts};

use crate::gemm::{self, Packed};
use crate::gemv::{self, Args, Cut, ProductClass};
use crate::{Error, Kernels, Policy, Precision, Unsupported, dot, slices};
use zinc_vulkan::{Capabilities, Recorder, Slice};

/// The kernel of a product and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// K-parallel columns in f32: exact.
    Columns(gemv::Tile),
    /// Integer dot products with x rounded to integers: fast, few columns.
    Dot(dot::Tile),
    /// Slices of K, on matrices with x in registers: fast, few columns.
    Slices(slices::Tile),
    /// Tiles of f16 factors: fast, many columns. Its x is what [`gemm::convert`] made.
    Gemm(gemm::Tile),
}

impl Product {
    /// The kernel family, as `zinc check --ops=FAMILY` and reports call it.
    pub fn family(&self) -> &'static str {
        match self {
            Product::Columns(_) => "gemv",
            Product::Dot(_) => "dot",
            Product::Slices(_) => "slices",
            Product::Gemm(_) => "gemm",
        }
    }

    /// Bytes of memory that the product needs beside its operands.
    pub fn work_bytes(&self, class: &ProductClass, columns: u32) -> u64 {
        match self {
            Product::Columns(_) | Product::Dot(_) | Product::Slices(_) => 0,
            Product::Gemm(tile) => tile.partial_bytes(class.m, columns, class.gated),
        }
    }
}

/// What the choice of a product's kernel depends on beside the product.
#[derive(Debug, Clone, Copy)]
pub struct Chooser<'a> {
    /// What the device can do.
    pub caps: &'a Capabilities,
    /// Tuning for it.
    pub policy: &'a Policy,
    /// Which arithmetic is allowed.
    pub precision: Precision,
    /// How products are cut. A cut that names its own shape asks for an exact product whatever the precision.
    pub cut: &'a Cut,
}

impl Chooser<'_> {
    /// Whether products may round their factors.
    fn is_fast(&self) -> bool {
        self.precision == Precision::Fast && matches!(self.cut, Cut::Policy | Cut::Tuned(_))
    }
}

/// The kernel for a product of so many columns.
///
/// # Errors
/// [`Unsupported`] where no family has one.
pub fn select(by: &Chooser<'_>, class: &ProductClass, columns: u32) -> Result<Product, Unsupported> {
    let exact = || by.cut.tile(by.policy, class, columns).map(Product::Columns);
    if !by.is_fast() {
        return exact();
    }
    if let Cut::Tuned(tuned) = by.cut
        && let Some(product) = tuned.fast.product(by.caps, by.policy, class, columns)
    {
        return Ok(product);
    }
    if columns >= by.policy.slices.from_columns
        && let Ok(tile) = slices::select(by.caps, by.policy, class, columns)
    {
        return Ok(Product::Slices(tile));
    }
    if columns >= by.policy.gemm.from_columns {
        return gemm::select(by.policy, by.caps, class, columns).map(Product::Gemm).or_else(|_| exact());
    }
    dot::select(by.caps, by.policy, class, columns).map(Product::Dot).or_else(|_| exact())
}

/// Records a product; `work` has [`Product::work_bytes`] bytes where it needs any. Where it is one of f16 factors, x is an activation buffer of [`Packed::width`] columns that [`gemm::convert`] wrote.
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    product: Product,
    work: Option<&Slice>,
) -> Result<(), Error> {
    match product {
        Product::Columns(tile) => gemv::record(kernels, rec, label, args, tile),
        Product::Dot(tile) => dot::record(kernels, rec, label, args, tile),
        Product::Slices(tile) => slices::record(kernels, rec, label, args, tile),
        Product::Gemm(tile) => {
            let &Args { weights, up, x, norm, columns, epilogue, out } = args;
            if norm.is_some() {
                let format = Some(weights.format.name);
                let reason = "a norm of columns in f16".into();
                return Err(Unsupported { op: "linear", format, reason }.into());
            }
            let x = Packed::within(x, columns, weights.k)?;
            gemm::record(
                kernels,
                rec,
                label,
                &gemm::Args { weights, up, x, epilogue, out, partials: work },
                &tile,
            )
        }
    }
}
