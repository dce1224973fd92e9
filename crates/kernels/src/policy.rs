//! Tuning constants by class of device: data alone. Nothing else in the workspace knows device classes.

use zinc_vulkan::Capabilities;

/// Devices that want the same constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// NVIDIA cards: subgroups of 32, many registers, L1 shared with shared memory.
    Nvidia,
    /// AMD cards: subgroups of 64 or 32.
    Amd,
    /// Software drivers: a workgroup runs on one core, so small ones.
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
}

impl Policy {
    /// The policy of a device's class.
    pub fn of(caps: &Capabilities) -> Policy {
        Policy { class: DeviceClass::of(caps), subgroup_size: caps.subgroup.size }
    }
}
