//! Products of a weight matrix with the rows of a batch: which kernel family computes one, by precision, device and shape.

use crate::gemv::{self, Args, Cut, ProductClass};
use crate::{Error, Kernels, Policy, Precision, Unsupported};
use zinc_vulkan::{Capabilities, Recorder};

/// The kernel of a product and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// K-parallel columns in f32: exact.
    Columns(gemv::Tile),
}

impl Product {
    /// The kernel family, as `zinc check --ops=FAMILY` and reports call it.
    pub fn family(&self) -> &'static str {
        match self {
            Product::Columns(_) => "gemv",
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
    /// How exact products are cut. A cut that names its own shape asks for an exact product whatever the precision.
    pub cut: &'a Cut,
}

/// The kernel for a product of so many columns.
///
/// # Errors
/// [`Unsupported`] where no family has one.
pub fn select(by: &Chooser<'_>, class: &ProductClass, columns: u32) -> Result<Product, Unsupported> {
    match by.precision {
        Precision::Exact | Precision::Fast => by.cut.tile(by.policy, class, columns).map(Product::Columns),
    }
}

/// Records a product.
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together; else what the recorder says.
pub fn record(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    product: Product,
) -> Result<(), Error> {
    match product {
        Product::Columns(tile) => gemv::record(kernels, rec, label, args, tile),
    }
}
