//! The open device: queue, features, errors, memory left.

use crate::buffer::Buffer;
use crate::cache::DiskCache;
use crate::pipeline::PipelineCacheMap;
use crate::submit::Timeline;
use crate::{Capabilities, Error, Instance, MemoryKind, Slice, memory, probe};
use ash::vk;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How to open a device.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// Where the pipeline cache lies.
    pub cache: CacheLocation,
    /// How long [`crate::Ticket::wait`] waits before it gives up.
    pub timeout: Duration,
    /// The lanes of a subgroup that [`Device::capabilities`] reports, and so what pipelines are made for, where the driver's own choice is
    /// not wanted: to compare.
    pub subgroup_size: Option<u32>,
    /// Keep what the driver's compiler says of each pipeline and makes of it ([`crate::Pipeline::statistics`], [`crate::Pipeline::assembly`]);
    /// pipelines are then compiled anew.
    pub statistics: bool,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            cache: CacheLocation::User,
            timeout: Duration::from_secs(60),
            subgroup_size: None,
            statistics: false,
        }
    }
}

/// Where the pipeline cache lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CacheLocation {
    /// `$ZINC_CACHE_DIR`, else `$XDG_CACHE_HOME/zinc`, else `~/.cache/zinc`.
    #[default]
    User,
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere.
    Off,
}

/// An open device with its compute queue. Clones share it; it closes when the last thing made from it is dropped.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
}

pub(crate) struct DeviceInner {
    pub raw: ash::Device,
    pub capabilities: Capabilities,
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub timeout: Duration,
    pub queue_family: u32,
    pub timeline: Mutex<Timeline>,
    pub semaphore: vk::Semaphore,
    pub layout: vk::PipelineLayout,
    pub pipelines: Mutex<PipelineCacheMap>,
    pub cache: DiskCache,
    /// Where statistics are kept.
    pub executables: Option<ash::khr::pipeline_executable_properties::Device>,
    pub utils: Option<ash::ext::debug_utils::Device>,
    pub allocated: [AtomicU64; vk::MAX_MEMORY_HEAPS],
    physical: vk::PhysicalDevice,
    lost: AtomicBool,
    next_id: AtomicU64,
    pub instance: Instance,
}

impl Device {
    /// Opens a device, with every optional feature that its capability record lists.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an index that is not there, [`Error::Unusable`], or what the driver says.
    pub fn open(instance: &Instance, index: usize, options: &DeviceOptions) -> Result<Device, Error> {
        let Some(physical) = instance.physical(index) else {
            let devices = instance.devices();
            let reasons = devices.iter().map(|d| format!("device {}: {}", d.index, d.name)).collect();
            return Err(Error::NoDevice { wish: index.to_string(), reasons });
        };
        let mut capabilities = instance.probe(physical, index);
        capabilities.subgroup.size = check(&capabilities, options)
            .map_err(|problems| Error::Unusable { device: capabilities.name.clone(), problems })?;
        let (raw, queue_family) =
            probe::create_device(&instance.inner.raw, physical, &capabilities, instance.layer())?;
        let executables = options
            .statistics
            .then(|| ash::khr::pipeline_executable_properties::Device::new(&instance.inner.raw, &raw));
        // SAFETY: the family and its first queue were asked for at creation.
        let queue = unsafe { raw.get_device_queue(queue_family, 0) };
        let cache = DiskCache::open(&raw, &instance.inner.raw, physical, &capabilities, &options.cache);
        let utils =
            instance.has_validation().then(|| ash::ext::debug_utils::Device::new(&instance.inner.raw, &raw));
        // SAFETY: the physical device is the instance's.
        let memory = unsafe { instance.inner.raw.get_physical_device_memory_properties(physical) };
        let mut inner = DeviceInner {
            raw,
            memory,
            timeout: options.timeout,
            queue_family,
            timeline: Mutex::new(Timeline { queue, last: 0 }),
            semaphore: vk::Semaphore::null(),
            layout: vk::PipelineLayout::null(),
            pipelines: Mutex::default(),
            cache,
            executables,
            utils,
            allocated: std::array::from_fn(|_| AtomicU64::new(0)),
            physical,
            lost: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            instance: instance.clone(),
            capabilities,
        };
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timeline semaphores are enabled; `inner` destroys it.
        inner.semaphore =
            inner.check("create a semaphore", unsafe { inner.raw.create_semaphore(&info, None) })?;
        let push = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(crate::pipeline::PUSH_CONSTANTS)];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&push);
        // SAFETY: 128 bytes are guaranteed; `inner` destroys it.
        inner.layout = inner
            .check("create the pipeline layout", unsafe { inner.raw.create_pipeline_layout(&info, None) })?;
        Ok(Device { inner: Arc::new(inner) })
    }

    /// What the device can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    /// The instance it belongs to.
    pub fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    /// Whether the driver gave the device up. Everything fails with [`Error::DeviceLost`] from then on.
    pub fn is_lost(&self) -> bool {
        self.inner.lost.load(Ordering::Relaxed)
    }

    /// Allocates a buffer of its own memory. Meant for few big ones (see [`crate::ArenaPlan`]) and for tests.
    /// The contents are undefined. Zero bytes give a buffer of length zero.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::DeviceLost`].
    pub fn alloc(&self, kind: MemoryKind, bytes: u64, label: &str) -> Result<Buffer, Error> {
        Buffer::alloc(self, kind, bytes, label)
    }

    /// The largest buffer that [`Device::alloc`] can give: the smaller of the limits on allocations and buffers,
    /// in whole 256 bytes.
    pub fn max_buffer(&self) -> u64 {
        let limits = &self.inner.capabilities.limits;
        limits.max_allocation.min(limits.max_buffer) / 256 * 256
    }

    /// Bytes still free in the heap that serves this kind: by the driver's budget where it tells one, else the
    /// heap's size less what was allocated here.
    pub fn available(&self, kind: MemoryKind) -> u64 {
        match memory::memory_type(&self.inner.memory, kind, u32::MAX) {
            Some(t) => self.inner.available(self.inner.memory.memory_types[t as usize].heap_index as usize),
            None => 0,
        }
    }

    /// Copies bytes to a slice of any kind of memory and waits; for tests and small things.
    pub fn upload(&self, to: &Slice, bytes: &[u8]) -> Result<(), Error> {
        let staging = self.alloc(MemoryKind::Upload, to.len(), "upload")?;
        staging.write(0, bytes)?;
        self.copy_and_wait(&staging.slice(0, bytes.len() as u64)?, to)
    }

    /// Copies a slice of any kind of memory to the host and waits; for tests and small things.
    pub fn download(&self, from: &Slice) -> Result<Vec<u8>, Error> {
        let staging = self.alloc(MemoryKind::Readback, from.len(), "download")?;
        self.copy_and_wait(from, &staging.all())?;
        staging.read(0..from.len())
    }

    fn copy_and_wait(&self, from: &Slice, to: &Slice) -> Result<(), Error> {
        let options = crate::RecorderOptions { label: "copy".into(), ..Default::default() };
        let mut recorder = self.recorder(&options)?;
        recorder.copy(from, to)?;
        let commands = recorder.finish()?;
        self.submit(&[&commands])?.wait()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.inner.capabilities.name)
    }
}

