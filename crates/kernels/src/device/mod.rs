//! What a device can do at most, measured: memory, dispatches, matrix products. The denominators of percentages.
//!
//! Each measurement checks what it computed, so that none counts work that was not done.

mod dispatch;
mod matrix;
mod stream;
#[cfg(test)]
mod tests;

use crate::rounds::{Round, rounds};
use crate::{Error, Kernel, Kernels};
pub use dispatch::{DispatchCosts, dispatch_costs};
pub use matrix::{MatrixCase, MatrixRate, Scope, matrix_cases, matrix_rate};
use std::time::Duration;
pub use stream::{Bandwidth, bandwidth};
use zinc_vulkan::Commands;

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[stream::KERNEL, dispatch::KERNEL, matrix::KERNEL];

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Bytes of the buffer that is read; less where the device has less room.
    pub bytes: u64,
    /// Dispatches of a submission.
    pub dispatches: u32,
    /// How long a dispatch of matrix products should take, in microseconds.
    pub matrix_us: f64,
    /// Measurements that count; the median is given.
    pub repeats: u32,
    /// Work before what counts.
    pub warm_up: Duration,
}

/// What a measurement that computed something wrong says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failed {
    /// The operation could not run.
    #[error(transparent)]
    Kernels(#[from] Error),
    /// The result is not what it must be, so its time says nothing.
    #[error("`{what}` gave {got}, {want} is right\nhint: `zinc check --ops` tests the device")]
    Wrong {
        /// The measurement.
        what: String,
        /// A result.
        got: f64,
        /// What it must be.
        want: f64,
    },
}

impl From<zinc_vulkan::Error> for Failed {
    fn from(e: zinc_vulkan::Error) -> Failed {
        Failed::Kernels(e.into())
    }
}

/// Fails unless every value is `want`.
fn all_are(what: &str, got: impl IntoIterator<Item = f64>, want: f64) -> Result<(), Failed> {
    match got.into_iter().find(|&v| v != want) {
        None => Ok(()),
        Some(got) => Err(Failed::Wrong { what: what.into(), got, want }),
    }
}

/// Microseconds of a submission of one dispatch: the median of the device's clock, of the wall clock where it has none.
fn median_us(kernels: &Kernels, commands: &Commands, warm_up: Duration, repeats: u32) -> Result<f64, Error> {
    let time = |r: Round| r.dispatches.first().copied().unwrap_or(r.wall);
    Ok(median(rounds(kernels.device(), commands, warm_up, repeats)?.into_iter().map(time).collect()))
}

/// The median of numbers; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
