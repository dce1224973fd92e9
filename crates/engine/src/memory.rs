//! Planning of device memory: everything is known before anything is allocated.

use crate::{KvType, PAGE_TOKENS};
use zinc_plan::{Plan, RopeTable};
use zinc_vulkan::ArenaPlan;

/// Bytes of device memory by use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// What for, and bytes.
    pub items: Vec<(&'static str, u64)>,
}

impl MemoryPlan {
    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.items.iter().map(|i| i.1).sum()
    }
}

/// Model and context need more memory than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a context of {context} needs {} of device memory, {} is available, {} short\nhint: {}",
    gib(*.needed), gib(*.available), gib(.needed - .available), advice(*.largest_context))]
pub struct DoesNotFit {
    /// Tokens that were asked for.
    pub context: u32,
    /// Bytes needed.
    pub needed: u64,
    /// Bytes there are.
    pub available: u64,
    /// The largest context that fits; `None` where the weights alone do not.
    pub largest_context: Option<u32>,
}

fn advice(largest: Option<u32>) -> String {
    match largest {
        Some(n) => format!("the largest context that fits is {n} tokens (`--ctx {n}`)"),
        None => "not even the smallest context fits; use a smaller model or another device".into(),
    }
}

/// Bytes in words: GiB with two digits, MiB below a tenth of one.
pub fn gib(bytes: u64) -> String {
    let mib = bytes as f64 / 1048576.0;
    if mib < 100.0 { format!("{mib:.2} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

/// Checks that a context fits into `available` bytes. `need` gives the memory of a context and must not fall as the context grows.
pub fn fit(context: u32, available: u64, need: impl Fn(u32) -> MemoryPlan) -> Result<MemoryPlan, DoesNotFit> {
    let plan = need(context);
    if plan.total() <= available {
        return Ok(plan);
    }
    let largest_context = largest(context.saturating_sub(1), available, need);
    Err(DoesNotFit { context, needed: plan.total(), available, largest_context })
}

/// The largest context of up to `most` tokens that fits into `available` bytes, in whole pages, so that it is what a load then takes; `None`
/// where no page fits. `need` as for [`fit`].
pub fn largest(most: u32, available: u64, need: impl Fn(u32) -> MemoryPlan) -> Option<u32> {
    let fits = |context: u32| need(context).total() <= available;
    let (mut fitting, mut failing) = if fits(most) { (most, most) } else { (0, most) };
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        *(if fits(middle) { &mut fitting } else { &mut failing }) = middle;
    }
    Some(fitting / PAGE_TOKENS * PAGE_TOKENS).filter(|&n| n > 0)
}

/// What a load will keep on the device.
#[derive(Debug, Clone)]
pub struct Needs<'a> {
    /// The model.
    pub plan: &'a Plan,
    /// Bytes of the weights as the device holds them, alignment included.
    pub weights: u64,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// Sequences, each with a full context.
    pub sequences: u32,
    /// Pages for prefixes that are kept beside the sequences.
    pub kept_pages: u32,
    /// Sets of recurrent states: one a sequence, and what is kept of earlier ones.
    pub state_slots: u32,
    /// Scratch of the widest schedule.
    pub scratch: u64,
    /// Inputs and results of steps, and what attention keeps of its key blocks.
    pub steps: u64,
    /// The upload ring, freed after the load.
    pub staging: u64,
}

impl Needs<'_> {
    /// The memory for a context.
    pub fn at(&self, context: u32) -> MemoryPlan {
        let of_sequence = u64::from(pages(context));
        // One page more than sequences have, for rows that only fill up a step.
        let pages = of_sequence * u64::from(self.sequences) + u64::from(self.kept_pages) + 1;
        let kv: u64 =
            self.plan.kv.iter().map(|s| page_bytes(s, self.kv_type)).map(|(k, v)| (k + v) * pages).sum();
        let ropes: u64 = self.plan.ropes.iter().map(|r| rope_bytes(r, context)).sum();
        let tables = of_sequence * (u64::from(self.sequences) + 1) * 4;
        MemoryPlan {
            items: vec![
                ("weights", self.weights),
                ("KV cache", kv),
                ("states", state_bytes(self.plan) * u64::from(self.state_slots)),
                ("rotary tables", ropes),
                ("scratch", self.scratch),
                ("steps", self.steps + tables),
                ("upload", self.staging),
            ],
        }
    }
}

/// Pages of a sequence.
pub fn pages(context: u32) -> u32 {
    context.div_ceil(PAGE_TOKENS)
}

/// Bytes of the recurrent states of a sequence.
pub fn state_bytes(plan: &Plan) -> u64 {
    plan.states.iter().map(|s| s.elements() as u64 * 4).sum()
}

/// Most earlier states that are kept, however small they are.
const MOST_CHECKPOINTS: u64 = 32;

/// Sets of recurrent states: one for each sequence, and as many earlier ones as fit into `checkpoint_bytes`. 0 for models without.
pub fn state_slots(plan: &Plan, sequences: u32, checkpoint_bytes: u64) -> u32 {
    match state_bytes(plan) {
        0 => 0,
        bytes => sequences + (checkpoint_bytes / bytes).min(MOST_CHECKPOINTS) as u32,
    }
}

/// Bytes of a page's keys and of its values.
pub fn page_bytes(spec: &zinc_plan::KvSpec, kv_type: KvType) -> (u64, u64) {
    let page = |size| zinc_kernels::kv::page_bytes(kv_type, spec.heads, size);
    (page(spec.key_size), page(spec.value_size))
}

/// Bytes of a rotary table: cosine and sine of each pair at each position.
pub fn rope_bytes(table: &RopeTable, context: u32) -> u64 {
    u64::from(context) * table.inverse_frequencies.len() as u64 * 8
}

/// Places for all weights of a plan, in order, and the arena they lie in. Tensors never straddle two chunks.
pub fn place_weights(
    plan: &Plan,
    raw: impl Fn(usize) -> bool,
    max_chunk: u64,
) -> Result<(ArenaPlan, Vec<zinc_vulkan::Placement>), zinc_vulkan::Error> {
    let mut arena = ArenaPlan::new("weights", max_chunk);
    let places = plan.weights.iter().enumerate().map(|(i, w)| {
        let row = match raw(i) {
            true => u64::from(w.k) * 4,
            false => w.format.device_row_bytes(w.k as usize) as u64,
        };
        arena.add(row * w.rows() as u64, 256)
    });
    let places = places.collect::<Result<Vec<_>, _>>()?;
    Ok((arena, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes and 10 a token.
    fn need(context: u32) -> MemoryPlan {
        MemoryPlan { items: vec![("weights", 1000), ("KV cache", 10 * u64::from(context))] }
    }

    #[test]
    fn what_fits_is_planned_and_what_does_not_is_refused_with_the_largest_context() {
        assert_eq!(fit(100, 2000, need).unwrap().total(), 2000);
        let no = fit(101, 2000, need).unwrap_err();
        assert_eq!((no.needed, no.available, no.largest_context), (2010, 2000, Some(96)));
        assert!(no.to_string().contains("largest context that fits is 96"));
        assert!(fit(96, 2000, need).is_ok(), "the advice can be followed");
    }

    #[test]
    fn weights_that_do_not_fit_leave_no_context() {
        assert_eq!(fit(4096, 999, need).unwrap_err().largest_context, None);
        assert_eq!(fit(4096, 1000 + 10 * 15, need).unwrap_err().largest_context, None, "less than a page");
        assert_eq!(fit(4096, 1000 + 10 * 16, need).unwrap_err().largest_context, Some(16));
    }
}
