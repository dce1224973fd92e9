//! What does not fit is refused with an error that names it, before the driver or the validation layer sees it.

mod common;
use common::*;
use zinc_vulkan::testing::{assert_valid, device};
use zinc_vulkan::*;

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn dispatches_that_do_not_fit_their_pipeline_or_the_device() {
    let device = device();
    let pipeline = affine(&device, 1);
    let x = device_words(&device, 64, |i| i);
    let mut recorder = recorder(&device, "refused");
    let good = [Binding::read(&x), Binding::write(&x)];
    let params = params(&[64, 1]);
    let op =
        Dispatch { pipeline: &pipeline, bindings: &good, params: &params, groups: [1, 1, 1], label: "gemv" };
    refused(
        recorder.dispatch(&Dispatch { params: &params[..4], ..op }),
        &["`gemv`", "4 bytes of params", "takes 8"],
    );
    refused(
        recorder.dispatch(&Dispatch { bindings: &good[..1], ..op }),
        &["`gemv`", "1 bindings", "takes 2"],
    );
    let groups = [1, u32::MAX, 1];
    if device.capabilities().limits.group_count[1] < u32::MAX {
        refused(
            recorder.dispatch(&Dispatch { groups, ..op }),
            &["`gemv`", "4294967295 workgroups in y", "fold"],
        );
    }
    let odd = x.slice(2, 100).unwrap();
    let bindings = [Binding::read(&odd), Binding::write(&x)];
    refused(recorder.dispatch(&Dispatch { bindings: &bindings, ..op }), &["multiple of 4"]);
    let counts = x.slice(0, 8).unwrap();
    let indirect = DispatchIndirect {
        pipeline: &pipeline,
        bindings: &good,
        params: &params,
        groups: &counts,
        label: "moe",
    };
    refused(recorder.dispatch_indirect(&indirect), &["`moe`", "12 bytes"]);
    recorder.dispatch(&Dispatch { groups: [0, 1, 1], ..op }).unwrap();
    let commands = recorder.finish().unwrap();
    assert_eq!(commands.stats().dispatches, 0);
    device.submit(&[&commands]).unwrap().wait().unwrap();
    assert_valid();
}

#[test]
fn transfers_with_ranges_that_do_not_fit() {
    let device = device();
    let x = device_words(&device, 64, |i| i);
    let mut recorder = recorder(&device, "refused");
    let part = |offset, len| x.slice(offset, len).unwrap();
    refused(recorder.copy(&part(0, 16), &part(16, 32)), &["16 bytes to 32"]);
    refused(recorder.copy(&part(0, 32), &part(16, 32)), &["overlap"]);
    refused(recorder.fill(&part(2, 4), 0), &["whole words"]);
    refused(recorder.fill(&part(4, 6), 0), &["whole words"]);
    recorder.copy(&part(0, 0), &part(16, 0)).unwrap();
    refused(x.slice(250, 7), &["`words`", "7 bytes at 250", "256"]);
    refused(x.slice(u64::MAX, 2), &["`words`"]);
    drop(recorder);
    assert_valid();
}

#[test]
fn host_access_to_device_memory_and_outside_of_buffers() {
    let device = device();
    let x = device.alloc(MemoryKind::Device, 64, "x").unwrap();
    refused(x.read(0..4), &["`x`", "device memory", "hint: "]);
    refused(x.write(0, &[1]), &["`x`", "device memory"]);
    let y = device.alloc(MemoryKind::Readback, 64, "y").unwrap();
    refused(y.read(60..65), &["`y`", "outside"]);
    refused(y.write(61, &[0; 4]), &["`y`", "outside"]);
    refused(y.slice(0, 63).unwrap().read_as::<u32>(), &["`y`", "whole values"]);
    refused(device.upload(&x.all(), &[0; 65]), &["65 bytes"]);
    y.write(60, &[1, 2, 3, 4]).unwrap();
    assert_eq!(y.read(61..63).unwrap(), [2, 3]);
    assert_valid();
}

#[test]
fn buffers_larger_than_the_device_allows() {
    let device = device();
    let limit = device.max_buffer();
    let error = device.alloc(MemoryKind::Device, limit + 1, "weights").unwrap_err();
    assert_eq!(error, Error::TooLarge { label: "weights".into(), bytes: limit + 1, limit });
    assert!(device.available(MemoryKind::Device) > 0);
    assert_valid();
}

#[test]
fn modules_that_do_not_fit_their_description() {
    let device = device();
    let spirv = subgroup_words();
    let desc = PipelineDesc { name: "broken", spirv: &spirv, ..desc(1, 0) };
    refused(device.pipeline(&PipelineDesc { bindings: 0, ..desc }), &["`broken`", "reads 8 bytes"]);
    refused(device.pipeline(&PipelineDesc { bindings: 15, params_bytes: 9, ..desc }), &["129 bytes"]);
    refused(device.pipeline(&PipelineDesc { entry: "other", ..desc }), &["no compute entry point `other`"]);
    refused(
        device.pipeline(&PipelineDesc { specialization: &[(7, 1)], ..desc }),
        &["no specialisation constant 7"],
    );
    refused(
        device.pipeline(&PipelineDesc { specialization: &[(0, 100_000)], ..desc }),
        &["100000 invocations"],
    );
    refused(device.pipeline(&PipelineDesc { spirv: &spirv[..9], ..desc }), &["`broken`"]);
    refused(device.pipeline(&PipelineDesc { spirv: &[1, 2, 3], ..desc }), &["not a SPIR-V module"]);
    let shared = shared_words();
    let device_has = device.capabilities().limits.shared_memory;
    let specialization = [(0, device_has / 256 + 1)];
    let desc = PipelineDesc { name: "tile", spirv: &shared, specialization: &specialization, ..desc };
    refused(device.pipeline(&desc), &["`tile`", "shared memory", &device_has.to_string()]);
    let specialization = [(0, device_has / 256)];
    let pipeline = device.pipeline(&PipelineDesc { specialization: &specialization, ..desc }).unwrap();
    assert_eq!(pipeline.reflection().shared_bytes, device_has / 256 * 256);
    assert_valid();
}
