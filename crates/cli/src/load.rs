//! Where a model runs: the options that all commands share that run one, and loading it with a progress bar.

use crate::args::{DeviceArg, byte_size};
use crate::error::{Failure, Outcome, error, usage};
use crate::output::{dim, plural};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use zinc_engine::{
    BackendWish, Engine, KvType, LoadOptions, LoadProgress, Precision, PrefillMode, PrefillPath, Products,
    ValidateOptions,
};

/// Where and how a model runs.
#[derive(clap::Args)]
#[command(next_help_heading = "Where it runs")]
pub struct EngineArgs {
    /// What runs the model.
    #[arg(long, value_enum, default_value_t = BackendArg::Auto)]
    pub backend: BackendArg,
    #[command(flatten)]
    pub device: DeviceArg,
    /// Context in tokens: prompt and answer together [default: the model's own, at most 4096].
    #[arg(short = 'c', long = "ctx", value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    /// Element type of the KV cache on Vulkan [default: f16]; the CPU keeps f32. In q8_0 it takes half of the memory.
    #[arg(long, value_enum)]
    pub kv: Option<KvArg>,
    /// Arithmetic on Vulkan [default: fast on a GPU for dense models, else exact]; the CPU is exact.
    #[arg(long, value_enum)]
    pub policy: Option<PolicyArg>,
    /// Device memory to use at most, such as `6GiB` [default: what is free].
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    pub budget: Option<u64>,
    /// How prompts are read [default: batched, or what `ZINC_BATCHED_PREFILL` says].
    #[arg(long, value_enum)]
    pub prefill: Option<PrefillArg>,
    /// With `--prefill validate`: compare with the CPU executor too.
    #[arg(long)]
    pub validate_reference: bool,
    /// With `--prefill validate`: spoil one element of an operation's output in batched prefill.
    #[cfg(feature = "fault-injection")]
    #[arg(long, value_name = "LAYER:OP[:ROW]", allow_hyphen_values = true)]
    pub inject_fault: Option<zinc_engine::Fault>,
    /// Tokens that a step of a batched prompt reads at most, on Vulkan [default: what `zinc tune -m FILE` found best, else 512, or 2048 under the fast policy on matrix cores].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub chunk: Option<u32>,
    /// Switch off an accelerated path, to find out whether it is at fault; may be repeated.
    #[arg(long, value_enum, value_name = "PATH")]
    pub disable: Vec<PathArg>,
    /// Pretokenizer in place of the one the file names.
    #[arg(long, value_name = "NAME")]
    pub pretokenizer: Option<String>,
}

/// The values of `--backend`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum BackendArg {
    /// A GPU where there is one, else the CPU; a software Vulkan driver is not a GPU
    Auto,
    /// Vulkan
    Vulkan,
    /// The CPU executor
    Cpu,
}

/// The values of `--kv`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum KvArg {
    /// Half precision
    F16,
    /// Single precision, the reference
    F32,
    /// Blocks of 32 elements of 8 bits with a scale, for head sizes that are multiples of 32
    #[value(name = "q8_0")]
    Q8_0,
}

impl KvArg {
    pub fn kv_type(self) -> KvType {
        match self {
            KvArg::F16 => KvType::F16,
            KvArg::F32 => KvType::F32,
            KvArg::Q8_0 => KvType::Q8_0,
        }
    }
}

/// The values of `--policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PolicyArg {
    /// f32 sums of f32 values in a fixed order: the same bits however a prompt is read
    Exact,
    /// Inputs of products rounded to f16 or integers
    Fast,
}

impl PolicyArg {
    pub fn precision(self) -> Precision {
        match self {
            PolicyArg::Exact => Precision::Exact,
            PolicyArg::Fast => Precision::Fast,
        }
    }
}

/// The accelerated paths that `--disable` switches off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PathArg {
    /// Several operations in one kernel, on Vulkan
    Fusion,
}

/// The values of `--prefill`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PrefillArg {
    /// Many tokens a step
    Batched,
    /// One token a step
    PerToken,
    /// Many tokens a step, compared with one token a step; exit code 3 where they differ
    Validate,
}

