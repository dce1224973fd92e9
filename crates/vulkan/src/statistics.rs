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
        let (d, executables) = (&self.inner.device, self.executables()?);
        let what = || format!("statistics of `{}`", self.name());
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

    /// The compiler's output as text; empty where the driver has no representation named like assembly.
    ///
    /// # Errors
    /// As [`Pipeline::statistics`].
    pub fn assembly(&self) -> Result<String, Error> {
        type Representation = vk::PipelineExecutableInternalRepresentationKHR<'static>;
        let (d, executables) = (&self.inner.device, self.executables()?);
        let what = || format!("assembly of `{}`", self.name());
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(self.inner.raw).executable_index(0);
        let get = executables.fp().get_pipeline_executable_internal_representations_khr;
        // SAFETY: the pipeline is alive and was made with representations captured; the three calls have the same count, and the last one
        // buffers of the sizes that the second one gave.
        let text = unsafe {
            let mut count = 0;
            let first = get(executables.device(), &info, &mut count, std::ptr::null_mut());
            d.check(&what(), first.result())?;
            let mut all = vec![Representation::default(); count as usize];
            let sizes = get(executables.device(), &info, &mut count, all.as_mut_ptr());
            d.check(&what(), sizes.result())?;
            let mut texts: Vec<Vec<u8>> = all.iter().map(|r| vec![0; r.data_size]).collect();
            for (r, text) in all.iter_mut().zip(&mut texts) {
                r.p_data = text.as_mut_ptr().cast();
            }
            let last = get(executables.device(), &info, &mut count, all.as_mut_ptr());
            d.check(&what(), last.result())?;
            let named = |r: &Representation| {
                r.is_text != 0 && r.name_as_c_str().is_ok_and(|n| n.to_string_lossy().contains("ssembly"))
            };
            all.iter().zip(texts).find(|(r, _)| named(r)).map(|(_, text)| text)
        };
        Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    }

    fn executables(&self) -> Result<&ash::khr::pipeline_executable_properties::Device, Error> {
        self.inner.device.executables.as_ref().ok_or_else(|| Error::Pipeline {
            name: self.name().into(),
            reason: "the device keeps no statistics".into(),
        })
    }
}
