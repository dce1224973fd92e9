//! The executor on Vulkan: weights and caches on the device, schedules recorded once and submitted again.
//!
//! A step is a batch of rows of any sequences, or the next row of one. Its rows come from the host (prompts, sampled tokens) or from the step before
//! (greedy decoding). Recordings are kept by batch shape, tail, input slot and a bucket of the number of keys.

mod attend;
mod batch;
mod buffers;
mod cost;
mod cut;
mod experts;
#[cfg(feature = "fault-injection")]
mod fault;
mod greedy;
mod hidden;
mod load_plan;
mod observe;
mod record;
mod recordings;
mod routing;
mod step;
#[cfg(test)]
mod tests;
mod warm;
pub(crate) mod weights;
mod widths;

use crate::compile::{Schedule, Shape, Target, compile};
use crate::memory::MemoryPlan;
use crate::{Error, Fallback, KvType, LoadOptions, LoadProgress};
use buffers::{Buffers, Extents};
pub(crate) use greedy::Greedy;
pub use load_plan::{LoadPlan, plan_without_device};
pub(crate) use observe::{Chosen, KvRows, Observed};
use recordings::Recordings;
use std::collections::HashMap;
use std::sync::Arc;
use step::{Held, Key, Program, Source, Tail};
use widths::Widths;
use zinc_gguf::Gguf;
use zinc_kernels::gemv::Cut;
use zinc_kernels::{Kernels, Precision};
use zinc_plan::Plan;
use zinc_vulkan::{Device, MemoryKind, Slice, Stats, Ticket};

/// Recordings that are kept.
const RECORDINGS: usize = 96;

/// What results are set to before a step: no kernel writes this NaN.
const POISON: u32 = 0xffff_dead;

/// A model on a Vulkan device.
pub struct Executor {
    device: Device,
    kernels: Kernels,
    plan: Arc<Plan>,
    kv_type: KvType,
    precision: Precision,
    cut: Cut,
    fuse: bool,
    widths: Widths,
    fallbacks: Vec<Fallback>,
    extents: Extents,
    memory: MemoryPlan,
    weights: Vec<Slice>,
    buffers: Buffers,
    /// What the device's page table holds after the next step from the host.
    page_table: Vec<u32>,
    /// By shape, and whether activations keep their memory.
    schedules: HashMap<(Shape, bool), Arc<Schedule>>,
    programs: Recordings<Key, Program>,
    next_input: usize,
    input_tickets: Vec<Option<Ticket>>,
    steps: u64,
    chosen_steps: u64,
    held: Held,
    decode_stats: Stats,
    submissions: u64,
    warming: Option<warm::Warming>,
    /// What is put wrong in steps that are recorded.
    #[cfg(feature = "fault-injection")]
    spoil: Option<fault::Spoil>,
}

impl Executor {
    /// Plans memory, allocates it, and brings the weights to the device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where an operation has no kernel even for one row, [`Error::DoesNotFit`], what the device says.
    pub fn new(
        device: Device,
        gguf: &Gguf,
        plan: Arc<Plan>,
        context: u32,
        options: &LoadOptions,
        cut: Cut,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Executor, Error> {
        let kernels = Kernels::new(&device);
        let (caps, policy) = (kernels.caps(), kernels.policy());
        let precision = options.precision_for(&plan, policy);
        let (kv_type, fuse) = (options.kv_type, options.fuse);
        let target = Target { caps, policy, precision, kv_type, cut: &cut, fuse, keep: false };
        let max_chunk = device.max_buffer();
        let free = device.available(MemoryKind::Device);
        let available = options.budget.map_or(free, |b| b.min(free));
        let work = |shape, context| record::work_bytes(&kernels, &plan, shape, context);
        let load_plan::Planned { load, extents, widths, schedules } =
            load_plan::plan(&plan, &target, context, options, max_chunk, available, &work)?;
        let LoadPlan { path, memory, .. } = load;
        let weights = weights::upload(&device, gguf, &plan, max_chunk, progress)?;
        let buffers = Buffers::new(&device, &plan, &extents)?;
        let mut executor = Executor {
            page_table: extents.page_table(),
            input_tickets: vec![None; buffers.inputs.len()],
            kv_type,
            precision,
            cut,
            fuse,
            device,
            kernels,
            plan,
            widths,
            fallbacks: path.fallbacks,
            extents,
            memory,
            weights,
            buffers,
            schedules: schedules.into_iter().map(|(shape, s)| ((shape, false), s)).collect(),
            programs: Recordings::new(RECORDINGS),
            next_input: 0,
            steps: 0,
            chosen_steps: 0,
            held: Held::default(),
            decode_stats: Stats::default(),
            submissions: 0,
            warming: None,
            #[cfg(feature = "fault-injection")]
            spoil: None,
        };
        if warm::ahead(executor.kernels.policy().class) {
            executor.warm();
        }
        Ok(executor)
    }

    /// How products are cut.
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Which arithmetic kernels may use.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Rows of a prefill step where nothing is asked for.
    pub fn default_steps(&self) -> u32 {
        self.kernels.policy().steps(self.kernels.caps(), self.precision)
    }

    /// Rows of a prefill step at most.
    pub fn chunk(&self) -> u32 {
        self.widths.widest()
    }

    /// Rows of a step that may have logits, at most.
    pub fn logit_rows(&self) -> u32 {
        self.widths.logit_rows()
    }

    /// Why steps are not as wide as asked for.
    pub fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    /// Device memory by use.
    pub fn memory(&self) -> &MemoryPlan {
        &self.memory
    }

    /// The plan that it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Pages of the KV cache.
    pub fn page_count(&self) -> u32 {
        self.extents.pages()
    }

    /// Slots of recurrent states.
    pub fn state_slots(&self) -> u32 {
        self.extents.state_slots
    }

    /// Submissions so far.
    pub fn submissions(&self) -> u64 {
        self.submissions
    }

    /// Dispatches and barriers of the last step that chose a token.
    pub fn decode_counts(&self) -> (u32, u32) {
        (self.decode_stats.dispatches, self.decode_stats.barriers)
    }

    /// What schedules are compiled for.
    fn target(&self, keep: bool) -> Target<'_> {
        let (caps, policy) = (self.kernels.caps(), self.kernels.policy());
        let &Executor { precision, kv_type, ref cut, fuse, .. } = self;
        Target { caps, policy, precision, kv_type, cut, fuse, keep }
    }

    /// The schedule of a shape, compiled once.
    fn schedule(&mut self, shape: Shape, keep: bool) -> Result<Arc<Schedule>, Error> {
        if let Some(found) = self.schedules.get(&(shape, keep)) {
            return Ok(found.clone());
        }
        let schedule = Arc::new(compile(&self.plan, &self.target(keep), shape)?);
        self.schedules.insert((shape, keep), schedule.clone());
        Ok(schedule)
    }

    /// Keys that a recording for `keys` keys is made for: powers of two from 256 on, at most the context.
    fn key_bucket(&self, keys: u32) -> u32 {
        keys.next_power_of_two().max(256).min(self.extents.context.max(1))
    }
}
