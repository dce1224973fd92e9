//! Asking a physical device what it can do, and opening it with all of that enabled.

use crate::capabilities::*;
use crate::{Error, instance::vulkan};
use ash::vk;
use std::ffi::{CStr, c_char};

mod raw;
use raw::{Bfloat16Features, Matrix2Features, Matrix2Properties};

/// The extensions that are enabled where they are present.
const OPTIONAL: &[&CStr] = &[
    ash::khr::cooperative_matrix::NAME,
    raw::COOPERATIVE_MATRIX2,
    raw::SHADER_BFLOAT16,
    ash::khr::workgroup_memory_explicit_layout::NAME,
    ash::ext::shader_atomic_float::NAME,
    ash::ext::memory_budget::NAME,
    ash::khr::shader_subgroup_rotate::NAME,
    ash::khr::pipeline_executable_properties::NAME,
    ash::khr::portability_subset::NAME,
];

/// Validation layers written for an older Vulkan than this do not know `VK_KHR_shader_bfloat16`, and say so.
const BFLOAT16_SINCE: u32 = vk::make_api_version(0, 1, 4, 312);

/// Feature structs, chained on demand; those of missing extensions stay out of the chain.
#[derive(Default)]
struct FeatureChain {
    v10: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
    matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    matrix2: Matrix2Features,
    bfloat16: Bfloat16Features,
    explicit: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR<'static>,
    atomic: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT<'static>,
    rotate: vk::PhysicalDeviceShaderSubgroupRotateFeaturesKHR<'static>,
    executables: vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'static>,
    portability: vk::PhysicalDevicePortabilitySubsetFeaturesKHR<'static>,
}

impl FeatureChain {
    /// The head of the chain, with the structs of core and of the extensions present.
    fn link(&mut self, present: &[&CStr]) -> vk::PhysicalDeviceFeatures2<'_> {
        let has = |name: &CStr| present.contains(&name);
        let mut head = vk::PhysicalDeviceFeatures2::default()
            .features(self.v10)
            .push_next(&mut self.v11)
            .push_next(&mut self.v12)
            .push_next(&mut self.v13);
        if has(ash::khr::cooperative_matrix::NAME) {
            head = head.push_next(&mut self.matrix);
        }
        if has(raw::COOPERATIVE_MATRIX2) {
            head = head.push_next(&mut self.matrix2);
        }
        if has(raw::SHADER_BFLOAT16) {
            head = head.push_next(&mut self.bfloat16);
        }
        if has(ash::khr::workgroup_memory_explicit_layout::NAME) {
            head = head.push_next(&mut self.explicit);
        }
        if has(ash::ext::shader_atomic_float::NAME) {
            head = head.push_next(&mut self.atomic);
        }
        if has(ash::khr::shader_subgroup_rotate::NAME) {
            head = head.push_next(&mut self.rotate);
        }
        if has(ash::khr::pipeline_executable_properties::NAME) {
            head = head.push_next(&mut self.executables);
        }
        if has(ash::khr::portability_subset::NAME) {
            head = head.push_next(&mut self.portability);
        }
        head
    }

    fn query(instance: &ash::Instance, physical: vk::PhysicalDevice, present: &[&CStr]) -> FeatureChain {
        let mut chain = FeatureChain::default();
        let mut head = chain.link(present);
        // SAFETY: each struct in the chain is of core 1.3 or of an extension that the device has.
        unsafe { instance.get_physical_device_features2(physical, &mut head) };
        chain.v10 = head.features;
        chain.unlink();
        chain
    }

    /// Clears the links, which point at where the structs were: the chain may be moved now.
    fn unlink(&mut self) {
        let null = std::ptr::null_mut();
        (self.v11.p_next, self.v12.p_next, self.v13.p_next) = (null, null, null);
        (self.matrix.p_next, self.matrix2.p_next, self.bfloat16.p_next) = (null, null, null);
        (self.explicit.p_next, self.atomic.p_next, self.rotate.p_next) = (null, null, null);
        (self.executables.p_next, self.portability.p_next) = (null, null);
    }

    /// What `create_device` enables: of core, what compute shaders may use; of the extensions, everything but
    /// robust access, which costs time.
    fn wanted(self) -> FeatureChain {
        let FeatureChain { v10, v11, v12, v13, .. } = self;
        FeatureChain {
            v10: vk::PhysicalDeviceFeatures::default()
                .shader_float64(v10.shader_float64 != 0)
                .shader_int64(v10.shader_int64 != 0)
                .shader_int16(v10.shader_int16 != 0),
            v11: vk::PhysicalDeviceVulkan11Features::default()
                .storage_buffer16_bit_access(v11.storage_buffer16_bit_access != 0)
                .uniform_and_storage_buffer16_bit_access(v11.uniform_and_storage_buffer16_bit_access != 0)
                .storage_push_constant16(v11.storage_push_constant16 != 0),
            v12: vk::PhysicalDeviceVulkan12Features::default()
                .storage_buffer8_bit_access(v12.storage_buffer8_bit_access != 0)
                .uniform_and_storage_buffer8_bit_access(v12.uniform_and_storage_buffer8_bit_access != 0)
                .storage_push_constant8(v12.storage_push_constant8 != 0)
                .shader_float16(v12.shader_float16 != 0)
                .shader_int8(v12.shader_int8 != 0)
                .scalar_block_layout(v12.scalar_block_layout != 0)
                .shader_subgroup_extended_types(v12.shader_subgroup_extended_types != 0)
                .vulkan_memory_model(v12.vulkan_memory_model != 0)
                .vulkan_memory_model_device_scope(v12.vulkan_memory_model_device_scope != 0)
                .buffer_device_address(true)
                .timeline_semaphore(true),
            v13: vk::PhysicalDeviceVulkan13Features::default()
                .subgroup_size_control(v13.subgroup_size_control != 0)
                .compute_full_subgroups(v13.compute_full_subgroups != 0)
                .shader_integer_dot_product(v13.shader_integer_dot_product != 0)
                .shader_zero_initialize_workgroup_memory(v13.shader_zero_initialize_workgroup_memory != 0)
                .synchronization2(true)
                .maintenance4(true),
            matrix: self.matrix.cooperative_matrix_robust_buffer_access(false),
            ..self
        }
    }
}

