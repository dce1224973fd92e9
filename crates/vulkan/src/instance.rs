//! The loader, the instance and, when asked for, the validation layer with its messages.

use crate::{Capabilities, Error, probe};
use ash::vk;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// How to make an instance.
#[derive(Debug, Clone, Default)]
pub struct InstanceOptions {
    /// Load the Khronos validation layer and collect what it says; an error where it is not installed.
    pub validation: bool,
}

/// What the validation layer said. Clones share one list, which outlives the instance: teardown can be checked too.
#[derive(Debug, Clone, Default)]
pub struct ValidationLog(Arc<Mutex<Vec<String>>>);

impl ValidationLog {
    /// The warnings and errors so far; always empty without validation.
    pub fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn push(&self, message: String) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(message);
    }
}

/// The Vulkan loader and an instance of it. Clones share it.
#[derive(Clone)]
pub struct Instance {
    pub(crate) inner: Arc<InstanceInner>,
}

pub(crate) struct InstanceInner {
    pub raw: ash::Instance,
    physical: Vec<vk::PhysicalDevice>,
    /// The Vulkan version that the validation layer, where it is loaded, was written for.
    layer: Option<u32>,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    // The messenger's user data points at this; it is freed after the instance is destroyed.
    log: Box<ValidationLog>,
    entry: ash::Entry,
}

impl Instance {
    /// Loads the loader and makes an instance.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::NoValidationLayer`], or what the driver says.
    pub fn new(options: &InstanceOptions) -> Result<Instance, Error> {
        let no_loader = |detail: String| Error::NoLoader { detail };
        // SAFETY: loading the system's Vulkan loader; its initialisers are trusted like any system library's.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| no_loader(e.to_string()))?;
        // SAFETY: the entry points were just loaded; the call has no preconditions.
        let version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(|e| no_loader(e.to_string()))?
            .unwrap_or(vk::API_VERSION_1_0);
        if version < vk::API_VERSION_1_3 {
            let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
            return Err(no_loader(format!("it knows Vulkan {major}.{minor}, 1.3 is needed")));
        }
        // SAFETY: no preconditions.
        let extensions = unsafe { entry.enumerate_instance_extension_properties(None) }
            .map_err(|e| vulkan("list instance extensions", e))?;
        let has = |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));

        let mut layers = Vec::new();
        let mut enabled = Vec::new();
        let mut layer = None;
        if options.validation {
            // SAFETY: no preconditions.
            let present = unsafe { entry.enumerate_instance_layer_properties() }
                .map_err(|e| vulkan("list layers", e))?;
            let Some(found) = present.iter().find(|l| l.layer_name_as_c_str() == Ok(VALIDATION)) else {
                return Err(Error::NoValidationLayer);
            };
            layer = Some(found.spec_version);
            layers.push(VALIDATION.as_ptr());
            enabled.push(ash::ext::debug_utils::NAME.as_ptr());
        }
        let mut flags = vk::InstanceCreateFlags::empty();
        if has(ash::khr::portability_enumeration::NAME) {
            enabled.push(ash::khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }

        let log = Box::new(ValidationLog::default());
        let mut messenger_info = messenger_info(&log);
        let app = vk::ApplicationInfo::default()
            .application_name(c"zinc")
            .engine_name(c"zinc")
            .api_version(vk::API_VERSION_1_3);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&app)
            .flags(flags)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&enabled);
        if options.validation {
            info = info.push_next(&mut messenger_info); // also hears creation and destruction
        }
        // SAFETY: `info` and everything it points at live until the call returns; names are NUL-terminated.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|e| match e {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => no_loader("no driver is installed".into()),
            e => vulkan("create the instance", e),
        })?;
        let messenger = match options.validation {
            false => None,
            true => {
                let utils = ash::ext::debug_utils::Instance::new(&entry, &raw);
                let info = self::messenger_info(&log);
                // SAFETY: the extension is enabled; the user data lives as long as the instance.
                let messenger = unsafe { utils.create_debug_utils_messenger(&info, None) };
                messenger.ok().map(|m| (utils, m))
            }
        };
        let mut inner = InstanceInner { raw, physical: Vec::new(), layer, messenger, log, entry };
        // SAFETY: the instance is valid.
        inner.physical =
            unsafe { inner.raw.enumerate_physical_devices() }.map_err(|e| vulkan("list devices", e))?;
        Ok(Instance { inner: Arc::new(inner) })
    }

    /// A record for each device, in the loader's order. Memory budgets are those of the moment.
    pub fn devices(&self) -> Vec<Capabilities> {
        let physical = &self.inner.physical;
        physical.iter().enumerate().map(|(i, &p)| self.probe(p, i)).collect()
    }

    /// What the validation layer said so far; always empty without validation.
    pub fn validation_messages(&self) -> Vec<String> {
        self.inner.log.messages()
    }

    /// A handle on those messages that outlives the instance.
    pub fn validation_log(&self) -> ValidationLog {
        (*self.inner.log).clone()
    }

    /// Whether the validation layer is loaded.
    pub fn has_validation(&self) -> bool {
        self.inner.layer.is_some()
    }

    pub(crate) fn probe(&self, physical: vk::PhysicalDevice, index: usize) -> Capabilities {
        probe::probe(&self.inner.entry, &self.inner.raw, physical, index, self.inner.layer)
    }

    /// The Vulkan version that the validation layer was written for, where it is loaded.
    pub(crate) fn layer(&self) -> Option<u32> {
        self.inner.layer
    }

    pub(crate) fn physical(&self, index: usize) -> Option<vk::PhysicalDevice> {
        self.inner.physical.get(index).copied()
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Instance({} devices)", self.inner.physical.len())
    }
}

impl Drop for InstanceInner {
    fn drop(&mut self) {
        if let Some((utils, messenger)) = self.messenger.take() {
            // SAFETY: created from this instance, destroyed once.
            unsafe { utils.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: devices hold an `Arc` of this, so none is left; the log box outlives the call.
        unsafe { self.raw.destroy_instance(None) };
    }
}

fn messenger_info(log: &ValidationLog) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::{DebugUtilsMessageSeverityFlagsEXT as Severity, DebugUtilsMessageTypeFlagsEXT as Type};
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::WARNING | Severity::ERROR)
        .message_type(Type::VALIDATION | Type::PERFORMANCE)
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(log).cast_mut().cast::<c_void>())
}

/// Called by the layer on whichever thread made the call at fault.
unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: `data` and its strings are valid for the duration of the callback.
    let (id, message) = unsafe { ((*data).message_id_name_as_c_str(), (*data).message_as_c_str()) };
    let id = id.unwrap_or_default().to_string_lossy();
    let message = message.unwrap_or_default().to_string_lossy();
    // What the layer says of its own settings when it instruments shaders is not about this program.
    let own = id == "VALIDATION-SETTINGS" || message.contains("Internal Warning");
    if !own {
        // SAFETY: `user` is the boxed log of the instance, which is freed after the instance; only shared access.
        let log = unsafe { &*user.cast::<ValidationLog>() };
        log.push(format!("[{id}] {message}"));
    }
    vk::FALSE
}

pub(crate) fn vulkan(what: &str, result: vk::Result) -> Error {
    Error::Vulkan { what: what.into(), result: format!("{result:?}") }
}
