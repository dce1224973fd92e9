//! Compute kernels: GLSL, dispatch, scalar reference and test of each side by side.
//!
//! A family of operations is a folder: `<op>.comp` (the shader; its header declares its variants), `<op>.rs` (params, the
//! choice of a variant, the dispatch), `reference.rs` (the scalar oracle) and `suite.rs` (what is tried at which shapes, run
//! by the tests here and by `zinc check --ops` on a user's device). To add one: write the folder, declare it here, and give
//! [`kernels`] and [`suites`] a line each.
//!
//! `glsl/format.md` says what a shader may rely on and what a quant format's GLSL provides.
#![forbid(unsafe_code)]

mod counters;
mod error;
mod lanes;
mod launch;
mod mat;
mod policy;
mod rounds;
mod row;
mod shader;
pub mod suite;

pub mod attention;
pub mod chain;
pub mod device;
pub mod dot;
pub mod elementwise;
pub mod embed;
pub mod gemm;
pub mod gemv;
pub mod kv;
pub mod moe;
pub mod norm;
pub mod product;
pub mod recurrent;
pub mod rope;
pub mod sample;
pub mod slices;

pub use error::{Error, Unsupported};
pub use mat::{Mat, fold_groups};
pub use policy::{DeviceClass, DotShape, GemvShape, Policy, Precision};
pub use row::RowInfo;
pub use shader::{Shader, shader, shaders};

use counters::Counters;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use suite::CaseResult;
use zinc_vulkan::{Capabilities, Device, Pipeline, PipelineDesc};

/// What the host and a shader agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// File name of the shader without extension.
    pub stem: &'static str,
    /// Buffer addresses at the start of its push constants.
    pub bindings: u32,
    /// Bytes of its params.
    pub params_bytes: u32,
}

/// Every kernel; a test holds each against its compiled shaders.
pub fn kernels() -> Vec<Kernel> {
    [
        gemv::KERNELS,
        gemm::KERNELS,
        dot::KERNELS,
        slices::KERNELS,
        embed::KERNELS,
        norm::KERNELS,
        chain::KERNELS,
        rope::KERNELS,
        kv::KERNELS,
        attention::KERNELS,
        recurrent::KERNELS,
        elementwise::KERNELS,
        moe::KERNELS,
        sample::KERNELS,
        device::KERNELS,
        lanes::KERNELS,
    ]
    .concat()
}

/// A family's suite.
pub type Suite = fn(&Kernels) -> Vec<CaseResult>;

/// Every suite by name.
pub fn suites() -> &'static [(&'static str, Suite)] {
    &[
        ("gemv", gemv::suite),
        ("gemm", gemm::suite),
        ("dot", dot::suite),
        ("slices", slices::suite),
        ("embed", embed::suite),
        ("norm", norm::suite),
        ("chain", chain::suite),
        ("rope", rope::suite),
        ("kv", kv::suite),
        ("attention", attention::suite),
        ("recurrent", recurrent::suite),
        ("elementwise", elementwise::suite),
        ("moe", moe::suite),
        ("sample", sample::suite),
    ]
}

/// What is needed to record operations on a device: its pipelines and its policy. Clones share them.
#[derive(Clone)]
pub struct Kernels {
    device: Device,
    policy: Arc<Policy>,
    pipelines: Arc<Mutex<HashMap<Wanted, Making>>>,
    counters: Arc<Mutex<Counters>>,
    /// What launches note instead of being recorded.
    noted: Option<Arc<Mutex<Vec<Wanted>>>>,
}

/// A pipeline that is made, or will be by who has the lock.
type Making = Arc<Mutex<Option<Pipeline>>>;

/// What a pipeline is made of: a kernel, its shader's variant and specialisation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    kernel: Kernel,
    variant: Vec<(String, String)>,
    specialization: Vec<(u32, u32)>,
}

impl Kernels {
    /// The kernels on a device, with the policy of its class.
    pub fn new(device: &Device) -> Kernels {
        let mut kernels = Kernels::with_policy(device, Policy::of(device.capabilities()));
        let own = &kernels.policy;
        if !own.gemm.lanes.is_empty() || own.attention.lanes.is_some() || own.slices.most_columns > 0 {
            // What the device alone can say.
            if !lanes::are_known(&kernels) {
                let policy = Arc::make_mut(&mut kernels.policy);
                (policy.gemm.lanes, policy.attention.lanes) = (&[], None);
                policy.slices.most_columns = 0;
            }
        }
        kernels
    }

