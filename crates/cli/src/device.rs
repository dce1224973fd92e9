//! A Vulkan device for commands that use one without a model.

use zinc_vulkan::{Device, DeviceOptions, DeviceWish, Error, Instance, InstanceOptions, choose};

/// Opens the device of a wish and says why it is that one. A software driver is taken where it is named, or last where allowed.
pub fn open(
    wish: &DeviceWish,
    allow_software: bool,
    validation: bool,
) -> Result<(Device, Vec<String>), Error> {
    let instance = Instance::new(&InstanceOptions { validation })?;
    let choice = choose(&instance.devices(), wish, allow_software)?;
    Ok((Device::open(&instance, choice.index, &DeviceOptions::default())?, choice.reasons))
}