impl EngineArgs {
    /// For the engine. What cannot have an effect is refused.
    pub fn options(&self, model: &Path) -> Outcome<LoadOptions> {
        let vulkan_only = [
            ("--device", self.device.device.is_some()),
            ("--kv", self.kv.is_some()),
            ("--policy fast", self.policy == Some(PolicyArg::Fast)),
            ("--budget", self.budget.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--prefill validate", self.prefill == Some(PrefillArg::Validate)),
            ("--disable fusion", self.disable.contains(&PathArg::Fusion)),
        ];
        if self.backend == BackendArg::Cpu
            && let Some((name, _)) = vulkan_only.iter().find(|o| o.1)
        {
            return Err(usage(
                format!("`{name}` has no effect on the CPU executor"),
                "leave it out, or leave out `--backend cpu`",
            ));
        }
        let defaults = LoadOptions::new(model);
        let prefill = self.prefill_mode()?;
        let validate = ValidateOptions {
            reference: self.validate_reference,
            #[cfg(feature = "fault-injection")]
            fault: self.inject_fault.clone(),
            ..Default::default()
        };
        if prefill != PrefillMode::Validate && validate != ValidateOptions::default() {
            return Err(usage(
                "`--validate-reference` has no effect without `--prefill validate`",
                "ask for it, or leave the option out",
            ));
        }
        if prefill == PrefillMode::PerToken && self.chunk.is_some() {
            return Err(usage(
                "`--chunk` has no effect where prompts are read one token a step",
                "leave it out, or ask for `--prefill batched`",
            ));
        }
        Ok(LoadOptions {
            backend: match self.backend {
                BackendArg::Auto => BackendWish::Auto,
                BackendArg::Vulkan => BackendWish::Vulkan,
                BackendArg::Cpu => BackendWish::Cpu,
            },
            device: self.device.wish(),
            context: self.context,
            kv_type: self.kv.map_or(defaults.kv_type, KvArg::kv_type),
            precision: self.policy.map(PolicyArg::precision),
            budget: self.budget,
            prefill,
            validate,
            chunk: self.chunk,
            fuse: !self.disable.contains(&PathArg::Fusion),
            pretokenizer: self.pretokenizer.clone(),
            ..defaults
        })
    }

    /// What the option asks for, else the environment.
    fn prefill_mode(&self) -> Outcome<PrefillMode> {
        Ok(match self.prefill {
            Some(PrefillArg::Batched) => PrefillMode::Batched,
            Some(PrefillArg::PerToken) => PrefillMode::PerToken,
            Some(PrefillArg::Validate) => PrefillMode::Validate,
            None => PrefillMode::of_environment()?.unwrap_or_default(),
        })
    }

    /// Refuses validate mode for a command that reads no prompts as `run` does.
    pub fn refuse_validate(&self, command: &str) -> Outcome {
        match self.prefill {
            Some(PrefillArg::Validate) => Err(usage(
                format!("`{command}` does not compare paths"),
                "`--prefill validate` is for `run`, `chat`, `bench` and `serve`",
            )),
            _ => Ok(()),
        }
    }

    /// Loads the model; a bar shows the progress on a terminal unless `quiet`.
    pub fn load(&self, model: &Path, quiet: bool) -> Outcome<Engine> {
        let engine = load(&self.options(model)?, quiet)?;
        let dropped = self.kv.is_some()
            || self.policy == Some(PolicyArg::Fast)
            || self.budget.is_some()
            || self.chunk.is_some()
            || self.disable.contains(&PathArg::Fusion);
        if engine.summary().backend == "cpu" && dropped && !quiet {
            let what = "`--kv`, `--policy fast`, `--budget`, `--chunk` and `--disable fusion` have no effect on the CPU executor";
            tell(&[format!("note: {what}, which runs the model")]);
        }
        Ok(engine)
    }
}

/// Loads a model with a progress bar.
pub fn load(options: &LoadOptions, quiet: bool) -> Outcome<Engine> {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    // The template is a constant; were it wrong, the default style would do.
    let style =
        ProgressStyle::with_template("loading {bar:40} {bytes} of {total_bytes}, {binary_bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let engine = Engine::load(options, &mut |progress| match progress {
        LoadProgress::Weights { done, total } => {
            bar.set_length(total);
            bar.set_position(done);
        }
    });
    bar.finish_and_clear();
    Ok(engine?)
}

