//! One dispatch of a kernel.

use crate::{Error, Kernel, Kernels, Unsupported, Wanted, fold_groups, lock};
use zinc_vulkan::{Binding, Capabilities, Dispatch, Recorder, Slice};

/// A kernel's variant and what it runs on.
pub(crate) struct Launch<'a> {
    pub kernel: &'a Kernel,
    /// A value for each dimension of the shader's header.
    pub variant: &'a [(&'a str, &'a str)],
    /// Specialisation constants: (id, value).
    pub specialization: &'a [(u32, u32)],
    pub bindings: &'a [Binding<'a>],
    pub params: &'a [u8],
    pub groups: [u32; 3],
    pub label: &'a str,
}

impl Kernels {
    /// Makes the pipeline, where it is new, and records the dispatch; or notes the pipeline.
    pub(crate) fn launch(&self, rec: &mut Recorder, launch: &Launch<'_>) -> Result<(), Error> {
        if let Some(noted) = &self.noted {
            lock(noted).push(Wanted::new(launch.kernel, launch.variant, launch.specialization));
            return Ok(());
        }
        let pipeline = self.pipeline(launch.kernel, launch.variant, launch.specialization)?;
        rec.dispatch(&Dispatch {
            pipeline: &pipeline,
            bindings: launch.bindings,
            params: launch.params,
            groups: launch.groups,
            label: launch.label,
        })?;
        Ok(())
    }
}

impl Kernels {
    /// The invocations of a workgroup that is to have `wish`: whole subgroups, no more than the device allows.
    pub(crate) fn threads(&self, wish: u32) -> u32 {
        threads(self.caps(), self.subgroup_size(), wish)
    }
}

/// As [`Kernels::threads`], for a policy's choice.
pub(crate) fn threads(caps: &Capabilities, subgroup_size: u32, wish: u32) -> u32 {
    let subgroups = caps.subgroup.max_workgroup_subgroups.saturating_mul(subgroup_size);
    let most = caps.limits.workgroup_invocations.min(subgroups).max(subgroup_size);
    wish.next_multiple_of(subgroup_size).min(most / subgroup_size * subgroup_size)
}

/// Workgroups for `items` items at `each` a workgroup, folded over x and y.
pub(crate) fn groups_over(op: &'static str, items: u64, each: u32) -> Result<[u32; 3], Unsupported> {
    match u32::try_from(items) {
        Ok(items) => {
            let [x, y] = fold_groups(items.div_ceil(each));
            Ok([x, y, 1])
        }
        Err(_) => refuse(op, format!("{items} elements in one dispatch, 2^32 - 1 at most")),
    }
}

/// The answer where a kernel cannot do what is asked.
pub(crate) fn refuse<T>(op: &'static str, reason: impl Into<String>) -> Result<T, Unsupported> {
    Err(Unsupported { op, format: None, reason: reason.into() })
}

/// Whether a vector of weights may be read by `vec4`.
pub(crate) fn is_vec4(slice: &Slice) -> bool {
    slice.address().is_multiple_of(16)
}
