//! When a barrier is due: byte ranges touched since the last one, and nothing of Vulkan.

use std::ops::Range;

/// How an operation touches a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads.
    Read,
    /// Only writes. Bytes not written keep their value, so ordering is as for [`Access::ReadWrite`].
    Write,
    /// Reads and writes.
    ReadWrite,
}

impl Access {
    /// Whether it writes.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// One declared access: bytes `range` of buffer `buffer` (any id that tells buffers apart).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The buffer.
    pub buffer: u64,
    /// Bytes within it; an empty range touches nothing.
    pub range: Range<u64>,
    /// Read or written.
    pub access: Access,
}

/// The accesses since the last barrier.
///
/// One barrier orders everything before it against everything after, so it clears the set.
#[derive(Debug, Default)]
pub struct Hazards {
    reads: Vec<(u64, Range<u64>)>,
    writes: Vec<(u64, Range<u64>)>,
}

impl Hazards {
    /// Whether an operation with these accesses needs a barrier before it: it reads what was written (RAW), writes
    /// what was read (WAR) or writes what was written (WAW).
    pub fn conflicts(&self, touches: &[Touch]) -> bool {
        touches.iter().any(|t| overlaps(&self.writes, t) || (t.access.writes() && overlaps(&self.reads, t)))
    }

    /// Notes an operation's accesses, after the barrier if one was due. The accesses of one operation are not held
    /// against each other.
    pub fn note(&mut self, touches: &[Touch]) {
        for t in touches.iter().filter(|t| !t.range.is_empty()) {
            let set = if t.access.writes() { &mut self.writes } else { &mut self.reads };
            set.push((t.buffer, t.range.clone()));
        }
    }

    /// Forgets everything: a barrier was recorded.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }
}

fn overlaps(set: &[(u64, Range<u64>)], t: &Touch) -> bool {
    !t.range.is_empty()
        && set.iter().any(|(buffer, range)| {
            *buffer == t.buffer && range.start < t.range.end && t.range.start < range.end
        })
}

#[cfg(test)]
#[path = "hazards_tests.rs"]
mod tests;
