//! Many allocations in few buffers: planned first, so that what does not fit is refused before anything is allocated.

use crate::{Buffer, Device, Error, MemoryKind, Slice};

/// Alignment that every placement has at least: whole cache lines, and 16-byte loads at any address.
const MIN_ALIGN: u64 = 256;

/// Where an allocation of a plan lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Which chunk.
    pub chunk: usize,
    /// First byte within the chunk.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Places allocations into chunks without touching a device. An allocation never straddles two chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaPlan {
    label: String,
    max_chunk: u64,
    chunks: Vec<u64>,
}

impl ArenaPlan {
    /// A plan whose chunks have at most `max_chunk` bytes: [`Device::max_buffer`], or less.
    pub fn new(label: &str, max_chunk: u64) -> ArenaPlan {
        ArenaPlan { label: label.into(), max_chunk, chunks: Vec::new() }
    }

    /// Places `bytes` at a multiple of `align` (a power of two; 256 at least is given) in the first chunk with room.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it exceeds a chunk, [`Error::Range`] for an alignment that is no power of two.
    pub fn add(&mut self, bytes: u64, align: u64) -> Result<Placement, Error> {
        if !align.is_power_of_two() || align > 1 << 16 {
            let reason = format!("an alignment of {align} is not a power of two up to 65536");
            return Err(Error::Range { label: self.label.clone(), reason });
        }
        if bytes > self.max_chunk {
            return Err(Error::TooLarge { label: self.label.clone(), bytes, limit: self.max_chunk });
        }
        let align = align.max(MIN_ALIGN);
        let fits = |end: u64| {
            let offset = end.checked_next_multiple_of(align)?;
            (offset.checked_add(bytes)? <= self.max_chunk).then_some(offset)
        };
        let found = self.chunks.iter().enumerate().find_map(|(i, &end)| Some((i, fits(end)?)));
        let (chunk, offset) = found.unwrap_or((self.chunks.len(), 0));
        if chunk == self.chunks.len() {
            self.chunks.push(0);
        }
        self.chunks[chunk] = offset + bytes;
        Ok(Placement { chunk, offset, len: bytes })
    }

    /// Bytes of all chunks: what [`Arena::new`] will allocate.
    pub fn total(&self) -> u64 {
        self.chunks.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Bytes of each chunk.
    pub fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// The name it was given.
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// The buffers of a plan.
#[derive(Debug, Clone)]
pub struct Arena {
    chunks: Vec<Buffer>,
}

impl Arena {
    /// Allocates the chunks of a plan: all of them, or none and an error.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the shortfall of the whole plan, before anything is allocated where the driver
    /// tells what is free.
    pub fn new(device: &Device, kind: MemoryKind, plan: &ArenaPlan) -> Result<Arena, Error> {
        let available = device.available(kind);
        if plan.total() > available {
            return Err(Error::OutOfMemory { label: plan.label.clone(), bytes: plan.total(), available });
        }
        let chunks = plan
            .chunks
            .iter()
            .enumerate()
            .map(|(i, &bytes)| device.alloc(kind, bytes, &format!("{}[{i}]", plan.label)));
        Ok(Arena { chunks: chunks.collect::<Result<_, _>>()? })
    }

    /// The bytes of a placement.
    ///
    /// # Errors
    /// [`Error::Range`] for a placement of another plan that does not lie inside.
    pub fn slice(&self, placement: Placement) -> Result<Slice, Error> {
        let Some(chunk) = self.chunks.get(placement.chunk) else {
            let reason = format!("chunk {} of {}", placement.chunk, self.chunks.len());
            return Err(Error::Range { label: "arena".into(), reason });
        };
        chunk.slice(placement.offset, placement.len)
    }

    /// Its buffers.
    pub fn chunks(&self) -> &[Buffer] {
        &self.chunks
    }
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
