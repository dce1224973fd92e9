//! The kernel driver's requests (`ioctl`), by the layouts of `drm.h` and `amdgpu_drm.h`.

use crate::{Card, card, unanswered};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Where a request's structure begins; members are read and written by their byte offset.
#[derive(Clone, Copy)]
struct At(*mut u8);

impl At {
    fn new(address: u64) -> At {
        At(address as usize as *mut u8)
    }

    fn get<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the driver gives a structure of the request's size, and offsets are those of its members; T is plain data.
        unsafe { self.0.add(offset).cast::<T>().read_unaligned() }
    }

    fn u32(self, offset: usize) -> u32 {
        self.get(offset)
    }

    fn u64(self, offset: usize) -> u64 {
        self.get(offset)
    }

    fn put<T: Copy>(self, offset: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.0.add(offset).cast::<T>().write_unaligned(value) }
    }

    /// Writes `bytes`, at most `room` of them.
    fn put_bytes(self, bytes: &[u8], room: usize) {
        // SAFETY: the driver says that there is so much room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len().min(room)) }
    }
}

/// A structure of the answer, member by member, with C's alignment.
#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn w(&mut self, values: &[u32]) -> &mut Answer {
        self.0.extend(values.iter().flat_map(|v| v.to_ne_bytes()));
        self
    }

    fn q(&mut self, values: &[u64]) -> &mut Answer {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(values.iter().flat_map(|v| v.to_ne_bytes()));
        self
    }
}

/// What timeline semaphores (synchronisation objects, by handle) have come to.
fn points() -> MutexGuard<'static, BTreeMap<u32, u64>> {
    static POINTS: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());
    POINTS.lock().unwrap_or_else(|e| e.into_inner())
}

fn signal(handle: u32, point: u64) {
    let mut points = points();
    let now = points.entry(handle).or_default();
    *now = point.max(*now);
}

