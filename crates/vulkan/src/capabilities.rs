//! What a device can do, as plain data. Probing fills it in (`probe.rs`); policies and tests read or invent it.

/// Everything about a device that a policy may want to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capabilities {
    /// Position in [`crate::Instance::devices`].
    pub index: usize,
    /// Name by the driver, such as `NVIDIA H200`.
    pub name: String,
    /// Name of the driver, such as `radv`.
    pub driver: String,
    /// The driver's version in its own words.
    pub driver_version: String,
    /// PCI vendor id (or a Khronos one above 0xffff).
    pub vendor_id: u32,
    /// PCI device id.
    pub device_id: u32,
    /// What sort of device it is.
    pub kind: DeviceKind,
    /// Vulkan version as (major, minor, patch).
    pub api_version: (u32, u32, u32),
    /// `deviceUUID`: the same device in another process or API.
    pub uuid: [u8; 16],
    /// Subgroup sizes and operations.
    pub subgroup: Subgroup,
    /// Arithmetic, storage and instruction features.
    pub features: Features,
    /// `VK_KHR_cooperative_matrix` shapes in compute shaders; empty where there is no support.
    pub cooperative_matrix: Vec<MatrixShape>,
    /// `VK_NV_cooperative_matrix2`.
    pub cooperative_matrix2: Option<CooperativeMatrix2>,
    /// Memory heaps.
    pub heaps: Vec<MemoryHeap>,
    /// Limits.
    pub limits: Limits,
    /// Why this runtime cannot use the device; empty when it can.
    pub problems: Vec<String>,
}

impl Capabilities {
    /// Whether [`crate::Device::open`] can succeed.
    pub fn usable(&self) -> bool {
        self.problems.is_empty()
    }

    /// The driver and its version, as reports name it: `NVIDIA 580.159.04`.
    pub fn driver_name(&self) -> String {
        format!("{} {}", self.driver, self.driver_version)
    }

    /// Whether it is a software driver (lavapipe, SwiftShader): chosen only when asked for.
    pub fn is_software(&self) -> bool {
        self.kind == DeviceKind::Cpu
    }

    /// Bytes of device-local memory in its largest heap.
    pub fn device_memory(&self) -> u64 {
        self.heaps.iter().filter(|h| h.device_local).map(|h| h.bytes).max().unwrap_or(0)
    }

    /// Whether a compute pipeline may require subgroups of `size` lanes.
    pub fn supports_subgroup_size(&self, size: u32) -> bool {
        let s = &self.subgroup;
        size.is_power_of_two()
            && (size == s.size || (s.required_size && (s.min_size..=s.max_size).contains(&size)))
    }
}

/// `VkPhysicalDeviceType`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A card with its own memory.
    Discrete,
    /// Shares the processor's memory.
    Integrated,
    /// Passed through by a hypervisor.
    Virtual,
    /// A software driver.
    Cpu,
    /// Anything else.
    #[default]
    Other,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceKind::Discrete => "discrete",
            DeviceKind::Integrated => "integrated",
            DeviceKind::Virtual => "virtual",
            DeviceKind::Cpu => "software",
            DeviceKind::Other => "other",
        })
    }
}

/// Subgroup (wave, warp) sizes and the operations in compute shaders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subgroup {
    /// The size a pipeline gets that requires none.
    pub size: u32,
    /// The smallest size a pipeline may require.
    pub min_size: u32,
    /// The largest size a pipeline may require.
    pub max_size: u32,
    /// `subgroupSizeControl`.
    pub size_control: bool,
    /// `maxComputeWorkgroupSubgroups`, for pipelines that require a size.
    pub max_workgroup_subgroups: u32,
    /// A required size is allowed in the compute stage.
    pub required_size: bool,
    /// `computeFullSubgroups`.
    pub full_subgroups: bool,
    /// The operations.
    pub operations: SubgroupOperations,
}

/// `VkSubgroupFeatureFlagBits`, those that compute shaders have here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SubgroupOperations {
    pub basic: bool,
    pub vote: bool,
    pub arithmetic: bool,
    pub ballot: bool,
    pub shuffle: bool,
    pub shuffle_relative: bool,
    pub clustered: bool,
    pub quad: bool,
    pub rotate: bool,
}