/// Fills in the record of a device.
pub(crate) fn probe(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    index: usize,
    layer: Option<u32>,
) -> Capabilities {
    // SAFETY: the physical device is the instance's.
    let basic = unsafe { instance.get_physical_device_properties(physical) };
    let version = basic.api_version;
    let mut c = Capabilities {
        index,
        name: text(&basic.device_name),
        vendor_id: basic.vendor_id,
        device_id: basic.device_id,
        kind: kind(basic.device_type),
        api_version: (
            vk::api_version_major(version),
            vk::api_version_minor(version),
            vk::api_version_patch(version),
        ),
        ..Default::default()
    };
    if version < vk::API_VERSION_1_3 {
        let (major, minor, _) = c.api_version;
        c.problems.push(format!("its driver knows Vulkan {major}.{minor}, 1.3 is needed"));
        return c;
    }
    let present = present(instance, physical, layer);
    let has = |name: &CStr| present.contains(&name);
    let f = FeatureChain::query(instance, physical, &present);

    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut m2 = Matrix2Properties::default();
    let mut head =
        vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v12).push_next(&mut v13);
    if has(raw::COOPERATIVE_MATRIX2) {
        head = head.push_next(&mut m2);
    }
    // SAFETY: each struct in the chain is of core 1.3 or of an extension that the device has.
    unsafe { instance.get_physical_device_properties2(physical, &mut head) };

    let family = queue_family(instance, physical);
    c.driver = text(&v12.driver_name);
    c.driver_version = text(&v12.driver_info);
    c.uuid = v11.device_uuid;
    c.limits = limits(&basic.limits, &v11, &v13, family.as_ref().map_or(0, |f| f.1.timestamp_valid_bits));
    c.subgroup = subgroup(&v11, &v13, &f.v13);
    c.features = features(&f, &v13, c.limits.timestamp_bits > 0, has(ash::ext::memory_budget::NAME));
    c.heaps = heaps(instance, physical, c.features.memory_budget);
    if f.matrix.cooperative_matrix != 0 {
        c.cooperative_matrix = raw::matrix_shapes(entry, instance, physical);
    }
    if has(raw::COOPERATIVE_MATRIX2) {
        c.cooperative_matrix2 = Some(raw::matrix2(entry, instance, physical, &f.matrix2, &m2));
    }
    let needs = [
        (family.is_some(), "it has no compute queue"),
        (f.v12.buffer_device_address != 0, "it has no buffer device addresses"),
        (f.v12.timeline_semaphore != 0, "it has no timeline semaphores"),
        (f.v13.synchronization2 != 0, "it has no synchronization2"),
        (f.v13.maintenance4 != 0, "it has no maintenance4"),
    ];
    c.problems = needs.iter().filter(|n| !n.0).map(|n| n.1.to_string()).collect();
    c
}

