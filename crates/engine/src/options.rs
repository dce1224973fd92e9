//! What a user can ask of the engine.

use crate::{Error, SamplingOptions, ValidateOptions};
use std::path::PathBuf;
use zinc_kernels::kv::KvType;
use zinc_kernels::{DeviceClass, Policy, Precision};
use zinc_plan::{Op, Plan};
use zinc_vulkan::{CacheLocation, DeviceWish};

/// Which executor runs the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendWish {
    /// A real GPU where there is one, else the CPU executor; [`crate::Summary::reasons`] says why.
    #[default]
    Auto,
    /// Vulkan, a software driver included where the device wish names one or nothing else is there.
    Vulkan,
    /// The CPU executor.
    Cpu,
}

/// How prompts are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrefillMode {
    /// Many tokens a step, every weight read once a step.
    #[default]
    Batched,
    /// One token a step.
    PerToken,
    /// Batched, and compared with other paths by [`crate::Engine::validate`]: a prompt whose comparison fails is an error.
    Validate,
}

impl PrefillMode {
    /// The environment variable that sets the mode where nothing else does.
    pub const VARIABLE: &str = "ZINC_BATCHED_PREFILL";

    /// What the environment asks for; `None` where it asks for nothing.
    ///
    /// # Errors
    /// A value of [`PrefillMode::VARIABLE`] that means nothing.
    pub fn of_environment() -> Result<Option<PrefillMode>, Error> {
        std::env::var_os(Self::VARIABLE).map(|value| Self::of_value(&value.to_string_lossy())).transpose()
    }

    fn of_value(value: &str) -> Result<PrefillMode, Error> {
        match value {
            "1" => Ok(PrefillMode::Batched),
            "0" => Ok(PrefillMode::PerToken),
            "validate" => Ok(PrefillMode::Validate),
            _ => Err(Error::Option(format!(
                "`{}={value}` means nothing\nhint: 1 is batched, 0 is per-token, `validate` compares both; or unset it",
                Self::VARIABLE
            ))),
        }
    }
}

/// How to load a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The GGUF file, or the first of a split model.
    pub model: PathBuf,
    /// Which executor.
    pub backend: BackendWish,
    /// Which Vulkan device.
    pub device: DeviceWish,
    /// Tokens a sequence may have; `None`: the model's own, at most [`LoadOptions::DEFAULT_CONTEXT`].
    pub context: Option<u32>,
    /// Sequences that can exist at the same time; each has room for `context` tokens.
    pub sequences: u32,
    /// Tokens of prefixes that can be kept beside the sequences, in whole pages ([`crate::Sequence::share`]).
    pub kept_tokens: u32,
    /// Device memory for recurrent states of earlier positions, so that a sequence can be cut there and goes on without reading its
    /// beginning again; at most 32 of them. Of no meaning to models without recurrent states.
    pub checkpoint_bytes: u64,
    /// Element type of the KV cache on Vulkan; the CPU executor keeps f32.
    pub kv_type: KvType,
    /// Which arithmetic Vulkan may use; `None`: [`LoadOptions::default_precision`]. The CPU executor is exact.
    pub precision: Option<Precision>,
    /// Bytes of device memory to use at most; `None`: what the driver says is free.
    pub budget: Option<u64>,
    /// How prompts are read.
    pub prefill: PrefillMode,
    /// What [`PrefillMode::Validate`] compares.
    pub validate: ValidateOptions,
    /// Rows of a step at most, where prompts are batched; `None`: as many as were best when `zinc tune` measured this model on this
    /// device, else what its class of devices takes ([`zinc_kernels::Policy::steps`]). Steps are narrower where a kernel takes fewer rows or memory is short, and the
    /// statistics then say why.
    pub chunk: Option<u32>,
    /// Fuse operations. Off, each is a dispatch of its own.
    pub fuse: bool,
    /// Replaces the file's `tokenizer.ggml.pre`.
    pub pretokenizer: Option<String>,
    /// Load the Khronos validation layer and fail with what it says about a load.
    pub validation: bool,
    /// Where compiled pipelines are kept.
    pub cache: CacheLocation,
}

impl LoadOptions {
    /// Context where none is asked for and the model allows more.
    pub const DEFAULT_CONTEXT: u32 = 4096;
    /// The most rows of a step that measurements may ask for.
    pub const MAX_CHUNK: u32 = 4096;

    /// Rows of a step at most, by mode and chunk, or where nothing is asked for.
    pub(crate) fn rows(&self, default: u32) -> u32 {
        match self.prefill {
            PrefillMode::Batched | PrefillMode::Validate => self.chunk.unwrap_or(default),
            PrefillMode::PerToken => 1,
        }
    }

