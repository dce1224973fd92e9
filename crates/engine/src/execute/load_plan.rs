//! What a load takes, worked out before anything is allocated; also for a device that is not there.

use super::buffers::Extents;
use super::{LOGIT_ROWS, record, weights, widest};
use crate::compile::{Shape, Target, compile};
use crate::memory::{MemoryPlan, Needs, fit, place_weights};
use crate::{Error, LoadOptions, PrefillPath, Unsupported};
use zinc_kernels::Policy;
use zinc_model::Model;
use zinc_plan::Plan;
use zinc_vulkan::{Capabilities, DeviceKind, Features, Limits, Subgroup};

/// What a load takes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// Tokens that a sequence may have.
    pub context: u32,
    /// How prompts are processed.
    pub path: PrefillPath,
    /// Device memory by use.
    pub memory: MemoryPlan,
}

/// What a load would take on a device of `bytes` bytes that nobody has: one with the limits that most have. The memory of the
/// steps is the most that it can be.
///
/// # Errors
/// As loading: no kernel, or too little memory.
pub fn plan_without_device(model: &Model, options: &LoadOptions, bytes: u64) -> Result<LoadPlan, Error> {
    let caps = imaginary();
    let policy = Policy::of(&caps);
    let target = Target { caps: &caps, policy: &policy, fuse: options.fuse, keep: false };
    let context = crate::open::context(model, options)?;
    let max_buffer = caps.limits.max_buffer;
    let most = |_shape, _context| Ok(record::ATTENTION_BYTES);
    let (plan, _) = plan(&model.plan, &target, context, options, max_buffer, bytes, &most)?;
    Ok(plan)
}

/// Plans a load. `work` gives the bytes of the kernels' own scratch for a shape and a context.
pub(super) fn plan(
    plan: &Plan,
    target: &Target<'_>,
    context: u32,
    options: &LoadOptions,
    max_buffer: u64,
    available: u64,
    work: &dyn Fn(Shape, u32) -> Result<u64, Unsupported>,
) -> Result<(LoadPlan, Extents), Error> {
    let (chunk, fallbacks) = widest(plan, target, options.chunk.max(1))?;
    let logit_rows = chunk.min(LOGIT_ROWS);
    let mut scratch = 0;
    for (rows, logit_rows) in [(chunk, 1), (chunk, logit_rows), (logit_rows, logit_rows)] {
        scratch = scratch.max(compile(plan, target, Shape { rows, logit_rows })?.scratch.bytes);
    }
    let widest = Shape { rows: chunk, logit_rows };
    // Asked for once here, so that it cannot fail below.
    work(widest, context)?;
    let extents = |context: u32| Extents {
        context,
        sequences: options.sequences,
        rows: chunk,
        logit_rows,
        vocab: plan.vocab(),
        kv_type: options.kv_type,
        scratch,
        work: work(widest, context).unwrap_or(u64::MAX),
    };
    let vector = weights::vectors(plan);
    let (arena, _) = place_weights(plan, |i| vector[i], max_buffer)?;
    let memory = fit(context, available, |context| {
        let e = extents(context);
        let needs = Needs {
            plan,
            weights: arena.total(),
            kv_type: options.kv_type,
            sequences: options.sequences,
            scratch,
            steps: e.work + e.step_bytes(),
            staging: weights::STAGING_BYTES.min(arena.total()),
        };
        needs.at(context)
    })?;
    let path = PrefillPath::of(chunk, fallbacks);
    Ok((LoadPlan { context, path, memory }, extents(context)))
}

/// What nearly every device for Vulkan 1.3 can do.
fn imaginary() -> Capabilities {
    Capabilities {
        name: "a device that is not there".into(),
        kind: DeviceKind::Discrete,
        api_version: (1, 3, 0),
        subgroup: Subgroup {
            size: 32,
            min_size: 32,
            max_size: 32,
            max_workgroup_subgroups: 32,
            ..Subgroup::default()
        },
        features: Features {
            storage_8bit: true,
            storage_16bit: true,
            shader_i8: true,
            shader_i16: true,
            shader_i64: true,
            ..Features::default()
        },
        limits: Limits {
            max_allocation: 4 << 30,
            max_buffer: 4 << 30,
            shared_memory: 32 << 10,
            workgroup_invocations: 1024,
            workgroup_size: [1024, 1024, 64],
            group_count: [65_535; 3],
            push_constants: 128,
            ..Limits::default()
        },
        ..Capabilities::default()
    }
}
