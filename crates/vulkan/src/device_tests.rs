use super::*;
use crate::{Commands, InstanceOptions, Recorder, RecorderOptions};

fn open() -> Device {
    let instance = Instance::new(&InstanceOptions { validation: true }).unwrap();
    let index = instance.devices().iter().position(|d| d.is_software()).expect("a software driver");
    let options = DeviceOptions { cache: CacheLocation::Off, ..Default::default() };
    Device::open(&instance, index, &options).unwrap()
}

#[test]
fn after_a_loss_everything_fails_at_once_and_teardown_does_not_hang() {
    let device = open();
    let log = device.instance().validation_log();
    let x = device.alloc(MemoryKind::Device, 1024, "x").unwrap().all();
    let mut recorder =
        device.recorder(&RecorderOptions { label: "step".into(), ..Default::default() }).unwrap();
    recorder.fill(&x, 1).unwrap();
    let commands = recorder.finish().unwrap();
    let ticket = device.submit(&[&commands]).unwrap();
    ticket.wait().unwrap();
    assert!(!device.is_lost());

    // As when the driver answers a call with VK_ERROR_DEVICE_LOST.
    let lost = |what: &str| Error::DeviceLost { what: what.into() };
    let answer: Result<(), Error> = device.inner.check("step", Err(vk::Result::ERROR_DEVICE_LOST));
    assert_eq!(answer, Err(lost("step")));
    assert!(device.is_lost());
    assert_eq!(device.submit(&[&commands]).unwrap_err(), lost("step"));
    assert_eq!(ticket.wait(), Err(lost("step")));
    assert_eq!(ticket.done(), Err(lost("step")));
    assert_eq!(device.wait_idle(), Err(lost("all submissions")));
    assert_eq!(device.alloc(MemoryKind::Device, 4, "y").unwrap_err(), lost("y"));
    assert!(device.download(&x).is_err());
    drop((device, commands, x, ticket));
    assert_eq!(log.messages(), Vec::<String>::new());
}

#[test]
fn what_a_device_does_not_have_cannot_be_asked_of_it() {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let caps = instance.devices().into_iter().find(|d| d.is_software()).expect("a software driver");
    let open = |options: DeviceOptions| Device::open(&instance, caps.index, &options);
    let off = || DeviceOptions { cache: CacheLocation::Off, ..Default::default() };
    for size in [0, 3, 2 * caps.subgroup.max_size] {
        let opened = open(DeviceOptions { subgroup_size: Some(size), ..off() });
        assert!(matches!(opened, Err(Error::Unusable { .. })), "subgroups of {size}");
    }
    let same = open(DeviceOptions { subgroup_size: Some(caps.subgroup.size), ..off() }).unwrap();
    assert_eq!(same.capabilities().subgroup, caps.subgroup);
    let kept = open(DeviceOptions { statistics: true, ..off() });
    assert_eq!(kept.is_ok(), caps.features.pipeline_statistics);
}

#[test]
fn what_is_used_from_several_threads_may_be() {
    fn send<T: Send>() {}
    fn sync<T: Send + Sync>() {}
    sync::<Device>();
    sync::<Buffer>();
    sync::<Slice>();
    sync::<Commands>();
    sync::<crate::Pipeline>();
    sync::<crate::Ticket>();
    send::<Recorder>();
    send::<crate::StagingRing>();
}