    /// The arithmetic where none is asked for. Fast on a GPU, for models without experts and recurrent states: of their kind real ones were
    /// measured over 2,000 tokens of text (`bench/results/*-fast-policy.txt`, a mean KL divergence below 1e-5 nats). What a router makes of near
    /// ties, and what rounding does to a state that goes on and on, was not. A software driver gains nothing.
    pub fn default_precision(plan: &Plan, policy: &Policy) -> Precision {
        let routed = plan.ops.iter().any(|n| matches!(n.op, Op::Route { .. }));
        match policy.class {
            DeviceClass::Software => Precision::Exact,
            _ if routed || !plan.states.is_empty() => Precision::Exact,
            _ => Precision::Fast,
        }
    }

    /// The arithmetic for a model on a device.
    pub fn precision_for(&self, plan: &Plan, policy: &Policy) -> Precision {
        self.precision.unwrap_or_else(|| LoadOptions::default_precision(plan, policy))
    }

    /// The defaults for a file.
    pub fn new(model: impl Into<PathBuf>) -> LoadOptions {
        LoadOptions {
            model: model.into(),
            backend: BackendWish::Auto,
            device: DeviceWish::Auto,
            context: None,
            sequences: 1,
            kept_tokens: 0,
            checkpoint_bytes: 256 << 20,
            kv_type: KvType::F16,
            precision: None,
            budget: None,
            prefill: PrefillMode::Batched,
            validate: ValidateOptions::default(),
            chunk: None,
            fuse: true,
            pretokenizer: None,
            validation: false,
            cache: CacheLocation::User,
        }
    }
}

/// What a load is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProgress {
    /// Weights were brought to the device.
    Weights {
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// Which logits a forward pass returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// None: the tokens only enter the cache, and the head is not computed.
    None,
    /// Those after the last token.
    Last,
    /// Those after every token.
    All,
    /// The likeliest tokens after the last token: what a sampler nearly always decides by, without the row.
    Candidates,
}

impl Want {
    /// Rows of logits that are computed of `tokens` tokens: those of the last ones.
    pub(crate) fn logit_rows(self, tokens: usize) -> usize {
        match self {
            Want::None => 0,
            Want::Last | Want::Candidates => tokens.min(1),
            Want::All => tokens,
        }
    }

    /// Whether the logits of token `i` of `tokens` are among them.
    pub(crate) fn of_token(self, i: usize, tokens: usize) -> bool {
        i >= tokens - self.logit_rows(tokens)
    }
}

/// How to generate.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Tokens to generate at most; 0 generates none (the prompt is still processed).
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: SamplingOptions,
    /// Generation ends before any of these; they are not part of the text.
    pub stop: Vec<String>,
    /// Go on after the end-of-generation token (for benchmarks).
    pub ignore_end: bool,
    /// Emit control tokens as text too.
    pub show_control: bool,
    /// Keep recurrent states near the end of the prompt, for a later one that begins like it ([`crate::Sequence::keep`]). It takes the
    /// prompt a step more.
    pub keep: bool,
}

impl Default for GenerateOptions {
    /// 128 tokens, greedy.
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 128,
            sampling: SamplingOptions::default(),
            stop: Vec::new(),
            ignore_end: false,
            show_control: false,
            keep: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_vulkan::{Capabilities, DeviceKind};

    #[test]
    fn the_environment_says_a_mode_or_is_refused() {
        assert_eq!(PrefillMode::of_value("1").unwrap(), PrefillMode::Batched);
        assert_eq!(PrefillMode::of_value("0").unwrap(), PrefillMode::PerToken);
        for bad in ["", "yes", "2", "batched "] {
            let error = PrefillMode::of_value(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`ZINC_BATCHED_PREFILL={bad}`")), "{error}");
        }
    }

    #[test]
    fn fast_is_the_default_where_real_models_were_measured() {
        let policy = |kind| Policy::of(&Capabilities { kind, ..Default::default() });
        let of = |name: &str, policy: &Policy| {
            let gguf = zinc_gguf::Gguf::open(&zinc_testkit::fixtures(name)[0].model).unwrap();
            LoadOptions::default_precision(&zinc_model::Model::from_gguf(&gguf).unwrap().plan, policy)
        };
        let card = policy(DeviceKind::Discrete);
        let dense = ["llama", "qwen2", "qwen3", "gemma3", "gemma4"];
        for name in zinc_testkit::ARCHITECTURES {
            let want = if dense.contains(&name) { Precision::Fast } else { Precision::Exact };
            assert_eq!(of(name, &card), want, "{name}");
        }
        assert_eq!(of("llama", &policy(DeviceKind::Cpu)), Precision::Exact, "a software driver");
        let exact = LoadOptions { precision: Some(Precision::Exact), ..LoadOptions::new("m") };
        let gguf = zinc_gguf::Gguf::open(&zinc_testkit::fixtures("llama")[0].model).unwrap();
        let plan = zinc_model::Model::from_gguf(&gguf).unwrap().plan;
        assert_eq!(exact.precision_for(&plan, &card), Precision::Exact, "what is asked for");
    }
}
