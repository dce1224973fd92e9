//! How attention is cut into workgroups, by class of device.

use crate::launch::{refuse, threads};
use crate::{DeviceClass, Unsupported};
use zinc_vulkan::Capabilities;

/// Tuning of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionPolicy {
    /// Keys of a block.
    pub key_block: u32,
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Lanes that share a key, where a subgroup and the head have so many.
    pub key_lanes: u32,
    /// Most query heads of a KV head that share the loads of its keys and values.
    pub heads: u32,
    /// Invocations of a workgroup that joins the blocks.
    pub combine_threads: u32,
}

impl AttentionPolicy {
    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> AttentionPolicy {
        match class {
            // Measured on a Hopper card at 128 to 8,192 keys. Longer blocks gain a tenth at 8,192 and lose as much at 128.
            DeviceClass::Nvidia => {
                AttentionPolicy { key_block: 32, threads: 128, key_lanes: 8, heads: 4, combine_threads: 512 }
            }
            DeviceClass::Amd | DeviceClass::Other => {
                AttentionPolicy { key_block: 64, threads: 128, key_lanes: 8, heads: 4, combine_threads: 256 }
            }
            DeviceClass::Software => {
                AttentionPolicy { key_block: 32, threads: 64, key_lanes: 4, heads: 4, combine_threads: 64 }
            }
        }
    }
}

/// What the choice of a variant depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a query or key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
}

/// The specialisation of both kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Invocations of a workgroup.
    pub threads: u32,
    /// Query heads that a workgroup works on.
    pub heads: u32,
    /// Workgroups that share a KV head's query heads.
    pub splits: u32,
    /// Lanes that share a key.
    pub key_lanes: u32,
    /// Keys of a block.
    pub key_block: u32,
    /// Invocations of a workgroup that joins the blocks.
    pub combine_threads: u32,
}

/// The variant for a shape.
///
/// # Errors
/// Head sizes that are no multiple of 8 or above 1,024, query heads that do not divide among the KV heads, too little shared memory.
pub fn select(
    policy: &AttentionPolicy,
    subgroup_size: u32,
    caps: &Capabilities,
    shape: &Shape,
) -> Result<Variant, Unsupported> {
    let &Shape { heads, kv_heads, key_size, value_size } = shape;
    if [key_size, value_size].iter().any(|s| !(8..=1024).contains(s) || !s.is_multiple_of(8)) {
        let reason = format!("heads of {key_size} and {value_size}; multiples of 8 up to 1024 are possible");
        return refuse("attention", reason);
    }
    if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
        return refuse("attention", format!("{heads} query heads on {kv_heads} KV heads"));
    }
    let workgroup = threads(caps, subgroup_size, policy.threads.max(value_size / 8));
    // A power of two, no more than the head has 16-byte loads.
    let chunks = key_size / 8;
    let key_lanes = policy.key_lanes.min(subgroup_size).min(1 << chunks.ilog2());
    let key_block = policy.key_block.next_multiple_of(workgroup / key_lanes);
    let combine_threads = threads(caps, subgroup_size, policy.combine_threads.max(value_size / 4));
    if workgroup < value_size / 8 || combine_threads < value_size / 4 {
        return refuse("attention", format!("heads of {value_size} need larger workgroups than there are"));
    }
    let group = heads / kv_heads;
    let fits = |&n: &u32| {
        shared_bytes(workgroup, n, key_size, value_size, key_block) <= u64::from(caps.limits.shared_memory)
    };
    let Some(heads) = (1..=group.min(policy.heads)).rev().find(fits) else {
        return refuse("attention", format!("heads of {key_size} need more shared memory than there is"));
    };
    // Equal shares: 7 query heads at most 4 at a time are 4 and 3.
    let heads = group.div_ceil(group.div_ceil(heads));
    let splits = group.div_ceil(heads);
    Ok(Variant { threads: workgroup, heads, splits, key_lanes, key_block, combine_threads })
}

/// Shared memory of `attention.comp`.
fn shared_bytes(threads: u32, heads: u32, key_size: u32, value_size: u32, key_block: u32) -> u64 {
    let slices = threads / (value_size / 8);
    let floats = heads * key_size
        + key_block
        + heads * key_block
        + heads.min((512 / threads).max(1)) * slices * value_size;
    u64::from(floats) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_vulkan::{Limits, Subgroup};

    fn caps(shared_memory: u32) -> Capabilities {
        Capabilities {
            limits: Limits { shared_memory, workgroup_invocations: 1024, ..Default::default() },
            subgroup: Subgroup { max_workgroup_subgroups: 32, ..Default::default() },
            ..Default::default()
        }
    }

    #[test]
    fn every_shape_fits_in_the_least_shared_memory() {
        for class in [DeviceClass::Nvidia, DeviceClass::Amd, DeviceClass::Software, DeviceClass::Other] {
            for subgroup in [4, 8, 16, 32, 64] {
                for (heads, kv_heads, key_size, value_size) in [
                    (32, 8, 128, 128),
                    (14, 2, 64, 64),
                    (16, 2, 256, 256),
                    (32, 4, 512, 512),
                    (9, 3, 64, 64),
                    (1, 1, 192, 128),
                    (2, 2, 8, 512),
                ] {
                    let shape = Shape { heads, kv_heads, key_size, value_size };
                    let policy = AttentionPolicy::of(class);
                    let v = select(&policy, subgroup, &caps(32768), &shape).expect("a variant");
                    assert!(v.heads * v.splits >= heads / kv_heads && v.heads > 0);
                    assert!(v.threads.is_multiple_of(subgroup) && v.key_lanes <= subgroup);
                    assert!(
                        v.key_block.is_multiple_of(v.threads / v.key_lanes) && v.key_block.is_multiple_of(16)
                    );
                    assert!(v.threads >= value_size / 8 && v.combine_threads >= value_size / 4);
                }
            }
        }
    }

    #[test]
    fn what_is_impossible_is_refused() {
        let policy = AttentionPolicy::of(DeviceClass::Other);
        let shape = Shape { heads: 8, kv_heads: 2, key_size: 128, value_size: 128 };
        assert!(select(&policy, 32, &caps(4096), &shape).is_err());
        assert!(select(&policy, 32, &caps(32768), &Shape { key_size: 100, ..shape }).is_err());
        assert!(select(&policy, 32, &caps(32768), &Shape { kv_heads: 3, ..shape }).is_err());
    }
}
