//! Upload through a bounded ring of host memory.

use crate::device::Device;
use crate::{Buffer, Commands, Error, MemoryKind, RecorderOptions, Slice, Ticket};

/// Parts of the ring: one is filled while the others are copied.
const SEGMENTS: u64 = 4;
/// Most bytes of a ring: larger ones push other things out of memory and gain nothing.
const MAX_BYTES: u64 = 64 << 20;

/// Copies any amount of bytes to the device through a small host buffer, several pieces in flight.
///
/// Small uploads share a submission. Nothing is complete, nor ordered against other submissions, before
/// [`StagingRing::flush`].
pub struct StagingRing {
    device: Device,
    buffer: Buffer,
    segment_bytes: u64,
    current: u64,
    used: u64,
    pending: Vec<(Slice, Slice)>,
    in_flight: Vec<Option<(Ticket, Commands)>>,
}

impl StagingRing {
    /// A ring of at most `bytes` (64 MiB at most, 4 KiB at least).
    pub fn new(device: &Device, bytes: u64) -> Result<StagingRing, Error> {
        let segment_bytes = (bytes.clamp(4096, MAX_BYTES) / SEGMENTS) / 16 * 16;
        let buffer = device.alloc(MemoryKind::Upload, segment_bytes * SEGMENTS, "staging ring")?;
        Ok(StagingRing {
            device: device.clone(),
            buffer,
            segment_bytes,
            current: 0,
            used: 0,
            pending: Vec::new(),
            in_flight: (0..SEGMENTS).map(|_| None).collect(),
        })
    }

    /// Uploads `bytes` to the start of `to`; both must have the same length.
    pub fn upload(&mut self, to: &Slice, bytes: &[u8]) -> Result<(), Error> {
        if to.len() != bytes.len() as u64 {
            let reason = format!("{} bytes for a slice of {}", bytes.len(), to.len());
            return Err(Error::Range { label: to.buffer().label().into(), reason });
        }
        self.upload_with(to, |offset, piece| {
            let offset = offset as usize;
            piece.copy_from_slice(&bytes[offset..offset + piece.len()]);
        })
    }

    /// Fills all of `to`, piece by piece: `fill(offset, piece)` writes the bytes that belong at `offset` of it.
    /// Pieces start at multiples of 16 and are whole multiples of 16 but for the last.
    pub fn upload_with(&mut self, to: &Slice, mut fill: impl FnMut(u64, &mut [u8])) -> Result<(), Error> {
        let mut offset = 0;
        while offset < to.len() {
            if self.used == self.segment_bytes {
                self.submit()?;
            }
            let len = (to.len() - offset).min(self.segment_bytes - self.used);
            let target = to.slice(offset, len)?;
            let place = self.current * self.segment_bytes + self.used;
            // `submit` waited for this segment's last copy, so the device does not use it.
            self.buffer.write_with(place, len, |piece| fill(offset, piece))?;
            self.pending.push((self.buffer.slice(place, len)?, target));
            self.used = (self.used + len).next_multiple_of(16).min(self.segment_bytes);
            offset += len;
        }
        Ok(())
    }

    /// Submits what is left and waits until everything has arrived.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.submit()?;
        for slot in &mut self.in_flight {
            if let Some((ticket, _)) = slot.take() {
                ticket.wait()?;
            }
        }
        Ok(())
    }

    /// Submits the current segment's copies and makes the next segment free.
    fn submit(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            let options = RecorderOptions { label: "staging ring".into(), ..Default::default() };
            let mut recorder = self.device.recorder(&options)?;
            for (from, to) in self.pending.drain(..) {
                recorder.copy(&from, &to)?;
            }
            let commands = recorder.finish()?;
            let ticket = self.device.submit(&[&commands])?;
            self.in_flight[self.current as usize] = Some((ticket, commands));
        }
        self.used = 0;
        self.current = (self.current + 1) % SEGMENTS;
        if let Some((ticket, _)) = self.in_flight[self.current as usize].take() {
            ticket.wait()?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for StagingRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagingRing({} bytes)", self.segment_bytes * SEGMENTS)
    }
}
