//! Kinds of memory and which memory type of the device serves each.

use ash::vk::{self, MemoryPropertyFlags as Flags};

/// Where a buffer lies and who reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Device memory; the host reaches it only by copies.
    Device,
    /// Host memory that the device reads: written by the host, coherent.
    Upload,
    /// Host memory that the device writes: read by the host, cached where possible, coherent.
    Readback,
}

/// Picks a memory type out of those in `allowed` (a bit each): the first whose flags hold the most preferred set.
pub(crate) fn memory_type(
    memory: &vk::PhysicalDeviceMemoryProperties,
    kind: MemoryKind,
    allowed: u32,
) -> Option<u32> {
    let mapped = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    // (must have, must not have), best first. Every device has a coherent host-visible type.
    let wishes: &[(Flags, Flags)] = match kind {
        MemoryKind::Device => &[
            (Flags::DEVICE_LOCAL, Flags::HOST_VISIBLE),
            (Flags::DEVICE_LOCAL, Flags::empty()),
            (Flags::empty(), Flags::empty()),
        ],
        MemoryKind::Upload => &[(mapped, Flags::DEVICE_LOCAL), (mapped, Flags::empty())],
        MemoryKind::Readback => &[
            (mapped | Flags::HOST_CACHED, Flags::DEVICE_LOCAL),
            (mapped | Flags::HOST_CACHED, Flags::empty()),
            (mapped, Flags::empty()),
        ],
    };
    let exotic = Flags::PROTECTED | Flags::LAZILY_ALLOCATED | Flags::DEVICE_COHERENT_AMD;
    let types = memory.memory_types_as_slice();
    let heap_bytes = |t: u32| memory.memory_heaps[types[t as usize].heap_index as usize].size;
    wishes.iter().find_map(|&(with, without)| {
        (0..types.len() as u32)
            .filter(|&t| allowed >> t & 1 == 1)
            .filter(|&t| {
                let flags = types[t as usize].property_flags;
                flags.contains(with) && !flags.intersects(without | exotic)
            })
            // the largest heap, and of its types the first, which the driver ranks best
            .max_by_key(|&t| (heap_bytes(t), std::cmp::Reverse(t)))
    })
}
