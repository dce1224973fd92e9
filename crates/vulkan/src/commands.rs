//! Recorded work that can be submitted again and again.

use crate::buffer::BufferInner;
use crate::device::Device;
use crate::{Error, Pipeline};
use ash::vk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Queries in one query pool.
pub(crate) const QUERIES: u32 = 512;

/// Recorded work. Keeps the buffers and pipelines it uses alive; dropping it while it is executed waits.
pub struct Commands {
    pub(crate) device: Device,
    pub(crate) label: String,
    pub(crate) pool: vk::CommandPool,
    pub(crate) parts: Vec<vk::CommandBuffer>,
    pub(crate) query_pools: Vec<vk::QueryPool>,
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) buffers: Vec<Arc<BufferInner>>,
    pub(crate) pipelines: Vec<Pipeline>,
    pub(crate) stats: Stats,
    pub(crate) simultaneous: bool,
    /// The timeline value of the last submission; 0: never submitted.
    pub(crate) last: AtomicU64,
}

/// What was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Compute dispatches.
    pub dispatches: u32,
    /// Copies and fills.
    pub transfers: u32,
    /// Barriers between operations; the one at the start of each part and the one at its end are not counted.
    pub barriers: u32,
    /// Submissions to the driver.
    pub parts: u32,
}

/// GPU time of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// The operation's label.
    pub label: String,
    /// From the end of the operation before to its own end.
    pub nanoseconds: f64,
}

/// The queries around an operation.
pub(crate) struct Stamp {
    pub label: String,
    pub start: u32,
    pub end: u32,
}

impl Commands {
    /// The name it was recorded under.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What was recorded.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether a submission of it is still being executed.
    pub fn in_flight(&self) -> Result<bool, Error> {
        let last = self.last.load(Ordering::Acquire);
        Ok(last != 0 && !self.device.inner.reached(last, &self.label)?)
    }

    /// The GPU time of each operation in the last submission, in the order of recording. Operations that overlap
    /// share the time: each counts from where the one before it ended. Empty when recorded without timestamps or
    /// when the device has none.
    ///
    /// # Errors
    /// [`Error::InFlight`] before the submission has finished, [`Error::Record`] when there was none.
    pub fn timings(&self) -> Result<Vec<Timing>, Error> {
        if self.stamps.is_empty() {
            return Ok(Vec::new());
        }
        if self.last.load(Ordering::Acquire) == 0 {
            let reason = "no timings before the first submission".into();
            return Err(Error::Record { op: self.label.clone(), reason });
        }
        if self.in_flight()? {
            return Err(Error::InFlight { label: self.label.clone() });
        }
        let d = &self.device.inner;
        let count = self.stamps.iter().map(|s| s.end + 1).max().unwrap_or(0);
        let mut ticks = vec![0u64; count as usize];
        for (pool, ticks) in self.query_pools.iter().zip(ticks.chunks_mut(QUERIES as usize)) {
            let flags = vk::QueryResultFlags::TYPE_64;
            // SAFETY: the pool has at least so many queries, each written by the finished submission.
            let result = unsafe { d.raw.get_query_pool_results(*pool, 0, ticks, flags) };
            d.check(&self.label, result)?;
        }
        let limits = &d.capabilities.limits;
        let mask = if limits.timestamp_bits >= 64 { u64::MAX } else { (1 << limits.timestamp_bits) - 1 };
        let timing = |s: &Stamp| {
            let steps = ticks[s.end as usize].wrapping_sub(ticks[s.start as usize]) & mask;
            Timing { label: s.label.clone(), nanoseconds: steps as f64 * f64::from(limits.timestamp_period) }
        };
        Ok(self.stamps.iter().map(timing).collect())
    }
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Commands(`{}`, {:?})", self.label, self.stats)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let d = &self.device.inner;
        let last = self.last.load(Ordering::Acquire);
        if last != 0 && d.wait_value(last, &self.label).is_err() && !self.device.is_lost() {
            // Still executing after the timeout: freeing what the device uses would be worse than keeping it.
            std::mem::take(&mut self.buffers).into_iter().for_each(std::mem::forget);
            std::mem::take(&mut self.pipelines).into_iter().for_each(std::mem::forget);
            return;
        }
        // SAFETY: not in flight (or the device lost), owned by this alone; the pool frees its command buffers.
        unsafe {
            d.raw.destroy_command_pool(self.pool, None);
            self.query_pools.iter().for_each(|&q| d.raw.destroy_query_pool(q, None));
        }
    }
}
