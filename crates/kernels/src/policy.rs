//! Tuning constants by class of device: data alone. Nothing else in the workspace knows device classes.

use crate::attention::AttentionPolicy;
use zinc_vulkan::Capabilities;

/// Devices that want the same constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// NVIDIA cards: subgroups of 32, many registers, L1 shared with shared memory.
    Nvidia,
    /// AMD cards: subgroups of 64 or 32.
    Amd,
    /// Software drivers: one core a workgroup.
    Software,
    /// Everything else.
    Other,
}

impl DeviceClass {
    /// The class of a device.
    pub fn of(caps: &Capabilities) -> DeviceClass {
        match caps.vendor_id {
            _ if caps.is_software() => DeviceClass::Software,
            0x10de => DeviceClass::Nvidia,
            0x1002 => DeviceClass::Amd,
            _ => DeviceClass::Other,
        }
    }
}

/// Tuning for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The class.
    pub class: DeviceClass,
    /// Lanes of a subgroup, required of every pipeline.
    pub subgroup_size: u32,
    /// Matrix-vector products.
    pub gemv: GemvPolicy,
    /// Attention.
    pub attention: AttentionPolicy,
}

/// Tuning of matrix-vector products.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GemvPolicy {
    /// Weight rows of a subgroup, both matrices' where there is a gate, by columns 1 to 8. Does not change results.
    pub rows: [u32; 8],
    /// Subgroups that the device keeps busy: K is split until rows · split reaches it. The split changes the order of sums, so
    /// it depends on the shape alone, never on the columns.
    pub busy_subgroups: u32,
    /// Largest split.
    pub max_split: u32,
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Load a lane's next chunk before its present one is used.
    pub ahead: bool,
    /// Shared memory of a workgroup for staging x; 0: lanes read x themselves. Does not change results.
    pub stage_bytes: u32,
}

impl Policy {
    /// The policy of a device's class.
    pub fn of(caps: &Capabilities) -> Policy {
        let class = DeviceClass::of(caps);
        Policy {
            class,
            subgroup_size: caps.subgroup.size,
            gemv: gemv(class),
            attention: AttentionPolicy::of(class),
        }
    }
}

fn gemv(class: DeviceClass) -> GemvPolicy {
    match class {
        DeviceClass::Nvidia => GemvPolicy {
            rows: [4, 4, 2, 2, 2, 2, 2, 2],
            busy_subgroups: 16_384,
            max_split: 4,
            subgroups: 4,
            ahead: false,
            stage_bytes: 0,
        },
        DeviceClass::Amd | DeviceClass::Other => GemvPolicy {
            rows: [2; 8],
            busy_subgroups: 4_096,
            max_split: 4,
            subgroups: 4,
            ahead: false,
            // Every device has 16 KiB, and some of it holds sums.
            stage_bytes: 15 << 10,
        },
        DeviceClass::Software => GemvPolicy {
            rows: [1; 8],
            busy_subgroups: 1,
            max_split: 1,
            subgroups: 1,
            ahead: false,
            stage_bytes: 0,
        },
    }
}