/// Opens the device with one compute queue; returns it with the queue's family.
pub(crate) fn create_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    capabilities: &Capabilities,
    layer: Option<u32>,
) -> Result<(ash::Device, u32), Error> {
    let present = present(instance, physical, layer);
    let mut chain = FeatureChain::query(instance, physical, &present).wanted();
    let mut features = chain.link(&present);
    let Some((family, _)) = queue_family(instance, physical) else {
        let problems = vec!["it has no compute queue".into()];
        return Err(Error::Unusable { device: capabilities.name.clone(), problems });
    };
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let extensions: Vec<*const c_char> = present.iter().map(|e| e.as_ptr()).collect();
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut features);
    // SAFETY: features and extensions are those that the device reported; all pointers live through the call.
    let device = unsafe { instance.create_device(physical, &info, None) };
    let device = device.map_err(|e| vulkan(&format!("open the device `{}`", capabilities.name), e))?;
    Ok((device, family))
}

/// Those of [`OPTIONAL`] that the device has, without what would lack its own prerequisite or what the validation layer is too old for.
fn present(instance: &ash::Instance, physical: vk::PhysicalDevice, layer: Option<u32>) -> Vec<&'static CStr> {
    // SAFETY: the physical device is the instance's. A failure reads as no extensions.
    let all = unsafe { instance.enumerate_device_extension_properties(physical) }.unwrap_or_default();
    let has = |name: &CStr| all.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let prerequisite =
        |name: &CStr| name != raw::COOPERATIVE_MATRIX2 || has(ash::khr::cooperative_matrix::NAME);
    let known = |name: &CStr| name != raw::SHADER_BFLOAT16 || layer.is_none_or(|v| v >= BFLOAT16_SINCE);
    OPTIONAL.iter().copied().filter(|name| has(name) && prerequisite(name) && known(name)).collect()
}

/// A compute family: one without graphics first (its own ring on many devices), timestamps first among those.
fn queue_family(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Option<(u32, vk::QueueFamilyProperties)> {
    // SAFETY: the physical device is the instance's.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let candidates = (0u32..).zip(families).filter(|(_, f)| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
    candidates.min_by_key(|(i, f)| {
        (f.timestamp_valid_bits == 0, f.queue_flags.contains(vk::QueueFlags::GRAPHICS), *i)
    })
}

/// The heaps, with the moment's budget where the extension is there.
pub(crate) fn heaps(instance: &ash::Instance, physical: vk::PhysicalDevice, budget: bool) -> Vec<MemoryHeap> {
    let mut budgets = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut head = vk::PhysicalDeviceMemoryProperties2::default();
    if budget {
        head = head.push_next(&mut budgets);
    }
    // SAFETY: the budget struct is chained only where the device has the extension.
    unsafe { instance.get_physical_device_memory_properties2(physical, &mut head) };
    let memory = head.memory_properties;
    let heap = |(i, h): (usize, &vk::MemoryHeap)| MemoryHeap {
        bytes: h.size,
        device_local: h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
        host_visible: memory.memory_types_as_slice().iter().any(|t| {
            t.heap_index as usize == i && t.property_flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE)
        }),
        budget: budget.then(|| HeapBudget { budget: budgets.heap_budget[i], used: budgets.heap_usage[i] }),
    };
    memory.memory_heaps_as_slice().iter().enumerate().map(heap).collect()
}

