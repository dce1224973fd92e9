//! What a load takes, worked out before anything is allocated; also for a device that is not there.

use super::buffers::Extents;
use super::widths::{Schedules, Widths, compile_all};
use super::{record, weights};
use crate::compile::{Shape, Target};
use crate::memory::{DoesNotFit, MemoryPlan, Needs, fit, gib, largest, place_weights};
use crate::{Error, Fallback, LoadOptions, PrefillPath, Unsupported};
use zinc_kernels::Policy;
use zinc_kernels::attention::attention::COUNTER_BYTES;
use zinc_kernels::gemv::Cut;
use zinc_kernels::kv::{self, KvType};
use zinc_model::Model;
use zinc_plan::{KvSpec, Plan};
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
    /// The largest context for which there would be memory, with such steps, up to [`LoadPlan::MOST_CONTEXT`].
    pub largest_context: u32,
}

impl LoadPlan {
    /// Tokens up to which the largest context is looked for.
    pub const MOST_CONTEXT: u32 = 1 << 24;
}

/// What a load would take on a device of `bytes` bytes that nobody has: one with the limits that most have. The memory of the
/// steps is the most that it can be.
///
/// # Errors
/// As loading: no kernel, or too little memory.
pub fn plan_without_device(model: &Model, options: &LoadOptions, bytes: u64) -> Result<LoadPlan, Error> {
    let caps = imaginary();
    let policy = Policy::of(&caps);
    let target = Target {
        caps: &caps,
        policy: &policy,
        precision: options.precision_for(&model.plan, &policy),
        kv_type: options.kv_type,
        cut: &Cut::Policy,
        fuse: options.fuse,
        keep: false,
    };
    let context = crate::open::context(model, options)?;
    let max_buffer = caps.limits.max_buffer;
    let most = |_shape, _context| Ok(record::ATTENTION_BYTES + COUNTER_BYTES);
    Ok(plan(&model.plan, &target, context, options, max_buffer, bytes, &most)?.load)
}

/// A load, with what its executor starts from.
pub(super) struct Planned {
    pub load: LoadPlan,
    pub extents: Extents,
    pub widths: Widths,
    pub schedules: Schedules,
}

/// Plans a load. `work` gives the bytes of the kernels' own scratch for a shape and a context. Steps are as wide as asked for, or as
/// kernels and memory allow.
pub(super) fn plan(
    plan: &Plan,
    target: &Target<'_>,
    context: u32,
    options: &LoadOptions,
    max_buffer: u64,
    available: u64,
    work: &dyn Fn(Shape, u32) -> Result<u64, Unsupported>,
) -> Result<Planned, Error> {
    check_cache(plan, target.kv_type)?;
    let chunk = options.rows(target.policy.steps(target.caps, target.precision)).max(1);
    let (compiled, mut schedules, mut fallbacks) = compile_all(plan, target, chunk)?;
    let vector = weights::vectors(plan);
    let weights = place_weights(plan, |i| vector[i], max_buffer)?.0.total();
    let mut too_wide: Option<DoesNotFit> = None;
    for &rows in compiled.rows().iter().rev() {
        let widths = Widths::new(rows, plan.vocab());
        let widest = Shape::new(rows, widths.logit_rows());
        // Asked for once here, so that it cannot fail below.
        work(widest, context)?;
        let extents = |context| Extents {
            context,
            sequences: options.sequences,
            kept_pages: crate::memory::pages(options.kept_tokens),
            state_slots: crate::memory::state_slots(plan, options.sequences, options.checkpoint_bytes),
            rows,
            logit_rows: widest.logit_rows,
            vocab: plan.vocab(),
            kv_type: target.kv_type,
            scratch: widths.shapes().map(|s| schedules[&s].scratch.bytes).max().unwrap_or(0),
            work: work(widest, context).unwrap_or(u64::MAX / 4),
        };
        match fit(context, available, |context| needs(plan, weights, &extents(context)).at(context)) {
            Ok(memory) => {
                fallbacks.extend(too_wide.map(|no| narrowed(compiled.widest(), &no)));
                let need = |context| needs(plan, weights, &extents(context)).at(context);
                let largest_context = largest(LoadPlan::MOST_CONTEXT, available, need).unwrap_or(context);
                let extents = extents(context);
                schedules.retain(|shape, _| shape.rows <= rows);
                let path = PrefillPath::of(rows, target.precision, fallbacks);
                let load = LoadPlan { context, path, memory, largest_context };
                return Ok(Planned { load, extents, widths, schedules });
            }
            Err(no) if rows == 1 => return Err(no.into()),
            Err(no) => too_wide = too_wide.or(Some(no)),
        }
    }
    Err(Error::Option("a step has at least one row".into()))
}

/// Refuses a cache that the model's heads do not fit into where the default would take them: nobody who asks for a type wants the CPU executor instead.
fn check_cache(plan: &Plan, kv_type: KvType) -> Result<(), Error> {
    let fits = |kind, s: &KvSpec| kv::supports("kv_write", kind, s.heads, s.key_size, s.value_size).is_ok();
    match plan.kv.iter().find(|s| !fits(kv_type, s) && fits(KvType::F16, s)) {
        None => Ok(()),
        Some(&KvSpec { key_size, value_size, .. }) => {
            Err(Error::CacheType { kv_type: kv_type.name(), key_size, value_size, unit: kv_type.unit() })
        }
    }
}

fn needs<'a>(plan: &'a Plan, weights: u64, e: &Extents) -> Needs<'a> {
    Needs {
        plan,
        weights,
        kv_type: e.kv_type,
        sequences: e.sequences,
        kept_pages: e.kept_pages,
        state_slots: e.state_slots,
        scratch: e.scratch,
        steps: e.work + e.step_bytes(),
        staging: weights::STAGING_BYTES.min(weights),
    }
}

/// Why steps of `rows` rows are not taken, though they compile.
fn narrowed(rows: u32, no: &DoesNotFit) -> Fallback {
    let reason = format!("{} of device memory are missing for so wide steps", gib(no.needed - no.available));
    Fallback { rows, op: "memory".into(), layer: None, label: "scratch".into(), format: "f32".into(), reason }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_are_no_whole_blocks_are_refused_with_what_to_do() {
        let gguf = zinc_gguf::Gguf::open(&zinc_testkit::fixtures("llama")[0].model).unwrap();
        let mut plan = Model::from_gguf(&gguf).unwrap().plan;
        assert!(check_cache(&plan, KvType::Q8_0).is_ok());
        plan.kv[1].value_size = 80;
        assert!(check_cache(&plan, KvType::F16).is_ok());
        let error = check_cache(&plan, KvType::Q8_0).unwrap_err();
        assert!(matches!(error, Error::CacheType { kv_type: "q8_0", value_size: 80, .. }), "{error}");
        assert!(error.to_string().contains("hint: leave out `--kv q8_0`"), "{error}");
    }
}
