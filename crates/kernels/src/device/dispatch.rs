//! What a dispatch, its barrier and a submission cost.

use super::{Effort, Failed, all_are, median};
use crate::launch::Launch;
use crate::rounds::rounds;
use crate::{Error, Kernel, Kernels};
use std::time::Instant;
use zinc_vulkan::{Binding, Commands, MemoryKind, RecorderOptions, Slice};

pub(super) const KERNEL: Kernel = Kernel { stem: "count", bindings: 1, params_bytes: 0 };

/// Microseconds by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DispatchCosts {
    /// A dispatch that waits for the one before it, in commands that are recorded once and submitted again.
    pub replayed_us: f64,
    /// The same without a barrier between dispatches.
    pub unordered_us: f64,
    /// A dispatch that waits for the one before it, in commands that are recorded for one submission; recording included.
    pub recorded_us: f64,
    /// Submitting one dispatch and waiting for it.
    pub submit_us: f64,
}

/// Bytes between counters, so that no two share a cache line.
const APART: u64 = 256;

/// Measures dispatches that do nearly nothing.
///
/// # Errors
/// What the device says; dispatches that did not run.
pub fn dispatch_costs(kernels: &Kernels, effort: &Effort) -> Result<DispatchCosts, Failed> {
    let device = kernels.device();
    let n = effort.dispatches.max(1);
    let one = device.alloc(MemoryKind::Device, 16, "counter")?.all();
    let own = device.alloc(MemoryKind::Device, APART * u64::from(n), "counters")?.all();
    let each = |i: u32| own.slice(APART * u64::from(i), 4);
    // Submissions, all of which are waited for, count up from nothing.
    let zero = |slice: &Slice| -> Result<(), Error> {
        let mut rec = device.recorder(&RecorderOptions { label: "zero".into(), ..Default::default() })?;
        rec.fill(slice, 0)?;
        Ok(device.submit(&[&rec.finish()?])?.wait()?)
    };
    let counters = |slice: &Slice, apart: usize| -> Result<Vec<f64>, Error> {
        let bytes = device.download(slice)?;
        Ok(bytes.chunks(apart).map(|b| f64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect())
    };
    let (warm_up, repeats) = (effort.warm_up, effort.repeats);

    zero(&own)?;
    let apart = record(kernels, n, &|i| Ok(each(i)?))?;
    let unordered = rounds(device, &apart, warm_up, repeats)?;
    let ran = counters(&own, APART as usize)?;
    all_are("dispatches without barriers", ran.iter().copied(), ran[0])?;

    // The clock runs over submissions of a known number: the counter proves each dispatch.
    zero(&one)?;
    let ordered = record(kernels, n, &|_| Ok(one.clone()))?;
    rounds(device, &ordered, warm_up, 1)?;
    zero(&one)?;
    let replayed = rounds(device, &ordered, Default::default(), repeats)?;
    all_are("replayed dispatches", counters(&one, 16)?, f64::from(n * repeats.max(1)))?;

    zero(&one)?;
    let mut recorded = Vec::new();
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        let commands = record(kernels, n, &|_| Ok(one.clone()))?;
        device.submit(&[&commands])?.wait()?;
        recorded.push(start.elapsed().as_secs_f64() * 1e6);
    }
    all_are("recorded dispatches", counters(&one, 16)?, f64::from(n * repeats.max(1)))?;

    let single = record(kernels, 1, &|_| Ok(one.clone()))?;
    let submit = rounds(device, &single, warm_up / 2, 10 * repeats)?;
    let submit_us = median(submit.iter().map(|r| r.wall).collect());
    // A submission's own cost is not the dispatches'.
    let per_dispatch = |walls: Vec<f64>| (median(walls) - submit_us).max(0.0) / f64::from((n - 1).max(1));
    Ok(DispatchCosts {
        replayed_us: per_dispatch(replayed.iter().map(|r| r.wall).collect()),
        unordered_us: per_dispatch(unordered.iter().map(|r| r.wall).collect()),
        recorded_us: per_dispatch(recorded),
        submit_us,
    })
}

type Counter<'a> = &'a dyn Fn(u32) -> Result<Slice, Error>;

/// `n` dispatches, each counting in its counter.
fn record(kernels: &Kernels, n: u32, counter: Counter<'_>) -> Result<Commands, Error> {
    let options = RecorderOptions { label: "dispatches".into(), ..Default::default() };
    let mut rec = kernels.device().recorder(&options)?;
    for i in 0..n {
        kernels.launch(
            &mut rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[],
                specialization: &[(0, kernels.subgroup_size())],
                bindings: &[Binding::read_write(&counter(i)?)],
                params: &[],
                groups: [1, 1, 1],
                label: "count",
            },
        )?;
    }
    Ok(rec.finish()?)
}
