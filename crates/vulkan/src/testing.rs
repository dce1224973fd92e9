//! For tests, here and in the crates above: one device for the whole process, opened with validation.
//!
//! With Mesa 26 (`scripts/mesa26.sh`) the layer can also check every address that a shader uses against the buffers
//! there are, which catches a kernel that reads or writes outside:
//! `VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT .mesa26/run TEST`. Debian 12's layer hangs
//! on it; Mesa 26's may abort after the last test, because this device is never closed: the results above stand.

use crate::{CacheLocation, Device, DeviceOptions, DeviceWish, Instance, InstanceOptions, choose};
use std::sync::OnceLock;
use std::time::Duration;

/// The device that tests run on: the one whose name contains `$ZINC_TEST_DEVICE`, else the software driver. Opened
/// once a process, with the validation layer (unless `$ZINC_TEST_VALIDATION` is `0`) and no pipeline cache.
///
/// # Panics
/// When there is no loader, no validation layer or no such device: a test without a device fails, it does not pass
/// unseen.
#[allow(clippy::panic)]
pub fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let open = || {
        let validation = std::env::var("ZINC_TEST_VALIDATION").as_deref() != Ok("0");
        let instance = Instance::new(&InstanceOptions { validation })?;
        let devices = instance.devices();
        let wish = match std::env::var("ZINC_TEST_DEVICE") {
            Ok(name) if !name.is_empty() => DeviceWish::NameContains(name),
            _ => match devices.iter().position(|d| d.is_software()) {
                Some(index) => DeviceWish::Index(index),
                None => DeviceWish::NameContains("llvmpipe".into()),
            },
        };
        let choice = choose(&devices, &wish, true)?;
        // Big work on a software driver, on a busy machine.
        let timeout = Duration::from_secs(300);
        let options = DeviceOptions { cache: CacheLocation::Off, timeout, ..Default::default() };
        Device::open(&instance, choice.index, &options)
    };
    let opened = DEVICE.get_or_init(|| open().unwrap_or_else(|e| panic!("no device to test on: {e}")));
    opened.clone()
}

/// Fails the test if the validation layer had anything to say about the device of [`device`] so far.
///
/// # Panics
/// With the layer's messages.
pub fn assert_valid() {
    let messages = device().instance().validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}
