//! What the driver's compiler says of a pipeline (`VK_KHR_pipeline_executable_properties`).

use crate::{Error, Pipeline};
use ash::vk;
use std::collections::BTreeMap;

impl Pipeline {
    /// The compiler's statistics by the names that the driver gives them, such as `VGPRs`. A pipeline of compute has one executable; where a
    /// driver makes more of it, the first counts.
    ///
    /// # Errors
    /// [`Error::Pipeline`] where the device was opened without [`crate::DeviceOptions::statistics`], else what the driver says.
    pub fn statistics(&self) -> Result<BTreeMap<String, f64>, Error> {
        let d = &self.inner.device;
        let what = || format!("statistics of `{}`", self.name());
        let Some(executables) = &d.executables else {
            let reason = "the device keeps no statistics".into();
            return Err(Error::Pipeline { name: self.name().into(), reason });
        };
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(self.inner.raw).executable_index(0);
        // SAFETY: the pipeline is alive and was made with statistics captured; compute pipelines have at least one executable.
        let all = d.check(&what(), unsafe { executables.get_pipeline_executable_statistics(&info) })?;
        let value = |s: &vk::PipelineExecutableStatisticKHR<'_>| {
            use vk::PipelineExecutableStatisticFormatKHR as Format;
            // SAFETY: the member that the format names.
            unsafe {
                match s.format {
                    Format::FLOAT64 => s.value.f64,
                    Format::INT64 => s.value.i64 as f64,
                    Format::UINT64 => s.value.u64 as f64,
                    _ => f64::from(s.value.b32),
                }
            }
        };
        let name = |s: &vk::PipelineExecutableStatisticKHR<'_>| {
            s.name_as_c_str().unwrap_or_default().to_string_lossy().into_owned()
        };
        Ok(all.iter().map(|s| (name(s), value(s))).collect())
    }
}