/// Lines that say where a model runs and why, for standard error.
pub fn describe(engine: &Engine) -> Vec<String> {
    let s = engine.summary();
    let driver = if s.driver.is_empty() { String::new() } else { format!(" ({})", s.driver) };
    let tiles = if s.tiles == "tuned" { ", tiles tuned on this device" } else { "" };
    let steps = if s.steps == "tuned" { ", steps tuned on this device" } else { "" };
    let mut lines = vec![
        format!("on       {}, {}{driver}", s.backend, s.device),
        format!(
            "with     {} arithmetic, {} KV cache, context {}{tiles}{steps}",
            s.policy, s.kv_type, s.context
        ),
    ];
    for reason in &s.reasons {
        let reason = reason.lines().filter(|l| !l.starts_with("hint:"));
        lines
            .extend(reason.enumerate().map(|(i, l)| format!("{:9}{l}", if i == 0 { "because" } else { "" })));
    }
    lines.extend(s.notes.iter().map(|n| format!("note     {n}")));
    lines
}

/// How prompts are read, and a line for each reason why not in wider steps: operation, layer, format, what is missing.
pub fn prefill_lines(path: &PrefillPath) -> Vec<String> {
    let tokens = plural(path.chunk as usize, "token");
    let mut lines = vec![format!("prompts  {}, {tokens} a step, {} arithmetic", path.path, path.policy)];
    for f in &path.fallbacks {
        let layer = f.layer.map_or(String::new(), |l| format!(" of layer {l}"));
        let what = format!("`{}`{layer} ({}, {})", f.label, f.op, f.format);
        lines.push(format!("fallback not {} a step: {what}: {}", plural(f.rows as usize, "token"), f.reason));
    }
    lines
}

/// The kernel families of the products of a step of one token and of a widest one: `gemm of Q4_K and Q6_K, gemv of F32`.
pub fn product_lines(engine: &Engine) -> Outcome<Vec<String>> {
    let chunk = engine.prefill_path().chunk;
    let mut lines = Vec::new();
    for rows in if chunk > 1 { vec![1, chunk] } else { vec![1] } {
        let products = engine.products(rows)?;
        if !products.is_empty() {
            lines.push(format!(
                "products {}, {} a step",
                families(&products),
                plural(rows as usize, "token")
            ));
        }
    }
    Ok(lines)
}

fn families(products: &[Products]) -> String {
    let mut families: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for p in products {
        families.entry(p.product.family()).or_default().insert(p.class.format.name);
    }
    let words = families.iter().map(|(family, formats)| {
        format!("{family} of {}", formats.iter().copied().collect::<Vec<_>>().join(" and "))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Writes lines to standard error, dimmed on a terminal. That nobody reads them is no error.
pub fn tell(lines: &[String]) {
    use std::io::Write;
    for line in lines {
        let _ = writeln!(std::io::stderr(), "{}", dim(line));
    }
}

impl From<zinc_engine::Error> for Failure {
    fn from(e: zinc_engine::Error) -> Failure {
        use zinc_engine::Error as E;
        let e = match e {
            E::Validation(report) => return Failure::Invalid(report),
            e => e,
        };
        let hint = match &e {
            E::Gguf(_) => "check the path, or download or convert the file again",
            E::Model(_) | E::Text(_) => "`zinc inspect FILE` shows what the file holds and why it cannot run",
            E::Vulkan(_) | E::Kernels(_) | E::Unsupported(_) => {
                "`zinc check --ops` tests the device, `--backend cpu` runs without it"
            }
            E::TokenOutOfRange { .. } => "`zinc tokenize` shows the model's tokens",
            E::Option(_) => "`--help` shows what is accepted",
            _ => "`zinc check -m FILE` tests whether and how the model runs",
        };
        error(e, hint)
    }
}
