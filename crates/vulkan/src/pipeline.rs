//! Compute pipelines: checked against the device before the driver sees them, shared within the process.

use crate::device::{Device, DeviceInner, lock};
use crate::spirv::{self, Reflection};
use crate::{Capabilities, Error};
use ash::vk;
use std::collections::HashMap;
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

/// Bytes of push constants that every device has, and all that are used: addresses and params together.
pub const PUSH_CONSTANTS: u32 = 128;

/// What to make a pipeline of.
#[derive(Debug, Clone, Copy)]
pub struct PipelineDesc<'a> {
    /// Name, for messages.
    pub name: &'a str,
    /// The module's words.
    pub spirv: &'a [u32],
    /// Its entry point, usually `main`.
    pub entry: &'a str,
    /// Specialisation constants: (constant id, value). Floats and bools by their 32 bits.
    pub specialization: &'a [(u32, u32)],
    /// Require subgroups of this many lanes, all of them full where the device can promise it. `None`: the driver's
    /// choice; shaders that use subgroup operations should require a size.
    pub subgroup_size: Option<u32>,
    /// Number of buffer addresses at the start of the push constants.
    pub bindings: u32,
    /// Bytes of params after them.
    pub params_bytes: u32,
}

/// A compiled compute shader. Clones share it.
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) inner: Arc<PipelineInner>,
}

pub(crate) struct PipelineInner {
    pub id: u64,
    pub raw: vk::Pipeline,
    pub bindings: u32,
    pub params_bytes: u32,
    name: String,
    specialization: Vec<(u32, u32)>,
    reflection: Reflection,
    subgroup_size: Option<u32>,
    pub device: Arc<DeviceInner>,
}

/// Pipelines in use, by what they are made of.
pub(crate) type PipelineCacheMap = HashMap<u64, Weak<PipelineInner>>;

impl Device {
    /// Makes a pipeline, or gives the one that was made of the same things.
    ///
    /// The module is trusted as the program's own code is: it addresses memory freely, and only its own care keeps it
    /// inside the slices that it is given.
    ///
    /// # Errors
    /// [`Error::Pipeline`] when the module does not fit the description (push constants larger than addresses and
    /// params) or the device (subgroup size, workgroup size, shared memory, push constants).
    pub fn pipeline(&self, desc: &PipelineDesc<'_>) -> Result<Pipeline, Error> {
        let key = key(desc);
        if let Some(inner) = lock(&self.inner.pipelines).get(&key).and_then(Weak::upgrade) {
            return Ok(Pipeline { inner });
        }
        let fail = |reason: String| Error::Pipeline { name: desc.name.into(), reason };
        let reflection = spirv::reflect(desc.spirv, desc.entry, desc.specialization).map_err(fail)?;
        check(desc, &reflection, self.capabilities()).map_err(fail)?;
        let raw = self.compile(desc, &reflection)?;
        self.inner.name(raw, desc.name);
        let inner = Arc::new(PipelineInner {
            id: self.inner.next_id(),
            raw,
            bindings: desc.bindings,
            params_bytes: desc.params_bytes,
            name: desc.name.into(),
            specialization: desc.specialization.to_vec(),
            reflection,
            subgroup_size: desc.subgroup_size,
            device: self.inner.clone(),
        });
        // Another thread may have been faster: then its pipeline is used and this one dropped, after the lock.
        let mut map = lock(&self.inner.pipelines);
        let shared = map.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| inner.clone());
        map.insert(key, Arc::downgrade(&shared));
        drop(map);
        Ok(Pipeline { inner: shared })
    }

    fn compile(&self, desc: &PipelineDesc<'_>, reflection: &Reflection) -> Result<vk::Pipeline, Error> {
        let d = &self.inner;
        d.alive(desc.name)?;
        let fail = |reason: &str| Error::Pipeline { name: desc.name.into(), reason: reason.into() };
        let entry = CString::new(desc.entry).map_err(|_| fail("the entry point's name holds a NUL"))?;
        let entries: Vec<_> = (desc.specialization.iter().enumerate())
            .map(|(i, &(id, _))| vk::SpecializationMapEntry {
                constant_id: id,
                offset: 4 * i as u32,
                size: 4,
            })
            .collect();
        let values: Vec<u32> = desc.specialization.iter().map(|&(_, value)| value).collect();
        let specialization =
            vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(&values));
        let module_info = vk::ShaderModuleCreateInfo::default().code(desc.spirv);
        // SAFETY: whole words whose header and instruction lengths were checked by the reflection.
        let module = d.check(desc.name, unsafe { d.raw.create_shader_module(&module_info, None) })?;
        let subgroup = &d.capabilities.subgroup;
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(desc.subgroup_size.unwrap_or(0));
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry)
            .specialization_info(&specialization);
        if let Some(size) = desc.subgroup_size {
            if subgroup.required_size {
                stage = stage.push_next(&mut required);
            }
            if subgroup.full_subgroups && reflection.workgroup_size[0].is_multiple_of(size) {
                stage.flags |= vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS;
            }
        }
        let flags = match d.executables {
            Some(_) => {
                vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR
            }
            None => vk::PipelineCreateFlags::empty(),
        };
        let info = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(d.layout)];
        // SAFETY: the module, layout and cache are this device's; the entry point exists (reflection).
        let result = unsafe { d.raw.create_compute_pipelines(d.cache.raw(), &info, None) };
        // SAFETY: a module may be destroyed once the pipeline is made.
        unsafe { d.raw.destroy_shader_module(module, None) };
        let pipelines = result.map_err(|(partial, e)| {
            // SAFETY: null handles are ignored; the others were made by the failed call.
            partial.iter().for_each(|&p| unsafe { d.raw.destroy_pipeline(p, None) });
            e
        });
        Ok(d.check(desc.name, pipelines)?[0])
    }

    /// The pipelines that are alive, in the order in which they were made.
    pub fn pipelines(&self) -> Vec<Pipeline> {
        let map = lock(&self.inner.pipelines);
        let mut all: Vec<_> =
            map.values().filter_map(Weak::upgrade).map(|inner| Pipeline { inner }).collect();
        drop(map);
        all.sort_by_key(|p| p.inner.id);
        all
    }

    /// Writes the pipeline cache to its file now. Closing the device does so too.
    pub fn save_pipeline_cache(&self) {
        self.inner.cache.save(&self.inner.raw);
    }
}

