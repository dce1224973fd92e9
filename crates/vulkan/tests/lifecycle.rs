//! Instances and devices of the tests' own: teardown in order, the pipeline cache on disk, errors on opening.

mod common;
use common::*;
use std::path::Path;
use zinc_vulkan::*;

fn open(cache: CacheLocation) -> (Device, ValidationLog) {
    let instance = Instance::new(&InstanceOptions { validation: true }).unwrap();
    let index = instance.devices().iter().position(|d| d.is_software()).expect("a software driver");
    let device = Device::open(&instance, index, &DeviceOptions { cache, ..Default::default() }).unwrap();
    (device, instance.validation_log())
}

#[test]
fn everything_is_destroyed_in_order_whatever_is_dropped_first() {
    let (device, log) = open(CacheLocation::Off);
    let x = device_words(&device, 64, |i| i);
    let pipeline = affine(&device, 1);
    let mut recorder = recorder(&device, "last");
    let bindings = [Binding::read(&x), Binding::write(&x)];
    let (params, groups, label) = (&params(&[64, 1])[..], [1, 1, 1], "affine");
    recorder.dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label }).unwrap();
    let commands = recorder.finish().unwrap();
    let ticket = device.submit(&[&commands]).unwrap();
    let half_recorded = self::recorder(&device, "never finished");
    let mut ring = StagingRing::new(&device, 1 << 20).unwrap();
    ring.upload(&x, &[0; 256]).unwrap();
    drop((device, pipeline, x, ring, half_recorded));
    drop(commands);
    ticket.wait().unwrap();
    drop(ticket);
    assert_eq!(log.messages(), Vec::<String>::new(), "the layer also reports what was leaked");
}

fn cache_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_pipeline_cache_is_written_reloaded_and_replaced_when_broken() {
    let folder = tempfile::tempdir().unwrap();
    let cache = || CacheLocation::Folder(folder.path().join("deep/zinc"));
    let run = || {
        let (device, log) = open(cache());
        let pipeline = affine(&device, 1);
        drop((pipeline, device));
        assert_eq!(log.messages(), Vec::<String>::new());
        let files = cache_files(&folder.path().join("deep/zinc"));
        assert_eq!(files.len(), 1, "no temporary file stays behind: {files:?}");
        (files[0].clone(), std::fs::read(&files[0]).unwrap())
    };
    let (file, first) = run();
    assert!(first.len() >= 24 + 32, "the driver's data is in it");
    let (_, again) = run();
    assert_eq!(first.len(), again.len());
    let foreign = {
        let mut bytes = first.clone();
        bytes[24 + 20] ^= 1; // the driver's uuid
        bytes
    };
    for bad in [&b""[..], b"zincpc01", &first[..first.len() - 1], &foreign, &[0xff; 500]] {
        std::fs::write(&file, bad).unwrap();
        let (_, repaired) = run();
        assert_eq!(repaired.len(), first.len(), "a broken file is replaced");
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_the_list() {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = instance.devices();
    let error = Device::open(&instance, devices.len(), &DeviceOptions::default()).unwrap_err();
    assert!(error.to_string().contains(&devices[0].name), "{error}");
    assert!(instance.validation_messages().is_empty() && !instance.has_validation());
}

#[test]
fn the_software_driver_is_probed() {
    let instance = Instance::new(&InstanceOptions { validation: true }).unwrap();
    let devices = instance.devices();
    let device = devices.iter().find(|d| d.is_software()).expect("a software driver");
    assert!(device.usable(), "{:?}", device.problems);
    assert!(device.subgroup.size >= 4 && device.subgroup.operations.arithmetic);
    assert!(device.features.shader_f16 && device.features.storage_8bit && device.features.storage_16bit);
    assert!(device.limits.push_constants >= 128 && device.limits.timestamp_bits > 0);
    assert!(device.heaps.iter().any(|h| h.device_local && h.bytes > 0));
    assert!(!device.driver.is_empty() && !device.driver_version.is_empty());
    let choice = choose(&devices, &DeviceWish::NameContains("llvm".into()), false).unwrap();
    assert_eq!(choice.index, device.index);
    assert_eq!(instance.validation_messages(), Vec::<String>::new());
}
