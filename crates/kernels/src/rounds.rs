//! What the families' benches share: operands, and rounds of recorded commands.

use crate::Error;
use std::time::{Duration, Instant};
use zinc_vulkan::{Commands, Device, RecorderOptions, Slice};

/// Fills operands with a pattern that is a small finite number in every format and element type.
pub(crate) fn fill<'s>(device: &Device, slices: impl IntoIterator<Item = &'s Slice>) -> Result<(), Error> {
    let mut fill = device.recorder(&RecorderOptions { label: "bench fill".into(), ..Default::default() })?;
    for slice in slices {
        fill.fill(slice, 0x2a2a_2a2a)?;
    }
    device.submit(&[&fill.finish()?])?.wait()?;
    Ok(())
}

/// Times of a submission, in microseconds.
pub(crate) struct Round {
    /// By the wall clock.
    pub wall: f64,
    /// Of each dispatch; none where the commands or the device have no timestamps.
    pub dispatches: Vec<f64>,
}

/// Submits commands until `warm_up` is over, then `repeats` times, which count.
pub(crate) fn rounds(
    device: &Device,
    commands: &Commands,
    warm_up: Duration,
    repeats: u32,
) -> Result<Vec<Round>, Error> {
    let begin = Instant::now();
    while begin.elapsed() < warm_up {
        device.submit(&[commands])?.wait()?;
    }
    let round = |_| {
        let start = Instant::now();
        device.submit(&[commands])?.wait()?;
        let wall = start.elapsed().as_secs_f64() * 1e6;
        let dispatches = commands.timings()?.iter().map(|t| t.nanoseconds / 1e3).collect();
        Ok(Round { wall, dispatches })
    };
    (0..repeats.max(1)).map(round).collect()
}
