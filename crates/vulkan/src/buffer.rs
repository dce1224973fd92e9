//! Buffers with memory of their own, and slices of them.

use crate::device::{Device, DeviceInner, lock};
use crate::{Error, MemoryKind, memory};
use ash::vk;
use bytemuck::Pod;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A piece of memory that shaders reach by its address. Clones share it; it is freed with the last clone, slice and
/// command that names it.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) inner: Arc<BufferInner>,
}

pub(crate) struct BufferInner {
    pub id: u64,
    pub raw: vk::Buffer,
    memory: vk::DeviceMemory,
    address: u64,
    len: u64,
    kind: MemoryKind,
    heap: usize,
    allocated: u64,
    label: String,
    mapped: Option<Mutex<Mapped>>,
    device: Arc<DeviceInner>,
}

/// Start of the mapping. The mutex around it keeps host threads from touching the bytes at the same time.
struct Mapped(*mut u8);
// SAFETY: the mapping belongs to the memory object, not to a thread.
unsafe impl Send for Mapped {}

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw(),
);

impl Buffer {
    pub(crate) fn alloc(device: &Device, kind: MemoryKind, bytes: u64, label: &str) -> Result<Buffer, Error> {
        let d = &device.inner;
        d.alive(label)?;
        let limit = device.max_buffer();
        if bytes > limit {
            return Err(Error::TooLarge { label: label.into(), bytes, limit });
        }
        let size = bytes.max(16).next_multiple_of(16);
        let info = vk::BufferCreateInfo::default().size(size).usage(USAGE);
        // SAFETY: size and usage are within the limits; destroyed by `BufferInner` from here on.
        let raw = d.check(label, unsafe { d.raw.create_buffer(&info, None) })?;
        let mut inner = BufferInner {
            id: d.next_id(),
            raw,
            memory: vk::DeviceMemory::null(),
            address: 0,
            len: bytes,
            kind,
            heap: 0,
            allocated: 0,
            label: label.into(),
            mapped: None,
            device: d.clone(),
        };
        // SAFETY: the buffer was just made.
        let needs = unsafe { d.raw.get_buffer_memory_requirements(raw) };
        let memory_type = memory::memory_type(&d.memory, kind, needs.memory_type_bits)
            .ok_or_else(|| Error::OutOfMemory { label: label.into(), bytes, available: 0 })?;
        inner.heap = d.memory.memory_types[memory_type as usize].heap_index as usize;
        let out_of_memory =
            || Error::OutOfMemory { label: label.into(), bytes, available: d.available(inner.heap) };
        if needs.size > d.memory.memory_heaps[inner.heap].size {
            return Err(out_of_memory());
        }
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(raw);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(memory_type)
            .push_next(&mut flags)
            .push_next(&mut dedicated);
        // SAFETY: the type is one that the buffer allows; freed by `BufferInner`.
        inner.memory = match unsafe { d.raw.allocate_memory(&info, None) } {
            Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {
                return Err(out_of_memory());
            }
            result => d.check(label, result)?,
        };
        inner.allocated = needs.size;
        d.allocated[inner.heap].fetch_add(needs.size, Ordering::Relaxed);
        // SAFETY: fresh buffer and memory, the offset is aligned to anything.
        d.check(label, unsafe { d.raw.bind_buffer_memory(raw, inner.memory, 0) })?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(raw);
        // SAFETY: bound, with the address usage and the feature enabled.
        inner.address = unsafe { d.raw.get_buffer_device_address(&info) };
        if kind != MemoryKind::Device {
            // SAFETY: the type is host visible and coherent; freeing the memory unmaps it.
            let start =
                unsafe { d.raw.map_memory(inner.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
            inner.mapped = Some(Mutex::new(Mapped(d.check(label, start)?.cast())));
        }
        d.name(raw, label);
        Ok(Buffer { inner: Arc::new(inner) })
    }

    /// The device address of its first byte; at least 16-byte aligned.
    pub fn address(&self) -> u64 {
        self.inner.address
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.inner.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.inner.len == 0
    }

    /// Its name, for messages.
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Where it lies.
    pub fn kind(&self) -> MemoryKind {
        self.inner.kind
    }

    /// The whole of it.
    pub fn all(&self) -> Slice {
        Slice { buffer: self.clone(), offset: 0, len: self.len() }
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Error::Range`] when it does not lie inside.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Slice, Error> {
        self.all().slice(offset, len)
    }

    /// Reads bytes. What the device is writing at that moment reads as anything: wait for its ticket first.
    ///
    /// # Errors
    /// [`Error::NotHostVisible`] for device memory, [`Error::Range`].
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let len = range.end.saturating_sub(range.start);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.mapped(range.start, len, |p| {
            // SAFETY: `mapped` checked that `len` bytes lie at `p` and holds the lock; the vector is that long.
            unsafe { std::ptr::copy_nonoverlapping(p, bytes.as_mut_ptr(), bytes.len()) }
        })?;
        Ok(bytes)
    }

    /// Writes bytes at an offset. What the device reads at that moment is either: wait for its ticket first.
    ///
    /// # Errors
    /// [`Error::NotHostVisible`] for device memory, [`Error::Range`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.mapped(offset, bytes.len() as u64, |p| {
            // SAFETY: `mapped` checked that so many bytes lie at `p` and holds the lock.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len()) }
        })
    }

    /// Lets `fill` write a part in place. The caller knows that the device is not using it.
    pub(crate) fn write_with(
        &self,
        offset: u64,
        len: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        self.mapped(offset, len, |p| {
            // SAFETY: `mapped` checked that `len` bytes lie at `p` and holds the lock, so no other host access
            // overlaps; the memory is mapped, hence initialised as far as Rust can tell.
            fill(unsafe { std::slice::from_raw_parts_mut(p, len as usize) })
        })
    }

    fn mapped(&self, offset: u64, len: u64, use_it: impl FnOnce(*mut u8)) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(mapped) = &inner.mapped else {
            return Err(Error::NotHostVisible { label: inner.label.clone() });
        };
        check_range(self, offset, len)?;
        let start = lock(mapped);
        // SAFETY: the offset lies within the mapping.
        use_it(unsafe { start.0.add(offset as usize) });
        Ok(())
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer(`{}`, {} bytes, {:?})", self.label(), self.len(), self.kind())
    }
}

impl Drop for BufferInner {
    fn drop(&mut self) {
        let d = &self.device;
        d.allocated[self.heap].fetch_sub(self.allocated, Ordering::Relaxed);
        // SAFETY: commands in flight hold an `Arc` of this, so the device is done with it. Null is ignored.
        unsafe {
            d.raw.destroy_buffer(self.raw, None);
            d.raw.free_memory(self.memory, None);
        }
    }
}

/// A part of a buffer. Cheap to clone; keeps the buffer alive.
#[derive(Debug, Clone)]
pub struct Slice {
    buffer: Buffer,
    offset: u64,
    len: u64,
}

impl Slice {
    /// The buffer it is a part of.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Its first byte's place in the buffer.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device address of its first byte.
    pub fn address(&self) -> u64 {
        self.buffer.address() + self.offset
    }

    /// A part of it, at an offset within the slice.
    ///
    /// # Errors
    /// [`Error::Range`] when it does not lie inside.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Slice, Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {
                Ok(Slice { buffer: self.buffer.clone(), offset: self.offset + offset, len })
            }
            _ => Err(outside(self.buffer.label(), offset, len, self.len)),
        }
    }

    /// Reads all of it; see [`Buffer::read`].
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        self.buffer.read(self.offset..self.offset + self.len)
    }

    /// Reads all of it as values; its length must be a multiple of theirs.
    pub fn read_as<T: Pod>(&self) -> Result<Vec<T>, Error> {
        values(self.buffer.label(), &self.read()?)
    }

    /// Writes bytes at an offset within the slice; see [`Buffer::write`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let part = self.slice(offset, bytes.len() as u64)?;
        part.buffer.write(part.offset, bytes)
    }

    /// Writes values from its start.
    pub fn write_as<T: Pod>(&self, values: &[T]) -> Result<(), Error> {
        self.write(0, bytemuck::cast_slice(values))
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}

impl Device {
    /// [`Device::download`] as values; the slice's length must be a multiple of theirs.
    pub fn download_as<T: Pod>(&self, from: &Slice) -> Result<Vec<T>, Error> {
        values(from.buffer.label(), &self.download(from)?)
    }
}

fn values<T: Pod>(label: &str, bytes: &[u8]) -> Result<Vec<T>, Error> {
    let size = size_of::<T>().max(1);
    if !bytes.len().is_multiple_of(size) {
        let reason = format!("{} bytes are not whole values of {size}", bytes.len());
        return Err(Error::Range { label: label.into(), reason });
    }
    Ok(bytes.chunks_exact(size).map(bytemuck::pod_read_unaligned).collect())
}

fn check_range(buffer: &Buffer, offset: u64, len: u64) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= buffer.len() => Ok(()),
        _ => Err(outside(buffer.label(), offset, len, buffer.len())),
    }
}

fn outside(label: &str, offset: u64, len: u64, have: u64) -> Error {
    Error::Range { label: label.into(), reason: format!("{len} bytes at {offset} are outside its {have}") }
}