fn limits(
    l: &vk::PhysicalDeviceLimits,
    v11: &vk::PhysicalDeviceVulkan11Properties<'_>,
    v13: &vk::PhysicalDeviceVulkan13Properties<'_>,
    timestamp_bits: u32,
) -> Limits {
    Limits {
        max_allocation: v11.max_memory_allocation_size,
        max_buffer: v13.max_buffer_size,
        shared_memory: l.max_compute_shared_memory_size,
        workgroup_invocations: l.max_compute_work_group_invocations,
        workgroup_size: l.max_compute_work_group_size,
        group_count: l.max_compute_work_group_count,
        push_constants: l.max_push_constants_size,
        timestamp_period: l.timestamp_period,
        timestamp_bits,
        non_coherent_atom: l.non_coherent_atom_size,
    }
}

fn subgroup(
    v11: &vk::PhysicalDeviceVulkan11Properties<'_>,
    v13: &vk::PhysicalDeviceVulkan13Properties<'_>,
    f13: &vk::PhysicalDeviceVulkan13Features<'_>,
) -> Subgroup {
    use vk::SubgroupFeatureFlags as F;
    let in_compute = v11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
    let has = |flag: F| in_compute && v11.subgroup_supported_operations.contains(flag);
    Subgroup {
        size: v11.subgroup_size,
        min_size: v13.min_subgroup_size,
        max_size: v13.max_subgroup_size,
        max_workgroup_subgroups: v13.max_compute_workgroup_subgroups,
        size_control: f13.subgroup_size_control != 0,
        required_size: f13.subgroup_size_control != 0
            && v13.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE),
        full_subgroups: f13.compute_full_subgroups != 0,
        operations: SubgroupOperations {
            basic: has(F::BASIC),
            vote: has(F::VOTE),
            arithmetic: has(F::ARITHMETIC),
            ballot: has(F::BALLOT),
            shuffle: has(F::SHUFFLE),
            shuffle_relative: has(F::SHUFFLE_RELATIVE),
            clustered: has(F::CLUSTERED),
            quad: has(F::QUAD),
            rotate: has(F::ROTATE_KHR),
        },
    }
}

fn features(
    f: &FeatureChain,
    v13: &vk::PhysicalDeviceVulkan13Properties<'_>,
    timestamps: bool,
    memory_budget: bool,
) -> Features {
    let packed = |accelerated: vk::Bool32| f.v13.shader_integer_dot_product != 0 && accelerated != 0;
    Features {
        shader_f16: f.v12.shader_float16 != 0,
        shader_f64: f.v10.shader_float64 != 0,
        shader_i8: f.v12.shader_int8 != 0,
        shader_i16: f.v10.shader_int16 != 0,
        shader_i64: f.v10.shader_int64 != 0,
        storage_8bit: f.v12.storage_buffer8_bit_access != 0,
        storage_16bit: f.v11.storage_buffer16_bit_access != 0,
        push_constant_8bit: f.v12.storage_push_constant8 != 0,
        push_constant_16bit: f.v11.storage_push_constant16 != 0,
        scalar_block_layout: f.v12.scalar_block_layout != 0,
        memory_model: f.v12.vulkan_memory_model != 0 && f.v12.vulkan_memory_model_device_scope != 0,
        subgroup_extended_types: f.v12.shader_subgroup_extended_types != 0,
        integer_dot: f.v13.shader_integer_dot_product != 0,
        integer_dot_4x8_signed_accelerated: packed(v13.integer_dot_product4x8_bit_packed_signed_accelerated),
        integer_dot_4x8_mixed_accelerated: packed(
            v13.integer_dot_product4x8_bit_packed_mixed_signedness_accelerated,
        ),
        workgroup_explicit_layout: f.explicit.workgroup_memory_explicit_layout != 0
            && f.explicit.workgroup_memory_explicit_layout_scalar_block_layout != 0,
        atomic_f32_add: f.atomic.shader_buffer_float32_atomic_add != 0,
        bfloat16: f.bfloat16.shader_type != 0,
        bfloat16_matrix: f.bfloat16.cooperative_matrix != 0,
        timestamps,
        memory_budget,
        pipeline_statistics: f.executables.pipeline_executable_info != 0,
    }
}

fn kind(t: vk::PhysicalDeviceType) -> DeviceKind {
    match t {
        vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
        vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

/// A NUL-padded array of the driver's.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&b| b as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
