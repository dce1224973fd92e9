//! Cooperative matrices, and structs of extensions newer than the bindings (from the Vulkan registry).

use crate::capabilities::{ComponentType, CooperativeMatrix2, FlexibleShape, MatrixScope, MatrixShape};
use ash::vk;
use std::ffi::{CStr, c_void};

pub const COOPERATIVE_MATRIX2: &CStr = c"VK_NV_cooperative_matrix2";
pub const SHADER_BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";
const FLEXIBLE: &CStr = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`.
#[repr(C)]
pub struct Bfloat16Features {
    s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub shader_type: vk::Bool32,
    pub dot_product: vk::Bool32,
    pub cooperative_matrix: vk::Bool32,
}

/// `VkPhysicalDeviceCooperativeMatrix2FeaturesNV`.
#[repr(C)]
pub struct Matrix2Features {
    s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub workgroup_scope: vk::Bool32,
    pub flexible_dimensions: vk::Bool32,
    pub reductions: vk::Bool32,
    pub conversions: vk::Bool32,
    pub per_element_operations: vk::Bool32,
    pub tensor_addressing: vk::Bool32,
    pub block_loads: vk::Bool32,
}

/// `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`.
#[repr(C)]
pub struct Matrix2Properties {
    s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub workgroup_scope_max_size: u32,
    pub flexible_max_dimension: u32,
    pub reserved_shared_memory: u32,
}

/// `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FlexibleProperties {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    m: u32,
    n: u32,
    k: u32,
    a: vk::ComponentTypeKHR,
    b: vk::ComponentTypeKHR,
    c: vk::ComponentTypeKHR,
    result: vk::ComponentTypeKHR,
    saturating: vk::Bool32,
    scope: vk::ScopeKHR,
    workgroup_invocations: u32,
}

macro_rules! tagged {
    ($name:ident, $number:expr, { $($field:ident : $value:expr),* $(,)? }) => {
        impl Default for $name {
            fn default() -> Self {
                let s_type = vk::StructureType::from_raw($number);
                $name { s_type, p_next: std::ptr::null_mut(), $($field: $value),* }
            }
        }
    };
}
tagged!(Bfloat16Features, 1_000_141_000, { shader_type: 0, dot_product: 0, cooperative_matrix: 0 });
tagged!(Matrix2Features, 1_000_593_000, {
    workgroup_scope: 0, flexible_dimensions: 0, reductions: 0, conversions: 0, per_element_operations: 0,
    tensor_addressing: 0, block_loads: 0,
});
tagged!(Matrix2Properties, 1_000_593_002, {
    workgroup_scope_max_size: 0, flexible_max_dimension: 0, reserved_shared_memory: 0,
});
tagged!(FlexibleProperties, 1_000_593_001, {
    m: 0, n: 0, k: 0, a: vk::ComponentTypeKHR::default(), b: vk::ComponentTypeKHR::default(),
    c: vk::ComponentTypeKHR::default(), result: vk::ComponentTypeKHR::default(), saturating: 0,
    scope: vk::ScopeKHR::default(), workgroup_invocations: 0,
});

// SAFETY: `repr(C)` with the members of the registry, starting with `sType` and `pNext`, and allowed in that chain.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Bfloat16Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Matrix2Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for Matrix2Properties {}

/// The shapes of `VK_KHR_cooperative_matrix`.
pub fn matrix_shapes(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Vec<MatrixShape> {
    let matrix = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the device has the extension. A failure reads as no shapes.
    let shapes = unsafe { matrix.get_physical_device_cooperative_matrix_properties(physical) };
    let shapes = shapes.unwrap_or_default();
    let shape = |s: &vk::CooperativeMatrixPropertiesKHR<'_>| MatrixShape {
        m: s.m_size,
        n: s.n_size,
        k: s.k_size,
        a: component(s.a_type),
        b: component(s.b_type),
        c: component(s.c_type),
        result: component(s.result_type),
        scope: scope(s.scope),
        saturating: s.saturating_accumulation != 0,
    };
    shapes.iter().map(shape).collect()
}

/// Features and flexible shapes of `VK_NV_cooperative_matrix2`.
pub fn matrix2(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    f: &Matrix2Features,
    p: &Matrix2Properties,
) -> CooperativeMatrix2 {
    CooperativeMatrix2 {
        workgroup_scope: f.workgroup_scope != 0,
        flexible_dimensions: f.flexible_dimensions != 0,
        reductions: f.reductions != 0,
        conversions: f.conversions != 0,
        per_element_operations: f.per_element_operations != 0,
        tensor_addressing: f.tensor_addressing != 0,
        block_loads: f.block_loads != 0,
        workgroup_scope_max_size: p.workgroup_scope_max_size,
        flexible_max_dimension: p.flexible_max_dimension,
        reserved_shared_memory: p.reserved_shared_memory,
        shapes: if f.flexible_dimensions != 0 { flexible(entry, instance, physical) } else { Vec::new() },
    }
}

fn flexible(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Vec<FlexibleShape> {
    type List =
        unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut FlexibleProperties) -> vk::Result;
    // SAFETY: the instance is valid and the name NUL-terminated.
    let pointer = unsafe { entry.get_instance_proc_addr(instance.handle(), FLEXIBLE.as_ptr()) };
    let Some(pointer) = pointer else { return Vec::new() };
    // SAFETY: `List` is the type of the function of this name by the registry.
    let list = unsafe { std::mem::transmute::<unsafe extern "system" fn(), List>(pointer) };
    let mut count = 0;
    // SAFETY: asks for the count alone.
    if unsafe { list(physical, &mut count, std::ptr::null_mut()) } != vk::Result::SUCCESS {
        return Vec::new();
    }
    let mut shapes = vec![FlexibleProperties::default(); count as usize];
    // SAFETY: room for `count` structs with their tags set.
    let result = unsafe { list(physical, &mut count, shapes.as_mut_ptr()) };
    if result != vk::Result::SUCCESS && result != vk::Result::INCOMPLETE {
        return Vec::new();
    }
    shapes.truncate(count as usize);
    let shape = |s: &FlexibleProperties| FlexibleShape {
        m_granularity: s.m,
        n_granularity: s.n,
        k_granularity: s.k,
        a: component(s.a),
        b: component(s.b),
        c: component(s.c),
        result: component(s.result),
        scope: scope(s.scope),
        saturating: s.saturating != 0,
        workgroup_invocations: s.workgroup_invocations,
    };
    shapes.iter().map(shape).collect()
}

fn component(t: vk::ComponentTypeKHR) -> ComponentType {
    use ComponentType::*;
    match t.as_raw() {
        0 => F16,
        1 => F32,
        2 => F64,
        3 => I8,
        4 => I16,
        5 => I32,
        6 => I64,
        7 => U8,
        8 => U16,
        9 => U32,
        10 => U64,
        1_000_141_000 => Bf16,
        1_000_491_002 => F8E4M3,
        1_000_491_003 => F8E5M2,
        other => Other(other),
    }
}

fn scope(s: vk::ScopeKHR) -> MatrixScope {
    match s.as_raw() {
        1 => MatrixScope::Device,
        2 => MatrixScope::Workgroup,
        3 => MatrixScope::Subgroup,
        _ => MatrixScope::QueueFamily,
    }
}