fn handle() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Answers request `number` of a render node; the error code where it cannot.
pub fn answer(number: u32, arg: *mut u8) -> Result<(), i32> {
    let at = At(arg);
    match number {
        0x00 => version(at),
        0x05 => at.put(4, 1u32), // the node's client is authenticated
        // Capabilities: shared buffers both ways, synchronisation objects, timelines.
        0x0c => {
            at.put(8, [(5, 3u64), (0x13, 1), (0x14, 1)].iter().find(|c| c.0 == at.u64(0)).map_or(0, |c| c.1))
        }
        0x09 | 0x0d | 0xd1 => {} // close a buffer, client capability, a client's name
        0x2d => at.put(8, crate::files::plain_file("")), // a buffer as a file
        0x2e => at.put(0, handle()),
        0xbf..=0xcf => syncobj(number, at),
        0x40..=0x55 => return amdgpu(number - 0x40, at),
        _ => {
            unanswered(format_args!("request {number:#x}"));
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

/// Three numbers, then length and place of three texts.
fn version(at: At) {
    at.put(0, [3u32, 64, 0]);
    for (offset, text) in [(16, "amdgpu"), (32, "20150101"), (48, "AMD GPU")] {
        let (room, place) = (at.u64(offset), at.u64(offset + 8));
        if place != 0 {
            At::new(place).put_bytes(text.as_bytes(), room as usize);
        }
        at.put(offset, text.len() as u64);
    }
}

/// Synchronisation objects: everything was signalled when it was asked for.
fn syncobj(number: u32, at: At) {
    match number {
        0xbf | 0xc2 => at.put(0, handle()), // create, from a file
        0xc0 => drop(points().remove(&at.u32(0))),
        0xc1 => at.put(8, crate::files::plain_file("")),
        // Query and signal: arrays of handles and points, and their length.
        0xcb | 0xcd => {
            let (handles, values) = (At::new(at.u64(0)), At::new(at.u64(8)));
            for i in 0..at.u32(16) as usize {
                let handle = handles.u32(4 * i);
                match number {
                    0xcb => values.put(8 * i, points().get(&handle).copied().unwrap_or(0)),
                    _ => signal(handle, values.u64(8 * i)),
                }
            }
        }
        0xcc => signal(at.u32(4), at.u64(16)), // transfer
        _ => {}                                // waits, resets, binary signals
    }
}

/// amdgpu's own requests.
fn amdgpu(number: u32, at: At) -> Result<(), i32> {
    match number {
        0x00 => at.put(0, u64::from(handle())),        // create a buffer
        0x01 => at.put(0, u64::from(at.u32(0)) << 20), // its place for mmap: any page
        0x02 => {
            let made = if at.u32(0) == 1 { u64::from(handle()) } else { 0 };
            at.put(0, [made, 0]); // a context, or its state
        }
        0x03 => at.put(0, u64::from(handle())), // a list of buffers
        0x04 => submit(at),
        0x05 => return info(at),
        0x07 | 0x09 => at.put(0, 0u64), // waits: done
        0x11 => at.put(20, handle()),   // host memory as a buffer
        0x12 => at.put(0, 1u64),
        0x14 => at.put(0, handle()),           // a fence as a handle
        0x06 | 0x08 | 0x10 | 0x13 | 0x15 => {} // metadata, addresses, operations on buffers and address spaces, priorities
        _ => {
            unanswered(format_args!("amdgpu's request {number:#x}"));
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

/// A submission: its commands are dropped, its timeline points reached.
fn submit(at: At) {
    const TIMELINE_SIGNAL: u32 = 9;
    let chunks = At::new(at.u64(16));
    for i in 0..at.u32(8) as usize {
        let chunk = At::new(chunks.u64(8 * i));
        if chunk.u32(0) == TIMELINE_SIGNAL {
            // Entries of 16 bytes: handle, flags, point.
            let entries = At::new(chunk.u64(8));
            for entry in 0..(chunk.u32(4) / 4) as usize {
                signal(entries.u32(16 * entry), entries.u64(16 * entry + 8));
            }
        }
    }
    at.put(0, u64::from(handle()));
}

/// Questions about the card.
fn info(at: At) -> Result<(), i32> {
    let (place, size, query) = (at.u64(0), at.u32(8), at.u32(12));
    let card = card();
    let mut a = Answer::default();
    match query {
        0x00 => drop(a.w(&[1])), // acceleration works
        0x02 => {
            // Blocks: graphics, compute and DMA have rings.
            let kind = at.u32(16);
            let (version, rings) = match kind {
                0 => (card.graphics, 1),
                1 => (card.graphics, 0xf),
                2 => (card.dma, 3),
                _ => ([0; 3], 0),
            };
            let align = if kind == 2 { 256 } else { 32 };
            let [major, minor, step] = version;
            a.w(&[major, minor]).q(&[0]).w(&[align, align, rings, major << 16 | minor << 8 | step, 0]);
        }
        0x03 => drop(a.w(&[u32::from(at.u32(16) <= 2)])), // how many of a block
        0x05 => drop(a.q(&[1])),                          // time
        0x0e => drop(a.w(&[if at.u32(16) == 0 { 0 } else { 2600 }, 29])), // firmware
        // Counters and usage: none.
        0x0f..=0x11 | 0x13 | 0x17 | 0x18 | 0x1e..=0x20 => drop(a.q(&[0])),
        0x14 => drop(a.q(&[card.memory_gib << 30, card.memory_gib << 30, 32 << 30])),
        0x15 => {
            const ADDRESS_CONFIG: u32 = 0x263e;
            for register in at.u32(16)..at.u32(16) + at.u32(20) {
                a.w(&[if register == ADDRESS_CONFIG { card.address_config } else { 0 }]);
            }
        }
        0x16 => device(card, &mut a),
        0x19 => {
            // Heaps: size, usable, used, largest allocation.
            for bytes in [card.memory_gib << 30, card.memory_gib << 30, 32 << 30] {
                a.q(&[bytes, bytes, 0, bytes / 4 * 3]);
            }
        }
        0x1d => drop(a.w(&[0])), // sensors
        0x21 => {}               // video: none
        0x22 => drop(a.w(&[192; 16])),
        0x23 => drop(a.q(&[0]).w(&[0])),
        _ => {
            unanswered(format_args!("question {query:#x}"));
            return Err(libc::EINVAL);
        }
    }
    let to = At::new(place);
    to.put_bytes(&vec![0; size as usize], size as usize);
    to.put_bytes(&a.0, size as usize);
    Ok(())
}

/// `struct drm_amdgpu_info_device`, member by member.
fn device(c: &Card, a: &mut Answer) {
    a.w(&[c.device_id, 1, c.external_revision, c.pci_revision, c.family, c.shader_engines, 2, 100_000]);
    a.q(&[c.clock_mhz * 1000, c.memory_mhz * 1000]).w(&[c.shader_engines * 2 * c.units, 0]);
    // Bits of compute units by [engine][array]: engines from 4 on lie in the first rows' columns 2 and 3.
    for row in 0..4 {
        for column in 0..4 {
            let engine = row + 4 * (column / 2);
            a.w(&[if engine < c.shader_engines { (1 << c.units) - 1 } else { 0 }]);
        }
    }
    // Render backends, their number, contexts, PCIe generation; flags, range of addresses.
    a.w(&[((1u64 << c.render_backends) - 1) as u32, c.render_backends, 8, 4]);
    a.q(&[0, 0x1_0000, 0x8000_0000_0000]).w(&[4096, 2 << 20, 4096, 0, 9, c.bus_bits, 0, 64]);
    a.q(&[0; 4]).w(&[0; 4]);
    a.w(&[32, c.vgprs, c.units, c.cache_blocks, 32, 1792, 32, 16]).w(&[0; 16]);
    a.q(&[0xffff_8000_0000_0000, 0xffff_ffff_ffbf_e000]).w(&[0; 2]).q(&[0, 500_000, 96_000]);
    a.w(&[32, 1, 16, 32, 256, c.l2_kib]).q(&[c.l3_mib << 20]).w(&[0; 6]);
}
