//! What a user can ask of the engine.

use crate::SamplingOptions;
use std::path::PathBuf;
use zinc_kernels::kv::KvType;
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
    /// Element type of the KV cache on Vulkan; the CPU executor keeps f32.
    pub kv_type: KvType,
    /// Bytes of device memory to use at most; `None`: what the driver says is free.
    pub budget: Option<u64>,
    /// Rows of a prefill step at most. 1 is the per-token path. Steps are narrower where a kernel takes fewer rows, and the
    /// statistics then say why.
    pub chunk: u32,
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

    /// The defaults for a file.
    pub fn new(model: impl Into<PathBuf>) -> LoadOptions {
        LoadOptions {
            model: model.into(),
            backend: BackendWish::Auto,
            device: DeviceWish::Auto,
            context: None,
            sequences: 1,
            kv_type: KvType::F16,
            budget: None,
            chunk: 32,
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
        }
    }
}
