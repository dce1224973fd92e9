//! The pipeline cache on disk: one file for each device and driver version. A file that is corrupt or another
//! driver's is ignored and replaced.

use crate::device::lock;
use crate::{CacheLocation, Capabilities};
use ash::vk;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const MAGIC: &[u8; 8] = b"zincpc01";
/// Magic, checksum and length.
const HEADER: usize = 24;

pub(crate) struct DiskCache {
    raw: vk::PipelineCache,
    file: Option<PathBuf>,
    /// Checksum of what lies in the file.
    saved: Mutex<Option<u64>>,
}

impl DiskCache {
    /// Makes the driver's cache object, filled from the file where there is a good one. Never fails: without a
    /// cache everything works, only slower.
    pub fn open(
        device: &ash::Device,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        capabilities: &Capabilities,
        location: &CacheLocation,
    ) -> DiskCache {
        // SAFETY: the physical device is the instance's.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let uuid: String = properties.pipeline_cache_uuid.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!(
            "pipelines-{:04x}-{:04x}-{:08x}-{uuid}.bin",
            capabilities.vendor_id, capabilities.device_id, properties.driver_version
        );
        let file = location.folder().map(|f| f.join(name));
        let data = file.as_deref().and_then(|f| read(f, &properties));
        let saved = Mutex::new(data.as_deref().map(checksum));
        let data = data.unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: the data is this driver's own (header and checksum agree) or empty.
        let raw = unsafe { device.create_pipeline_cache(&info, None) }.unwrap_or_default();
        DiskCache { raw, file, saved }
    }

    pub fn raw(&self) -> vk::PipelineCache {
        self.raw
    }

    /// Writes the file if there is something new. A failure costs only the time to compile again.
    pub fn save(&self, device: &ash::Device) {
        let Some(file) = &self.file else { return };
        if self.raw == vk::PipelineCache::null() {
            return;
        }
        // SAFETY: the cache is the device's.
        let Ok(data) = (unsafe { device.get_pipeline_cache_data(self.raw) }) else { return };
        let mut saved = lock(&self.saved);
        let sum = checksum(&data);
        if *saved != Some(sum) && write(file, &data, sum).is_ok() {
            *saved = Some(sum);
        }
    }

    /// # Safety
    /// The cache must be the device's, in no one's use, and not be used afterwards.
    pub unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: by contract; null is ignored.
        unsafe { device.destroy_pipeline_cache(self.raw, None) };
    }
}

impl CacheLocation {
    /// The folder, whether or not it exists; `None` where nothing is kept.
    pub fn folder(&self) -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        match self {
            CacheLocation::Off => None,
            CacheLocation::Folder(folder) => Some(folder.clone()),
            CacheLocation::User => variable("ZINC_CACHE_DIR")
                .or_else(|| variable("XDG_CACHE_HOME").map(|d| d.join("zinc")))
                .or_else(|| variable("HOME").map(|d| d.join(".cache/zinc"))),
        }
    }
}

/// The driver's data in a cache file, if it is whole and this device's.
fn read(file: &Path, properties: &vk::PhysicalDeviceProperties) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).ok()?;
    let (header, data) = bytes.split_at_checked(HEADER)?;
    let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let whole = header.starts_with(MAGIC) && word(8)? == checksum(data) && word(16)? == data.len() as u64;
    // VkPipelineCacheHeaderVersionOne: length, version, vendor, device, uuid.
    let id = |at: usize| data.get(at..at + 4)?.try_into().map(u32::from_le_bytes).ok();
    let ours = id(4)? == 1
        && id(8)? == properties.vendor_id
        && id(12)? == properties.device_id
        && data.get(16..32)? == properties.pipeline_cache_uuid;
    (whole && ours).then(|| data.to_vec())
}

/// Writes beside the file and renames, so that another process sees the old file or the new one, whole.
fn write(file: &Path, data: &[u8], sum: u64) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let temporary = file.with_extension(format!("tmp{}", std::process::id()));
    let written = std::fs::File::create(&temporary).and_then(|mut f| {
        f.write_all(MAGIC)?;
        f.write_all(&sum.to_le_bytes())?;
        f.write_all(&(data.len() as u64).to_le_bytes())?;
        f.write_all(data)
    });
    let done = written.and_then(|()| std::fs::rename(&temporary, file));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

/// FNV-1a, 64 bits.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf29ce484222325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100000001b3))
}
