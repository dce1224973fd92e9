use super::*;
use crate::{Limits, Subgroup};

fn rdna() -> Capabilities {
    let subgroup = Subgroup {
        size: 64,
        min_size: 32,
        max_size: 64,
        max_workgroup_subgroups: 32,
        size_control: true,
        required_size: true,
        full_subgroups: true,
        ..Default::default()
    };
    let limits = Limits {
        shared_memory: 65536,
        workgroup_invocations: 1024,
        workgroup_size: [1024, 1024, 64],
        push_constants: 256,
        ..Default::default()
    };
    Capabilities { subgroup, limits, ..Default::default() }
}

#[test]
fn a_pipeline_is_checked_against_device_and_module_before_the_driver_sees_it() {
    let r = |workgroup_size, push_constant_bytes, shared_bytes| Reflection {
        workgroup_size,
        push_constant_bytes,
        shared_bytes,
        ..Default::default()
    };
    let table = [
        (r([256, 1, 1], 24, 0), Some(32), 2, 8, None),
        (r([64, 16, 1], 128, 65536), Some(64), 8, 64, None),
        (r([7, 1, 1], 8, 0), None, 1, 0, None),
        (r([64, 1, 1], 0, 0), None, 16, 1, Some("129 bytes of push constants, 128 are possible")),
        (r([64, 1, 1], 0, 0), None, u32::MAX, u32::MAX, Some("push constants")),
        (r([64, 1, 1], 32, 0), None, 2, 8, Some("the shader reads 32 bytes")),
        (r([2048, 1, 1], 8, 0), None, 1, 0, Some("2048 invocations")),
        (r([1, 1, 128], 8, 0), None, 1, 0, Some("1024x1024x64")),
        (r([0, 1, 1], 8, 0), None, 1, 0, Some("0 invocations")),
        (r([64, 1, 1], 8, 65540), None, 1, 0, Some("65540 bytes of shared memory, the device has 65536")),
        (r([64, 1, 1], 8, 0), Some(16), 1, 0, Some("a subgroup size of 16 is required")),
        (r([64, 1, 1], 8, 0), Some(48), 1, 0, Some("a subgroup size of 48 is required")),
        (r([32, 2, 1], 8, 0), Some(64), 1, 0, Some("no multiple of the required subgroup size 64")),
    ];
    for (reflection, subgroup_size, bindings, params_bytes, expected) in table {
        let desc = PipelineDesc {
            name: "gemv",
            spirv: &[],
            entry: "main",
            specialization: &[],
            subgroup_size,
            bindings,
            params_bytes,
        };
        match (check(&desc, &reflection, &rdna()), expected) {
            (Ok(()), None) => {}
            (Err(reason), Some(part)) => assert!(reason.contains(part), "{reason}"),
            (result, _) => panic!("{reflection:?}: {result:?}, expected {expected:?}"),
        }
    }
}