impl Pipeline {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its specialisation constants: (constant id, value).
    pub fn specialization(&self) -> &[(u32, u32)] {
        &self.inner.specialization
    }

    /// Invocations of a workgroup in x, y, z, after specialisation.
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.inner.reflection.workgroup_size
    }

    /// What was read from its module.
    pub fn reflection(&self) -> &Reflection {
        &self.inner.reflection
    }

    /// The subgroup size it requires.
    pub fn subgroup_size(&self) -> Option<u32> {
        self.inner.subgroup_size
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline(`{}`)", self.inner.name)
    }
}

impl Drop for PipelineInner {
    fn drop(&mut self) {
        // SAFETY: commands in flight hold an `Arc` of this.
        unsafe { self.device.raw.destroy_pipeline(self.raw, None) };
    }
}

/// Whether the device can run it; the reason if not.
fn check(desc: &PipelineDesc<'_>, r: &Reflection, device: &Capabilities) -> Result<(), String> {
    let limits = &device.limits;
    let declared = desc.bindings.saturating_mul(8).saturating_add(desc.params_bytes);
    let most = PUSH_CONSTANTS.min(limits.push_constants);
    if declared > most {
        return Err(format!(
            "{} addresses and {} bytes of params are {declared} bytes of push constants, {most} are possible",
            desc.bindings, desc.params_bytes
        ));
    }
    if r.push_constant_bytes > declared.next_multiple_of(4) {
        return Err(format!(
            "the shader reads {} bytes of push constants, its description has {declared} ({} addresses, {} bytes of params)",
            r.push_constant_bytes, desc.bindings, desc.params_bytes
        ));
    }
    let [x, y, z] = r.workgroup_size;
    let invocations = u64::from(x) * u64::from(y) * u64::from(z);
    let too_large = r.workgroup_size.iter().zip(&limits.workgroup_size).any(|(size, most)| size > most);
    if too_large || invocations == 0 || invocations > u64::from(limits.workgroup_invocations) {
        let (most, [mx, my, mz]) = (limits.workgroup_invocations, limits.workgroup_size);
        return Err(format!(
            "a workgroup of {x}x{y}x{z} is {invocations} invocations, the device allows {most} and at most {mx}x{my}x{mz}"
        ));
    }
    if r.shared_bytes > limits.shared_memory {
        return Err(format!(
            "{} bytes of shared memory, the device has {}\nhint: choose a smaller tile",
            r.shared_bytes, limits.shared_memory
        ));
    }
    if let Some(size) = desc.subgroup_size {
        let s = &device.subgroup;
        if !device.supports_subgroup_size(size) {
            return Err(format!(
                "a subgroup size of {size} is required, the device has {} (required sizes: {} to {})",
                s.size, s.min_size, s.max_size
            ));
        }
        if s.required_size && !x.is_multiple_of(size) {
            return Err(format!(
                "a workgroup's x size of {x} is no multiple of the required subgroup size {size}"
            ));
        }
        if s.required_size && invocations > u64::from(size) * u64::from(s.max_workgroup_subgroups) {
            return Err(format!(
                "{invocations} invocations are more than {} subgroups of {size}",
                s.max_workgroup_subgroups
            ));
        }
    }
    Ok(())
}

fn key(desc: &PipelineDesc<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let shape = (desc.subgroup_size, desc.bindings, desc.params_bytes);
    (desc.name, desc.spirv, desc.entry, desc.specialization, shape).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