/// The subgroup size to report, or why the device cannot be opened so.
fn check(caps: &Capabilities, options: &DeviceOptions) -> Result<u32, Vec<String>> {
    if !caps.usable() {
        return Err(caps.problems.clone());
    }
    if options.statistics && !caps.features.pipeline_statistics {
        return Err(vec!["its driver has no statistics of pipelines".into()]);
    }
    match options.subgroup_size {
        None => Ok(caps.subgroup.size),
        Some(size) if caps.supports_subgroup_size(size) => Ok(size),
        Some(size) => Err(vec![format!("it has no subgroups of {size} lanes")]),
    }
}

impl DeviceInner {
    /// Turns an error code into an error that names the call; a lost device is remembered.
    pub fn check<T>(&self, what: &str, result: ash::prelude::VkResult<T>) -> Result<T, Error> {
        result.map_err(|e| match e {
            vk::Result::ERROR_DEVICE_LOST => {
                self.lost.store(true, Ordering::Relaxed);
                Error::DeviceLost { what: what.into() }
            }
            e => crate::instance::vulkan(what, e),
        })
    }

    /// An error if the device was lost before.
    pub fn alive(&self, what: &str) -> Result<(), Error> {
        match self.lost.load(Ordering::Relaxed) {
            true => Err(Error::DeviceLost { what: what.into() }),
            false => Ok(()),
        }
    }

    /// A number that no other buffer or pipeline of this device has.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn available(&self, heap: usize) -> u64 {
        if self.capabilities.features.memory_budget {
            let heaps = probe::heaps(&self.instance.inner.raw, self.physical, true);
            if let Some(b) = heaps.get(heap).and_then(|h| h.budget) {
                return b.budget.saturating_sub(b.used);
            }
        }
        self.memory.memory_heaps[heap].size.saturating_sub(self.allocated[heap].load(Ordering::Relaxed))
    }

    /// Gives an object a name that validation messages show.
    pub fn name<T: vk::Handle>(&self, object: T, label: &str) {
        let Some(utils) = &self.utils else { return };
        let Ok(label) = std::ffi::CString::new(label) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&label);
        // SAFETY: the object is alive and the caller's own; a failed naming changes nothing.
        let _ = unsafe { utils.set_debug_utils_object_name(&info) };
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        // Commands wait for themselves when dropped, so the queue is idle unless a wait ran out; then destroying
        // objects in use could crash the driver, and leaving them to the end of the process is better.
        let last = lock(&self.timeline).last;
        if self.wait_value(last, "closing the device").is_err() && !self.lost.load(Ordering::Relaxed) {
            std::mem::forget(self.instance.clone());
            return;
        }
        self.cache.save(&self.raw);
        // SAFETY: everything made from the device holds an `Arc` of it, so only these objects are left, and the
        // queue is idle or the device lost. Null handles are ignored.
        unsafe {
            self.cache.destroy(&self.raw);
            self.raw.destroy_pipeline_layout(self.layout, None);
            self.raw.destroy_semaphore(self.semaphore, None);
            self.raw.destroy_device(None);
        }
    }
}

/// Locks even if another thread panicked: nothing here is left half-done by one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
