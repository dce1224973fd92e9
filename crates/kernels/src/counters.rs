//! Counters on the device that are zero between dispatches: how many workgroups of several are done.

use crate::{Error, Kernels};
use zinc_vulkan::{MemoryKind, RecorderOptions, Slice};

/// Counters of a device; made when they are first asked for.
#[derive(Default)]
pub(crate) struct Counters {
    all: Option<Slice>,
    /// Where the next ones are taken from.
    next: u64,
}

/// Counters in all: those of a few products beside each other.
const COUNT: u64 = 1 << 16;

impl Kernels {
    /// `count` counters, all zero, for a dispatch that leaves them so. They come from a ring: dispatches that are recorded one after the other have
    /// different ones and need no barrier for them; such that have the same ones get one, since they declare to write them.
    pub(crate) fn counters(&self, count: u32) -> Result<Slice, Error> {
        let count = u64::from(count).next_multiple_of(64);
        let mut counters = self.counters.lock().unwrap_or_else(|e| e.into_inner());
        let all = match &counters.all {
            Some(all) => all.clone(),
            None => {
                let all = self.device().alloc(MemoryKind::Device, 4 * COUNT, "counters")?.all();
                let options = RecorderOptions { label: "counters".into(), ..Default::default() };
                let mut recorder = self.device().recorder(&options)?;
                recorder.fill(&all, 0)?;
                self.device().submit(&[&recorder.finish()?])?.wait()?;
                counters.all.insert(all).clone()
            }
        };
        let first = if counters.next + count > COUNT { 0 } else { counters.next };
        counters.next = first + count;
        Ok(all.slice(4 * first, 4 * count)?)
    }
}
