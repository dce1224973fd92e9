//! Who works on a group: it fixes the order of its sum, so it depends on the group's size and the device alone.

use crate::{DeviceClass, Policy};

/// The lanes that sum a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Team {
    /// Value of the shaders' dimension `TEAM`.
    pub variant: &'static str,
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Groups that a workgroup works on.
    pub groups: u32,
}

/// Up to this many columns a subgroup takes a group.
const SUBGROUP_COLUMNS: u32 = 512;

impl Team {
    pub fn of(policy: &Policy, group: u32) -> Team {
        if group <= SUBGROUP_COLUMNS {
            let threads = policy.subgroup_size.max(128);
            return Team { variant: "subgroup", threads, groups: threads / policy.subgroup_size };
        }
        // Two loads of four columns a lane, then more of them.
        let most = if policy.class == DeviceClass::Software { 64 } else { 512 };
        let threads = group.div_ceil(8).next_power_of_two().clamp(64, most);
        Team { variant: "workgroup", threads, groups: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_share_a_workgroup_and_rows_have_one() {
        let policy =
            Policy { class: DeviceClass::Nvidia, subgroup_size: 32, ..Policy::of(&Default::default()) };
        assert_eq!(Team::of(&policy, 128), Team { variant: "subgroup", threads: 128, groups: 4 });
        assert_eq!(Team::of(&policy, 4096), Team { variant: "workgroup", threads: 512, groups: 1 });
        assert_eq!(Team::of(&policy, 576).threads, 128);
    }
}
