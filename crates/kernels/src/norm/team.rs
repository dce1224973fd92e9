//! Who works on a group: it fixes the order of its sum, so it depends on the group's size and the device alone.

use crate::{DeviceClass, Kernels};

/// The lanes that sum a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Team {
    /// Value of the shaders' dimension `TEAM`.
    pub variant: &'static str,
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Groups that a workgroup works on.
    pub groups: u32,
}

/// Up to this many columns a subgroup takes a group.
pub(crate) const SUBGROUP_COLUMNS: u32 = 512;

impl Team {
    pub fn of(k: &Kernels, group: u32) -> Team {
        if group <= SUBGROUP_COLUMNS {
            let threads = k.threads(128);
            return Team { variant: "subgroup", threads, groups: threads / k.subgroup_size() };
        }
        Team { variant: "workgroup", threads: Team::workgroup(k, group), groups: 1 }
    }

    /// Invocations of a workgroup that takes a group.
    pub fn workgroup(k: &Kernels, group: u32) -> u32 {
        // Two loads of four columns a lane, then more of them.
        let most = if k.policy().class == DeviceClass::Software { 64 } else { 512 };
        k.threads(group.div_ceil(8).next_power_of_two().clamp(64, most))
    }
}