/// Shader features. Those that are true are enabled by [`crate::Device::open`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// `shaderFloat16`: f16 arithmetic.
    pub shader_f16: bool,
    /// `shaderFloat64`.
    pub shader_f64: bool,
    /// `shaderInt8`.
    pub shader_i8: bool,
    /// `shaderInt16`.
    pub shader_i16: bool,
    /// `shaderInt64`.
    pub shader_i64: bool,
    /// 8-bit types in storage buffers.
    pub storage_8bit: bool,
    /// 16-bit types in storage buffers.
    pub storage_16bit: bool,
    /// 8-bit types in push constants.
    pub push_constant_8bit: bool,
    /// 16-bit types in push constants.
    pub push_constant_16bit: bool,
    /// `scalarBlockLayout`.
    pub scalar_block_layout: bool,
    /// `vulkanMemoryModel` with device scope.
    pub memory_model: bool,
    /// `shaderSubgroupExtendedTypes`: subgroup operations on 8-, 16- and 64-bit types.
    pub subgroup_extended_types: bool,
    /// `shaderIntegerDotProduct`.
    pub integer_dot: bool,
    /// Signed 4x8 packed dot products have an instruction of their own.
    pub integer_dot_4x8_signed_accelerated: bool,
    /// Mixed-sign 4x8 packed dot products have an instruction of their own.
    pub integer_dot_4x8_mixed_accelerated: bool,
    /// `VK_KHR_workgroup_memory_explicit_layout` with scalar layout.
    pub workgroup_explicit_layout: bool,
    /// `shaderBufferFloat32AtomicAdd`.
    pub atomic_f32_add: bool,
    /// `shaderBFloat16Type` of `VK_KHR_shader_bfloat16`.
    pub bfloat16: bool,
    /// `shaderBFloat16CooperativeMatrix`.
    pub bfloat16_matrix: bool,
    /// Dispatch timestamps can be taken.
    pub timestamps: bool,
    /// `VK_EXT_memory_budget`.
    pub memory_budget: bool,
    /// `VK_KHR_pipeline_executable_properties`: what the driver's compiler says of a pipeline.
    pub pipeline_statistics: bool,
}

/// Element type of a cooperative matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ComponentType {
    F16,
    F32,
    F64,
    Bf16,
    F8E4M3,
    F8E5M2,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// A type this crate has no name for, by its Vulkan number.
    Other(i32),
}

/// Who works together on a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MatrixScope {
    Device,
    Workgroup,
    Subgroup,
    QueueFamily,
}

/// One entry of the device's list: `result[m, n] = a[m, k] * b[k, n] + c[m, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct MatrixShape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: ComponentType,
    pub b: ComponentType,
    pub c: ComponentType,
    pub result: ComponentType,
    pub scope: MatrixScope,
    /// Saturating accumulation.
    pub saturating: bool,
}

/// `VK_NV_cooperative_matrix2`: features and flexible dimensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CooperativeMatrix2 {
    /// Matrices that a whole workgroup shares.
    pub workgroup_scope: bool,
    /// Dimensions in steps of a granularity.
    pub flexible_dimensions: bool,
    /// Row, column and full reductions.
    pub reductions: bool,
    /// Conversions between uses.
    pub conversions: bool,
    /// A function called on each element.
    pub per_element_operations: bool,
    /// Loads by tensor layout.
    pub tensor_addressing: bool,
    /// Loads through a decode function.
    pub block_loads: bool,
    /// Largest workgroup that may share a matrix.
    pub workgroup_scope_max_size: u32,
    /// Largest dimension.
    pub flexible_max_dimension: u32,
    /// Shared memory that the driver keeps for itself.
    pub reserved_shared_memory: u32,
    /// The flexible shapes.
    pub shapes: Vec<FlexibleShape>,
}

/// Dimensions are multiples of the granularities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct FlexibleShape {
    pub m_granularity: u32,
    pub n_granularity: u32,
    pub k_granularity: u32,
    pub a: ComponentType,
    pub b: ComponentType,
    pub c: ComponentType,
    pub result: ComponentType,
    pub scope: MatrixScope,
    pub saturating: bool,
    /// Invocations of the workgroup that this shape is for (workgroup scope).
    pub workgroup_invocations: u32,
}

/// A memory heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryHeap {
    /// Size in bytes.
    pub bytes: u64,
    /// On the device (for unified memory: all there is).
    pub device_local: bool,
    /// Some of its memory types can be mapped.
    pub host_visible: bool,
    /// What the driver says may be used by this process, and is used, at the time of probing.
    pub budget: Option<HeapBudget>,
}

/// `VK_EXT_memory_budget`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapBudget {
    /// Bytes this process may use before it fails or slows down.
    pub budget: u64,
    /// Bytes this process uses.
    pub used: u64,
}

/// Limits of the device that compute work meets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// `maxMemoryAllocationSize`.
    pub max_allocation: u64,
    /// `maxBufferSize`.
    pub max_buffer: u64,
    /// `maxComputeSharedMemorySize`.
    pub shared_memory: u32,
    /// `maxComputeWorkGroupInvocations`.
    pub workgroup_invocations: u32,
    /// `maxComputeWorkGroupSize`.
    pub workgroup_size: [u32; 3],
    /// `maxComputeWorkGroupCount`.
    pub group_count: [u32; 3],
    /// `maxPushConstantsSize`.
    pub push_constants: u32,
    /// Nanoseconds a timestamp step.
    pub timestamp_period: f32,
    /// Valid bits of a timestamp on the compute queue; 0: none.
    pub timestamp_bits: u32,
    /// `nonCoherentAtomSize`.
    pub non_coherent_atom: u64,
}
