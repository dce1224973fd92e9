//! Gated activations: `f(gate) · g(up)`.

use super::dispatch::{Elementwise, Numbers, Second};
use crate::{Error, Kernels, Mat};
use zinc_plan::Activation;
use zinc_vulkan::Recorder;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Which one.
    pub kind: Activation,
    /// The gate.
    pub gate: Mat<'a>,
    /// What it gates.
    pub up: Mat<'a>,
    /// Output, as wide as both.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the operation.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { kind, gate: a, up, out, rows } = args;
    let (variant, numbers) = match kind {
        Activation::SwiGlu => ("swiglu", Numbers::default()),
        Activation::GeGlu => ("geglu", Numbers::default()),
        Activation::OaiSwiGlu { alpha, limit } => {
            ("oai_swiglu", Numbers { alpha, limit, ..Default::default() })
        }
    };
    let op = Elementwise { op: "activate", variant, a, b: Second::Columns(up), out, rows, numbers };
    op.check_widths()?;
    op.record(k, rec, label)
}
