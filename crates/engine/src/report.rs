//! What the engine says about itself and about a run.

use serde::Serialize;
use zinc_kernels::gemv::ProductClass;
use zinc_kernels::moe::Grouping;
use zinc_kernels::product::Product;

/// What was loaded, where it runs, and why there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// `vulkan` or `cpu`.
    pub backend: &'static str,
    /// Device name; for the CPU executor its threads.
    pub device: String,
    /// Driver and version; empty for the CPU executor.
    pub driver: String,
    /// Why this backend and device: a line a device considered.
    pub reasons: Vec<String>,
    /// What of the file is left out, and why.
    pub notes: Vec<String>,
    /// `general.architecture`.
    pub architecture: String,
    /// Arithmetic policy: `exact` is f32 in a fixed order, `fast` may round the inputs of products.
    pub policy: &'static str,
    /// Where the tiles of products come from: the device class's `policy`, or `tuned` on this device; empty for the CPU executor.
    pub tiles: &'static str,
    /// Where the rows of a step come from: `default`, `tuned` for this model on this device, or `asked for`; empty for the CPU executor.
    pub steps: &'static str,
    /// Element type of the KV cache.
    pub kv_type: &'static str,
    /// Tokens a sequence may have.
    pub context: u32,
    /// Sequences.
    pub sequences: u32,
    /// Elements of a row of logits.
    pub vocab: u32,
    /// Device memory by use, in bytes.
    pub memory: Vec<(&'static str, u64)>,
    /// Seconds the load took.
    pub load_seconds: f64,
}

/// How often a layer's experts were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Routing {
    /// The layer.
    pub layer: Option<u32>,
    /// Rows that chose.
    pub rows: usize,
    /// By expert, how many rows chose it.
    pub slots: Vec<u32>,
}

impl Routing {
    /// The most, the middle and the least rows of an expert, and how many experts have none.
    pub fn spread(&self) -> RoutingSpread {
        let mut sorted = self.slots.clone();
        sorted.sort_unstable();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(0);
        RoutingSpread {
            min: at(0),
            median: at(sorted.len() / 2),
            max: at(sorted.len().saturating_sub(1)),
            empty: sorted.iter().take_while(|&&n| n == 0).count(),
        }
    }
}

/// Rows an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoutingSpread {
    /// Of the expert with the fewest.
    pub min: u32,
    /// Of the one in the middle.
    pub median: u32,
    /// Of the one with the most.
    pub max: u32,
    /// Experts without any.
    pub empty: usize,
}

/// Why a step has fewer rows than asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// Rows that were asked for.
    pub rows: u32,
    /// The operation that has no kernel for them.
    pub op: String,
    /// Its layer.
    pub layer: Option<u32>,
    /// Its label.
    pub label: String,
    /// Block format of its weight.
    pub format: String,
    /// What is missing.
    pub reason: String,
}

/// How a prompt was processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefillPath {
    /// `per-token`, or `batched`.
    pub path: &'static str,
    /// Rows of a step at most.
    pub chunk: u32,
    /// Arithmetic policy, as in [`Summary::policy`].
    pub policy: &'static str,
    /// Where more rows were asked for than there are kernels for.
    pub fallbacks: Vec<Fallback>,
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model ended its turn with this token.
    EndOfGeneration(u32),
    /// As many tokens as asked for.
    MaxTokens,
    /// A stop string.
    StopString(String),
    /// The sequence has no room left.
    ContextFull,
    /// The caller's event handler asked for it.
    Cancelled,
}

/// A generation in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens that were in the sequence already.
    pub reused_tokens: usize,
    /// Tokens generated, an end-of-generation token included.
    pub generated: usize,
    /// Seconds until the first token was chosen.
    pub prefill_seconds: f64,
    /// Seconds for the tokens after the first.
    pub decode_seconds: f64,
    /// Why it ended.
    pub stop: StopReason,
    /// How the prompt was processed.
    pub prefill: PrefillPath,
    /// What it was compared with, in validate mode; the comparison's time belongs to the prefill.
    pub validation: Option<crate::ValidationReport>,
    /// Where tokens were chosen.
    pub choices: Choices,
    /// Dispatches of a decode step; 0 on the CPU.
    pub dispatches_per_token: u32,
    /// Barriers of a decode step; 0 on the CPU.
    pub barriers_per_token: u32,
    /// Submissions to the queue in this run.
    pub submissions: u64,
}

/// Where tokens were chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// By the GPU's argmax.
    pub gpu_argmax: usize,
    /// From the GPU's candidates.
    pub candidates: usize,
    /// From a full row of logits.
    pub full_row: usize,
}

impl Stats {
    /// Prompt tokens computed a second.
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.reused_tokens, self.prefill_seconds)
    }

    /// Tokens generated a second, the first left out (it belongs to the prefill).
    pub fn decode_rate(&self) -> f64 {
        rate(self.generated.saturating_sub(1), self.decode_seconds)
    }
}

fn rate(tokens: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 }
}

/// The products of a step that are alike.
#[derive(Debug, Clone, Copy)]
pub struct Products {
    /// Matrix and format.
    pub class: ProductClass,
    /// Columns: rows of the step.
    pub columns: u32,
    /// Of experts' matrices, how the slots of these rows are grouped.
    pub experts: Option<Grouping>,
    /// How many there are in the step.
    pub count: u32,
    /// The kernel of each, and how it is cut.
    pub product: Product,
}

impl Products {
    /// Weight elements of all of them; of experts, those that the rows can use.
    pub fn weights(&self) -> u64 {
        let ProductClass { m, k, gated, .. } = self.class;
        let matrices = self.experts.map_or(1, |g| g.used()) * if gated { 2 } else { 1 };
        u64::from(m) * u64::from(k) * u64::from(self.count) * u64::from(matrices)
    }
}

/// GPU time of one dispatch of a profiled step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpTime {
    /// Layer and operation: `3.ffn_down`.
    pub label: String,
    /// Nanoseconds.
    pub nanoseconds: u64,
}

/// Rows of logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// Elements of a row.
    pub vocab: usize,
    /// Rows one after the other.
    pub values: Vec<f32>,
}

impl Logits {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.vocab.max(1)
    }

    /// A row; panics where there is none.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.vocab..(i + 1) * self.vocab]
    }

    /// The last row; `None` where no logits were wanted.
    pub fn last(&self) -> Option<&[f32]> {
        self.rows().checked_sub(1).map(|i| self.row(i))
    }
}