    /// The kernels with another policy: for measurements.
    pub fn with_policy(device: &Device, policy: Policy) -> Kernels {
        Kernels {
            device: device.clone(),
            policy: Arc::new(policy),
            pipelines: Arc::default(),
            counters: Arc::default(),
            noted: None,
        }
    }

    /// The same kernels, but what is recorded with them is left out and noted: [`Kernels::noted`].
    pub fn noting(&self) -> Kernels {
        Kernels { noted: Some(Arc::default()), ..self.clone() }
    }

    /// The pipelines that would have been needed, in the order of their dispatches, some more than once.
    pub fn noted(&self) -> Vec<Wanted> {
        self.noted.as_ref().map_or(Vec::new(), |noted| std::mem::take(&mut *lock(noted)))
    }

    /// Pipelines that were made so far.
    pub fn made(&self) -> usize {
        lock(&self.pipelines).len()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the device can do.
    pub fn caps(&self) -> &Capabilities {
        self.device.capabilities()
    }

    /// Tuning for the device.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Lanes of a subgroup in every kernel here.
    pub fn subgroup_size(&self) -> u32 {
        self.policy.subgroup_size
    }

    /// Makes a pipeline before it is needed.
    ///
    /// # Errors
    /// As [`Kernels::pipeline`].
    pub fn make(&self, wanted: &Wanted) -> Result<(), Error> {
        self.made_of(wanted).map(|_| ())
    }

    /// The pipeline of a shader's variant with these specialisation constants (id, value), made once.
    ///
    /// # Errors
    /// [`Unsupported`] where the build has no such variant, else what the driver says.
    pub fn pipeline(
        &self,
        kernel: &Kernel,
        variant: &[(&str, &str)],
        specialization: &[(u32, u32)],
    ) -> Result<Pipeline, Error> {
        self.made_of(&Wanted::new(kernel, variant, specialization))
    }

    fn made_of(&self, wanted: &Wanted) -> Result<Pipeline, Error> {
        let making = lock(&self.pipelines).entry(wanted.clone()).or_default().clone();
        // Who comes second waits for the first one.
        let mut making = lock(&making);
        if let Some(made) = &*making {
            return Ok(made.clone());
        }
        let Wanted { kernel, variant, specialization } = wanted;
        let variant: Vec<(&str, &str)> = variant.iter().map(|(d, v)| (d.as_str(), v.as_str())).collect();
        let shader = shader(kernel.stem, &variant).ok_or_else(|| Unsupported {
            op: kernel.stem,
            format: None,
            reason: format!("no shader variant {variant:?}"),
        })?;
        let made = self.device.pipeline(&PipelineDesc {
            name: &shader.name(),
            spirv: shader.spirv(),
            entry: "main",
            specialization,
            subgroup_size: Some(self.policy.subgroup_size),
            bindings: kernel.bindings,
            params_bytes: kernel.params_bytes,
        })?;
        Ok(making.insert(made).clone())
    }
}

impl Wanted {
    fn new(kernel: &Kernel, variant: &[(&str, &str)], specialization: &[(u32, u32)]) -> Wanted {
        let variant = variant.iter().map(|&(d, v)| (d.to_owned(), v.to_owned())).collect();
        Wanted { kernel: *kernel, variant, specialization: specialization.to_vec() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_constants_agree_with_the_shaders() {
        let kernels = kernels();
        for shader in shaders() {
            let kernel = kernels.iter().find(|k| k.stem == shader.stem);
            let kernel = kernel.unwrap_or_else(|| panic!("`{}` is not in the list of kernels", shader.stem));
            let host = 8 * kernel.bindings + kernel.params_bytes;
            assert_eq!(shader.push_bytes, host, "`{}` {:?}", shader.stem, shader.variant);
            assert!(host <= 128, "`{}`", shader.stem);
        }
        for kernel in kernels {
            assert!(shaders().iter().any(|s| s.stem == kernel.stem), "no shader `{}`", kernel.stem);
        }
    }

    #[test]
    fn folded_grids_cover_all_groups() {
        for n in [0, 1, 65_534, 65_535, 65_536, 131_071, 262_144, 10_000_019] {
            let [x, y] = fold_groups(n);
            assert!(x <= 65_535 && y <= 65_535 && u64::from(x) * u64::from(y) >= u64::from(n), "{n}");
        }
    }
}
