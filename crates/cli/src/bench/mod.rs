//! `zinc bench`: how fast a model runs, with the output checked; and how fast kernels are.

mod attention;
mod device;
mod experts;
mod gemm;
mod kernels;
mod limits;
pub mod measure;
mod moe;
mod plot;
mod prefill;
pub mod report;
mod scan;

use crate::error::{Outcome, invalid, usage};
use crate::load::{EngineArgs, load};
use measure::{Bench, Measured};
use std::io::Write;
use std::path::PathBuf;

/// Measures prefill and decode of a model, kernels alone, or the device's limits.
///
/// Every measurement has warm-up runs of exactly its shape, which do not count. The output of every repeat is checked: finite logits,
/// the same bits and the same tokens each time; if not, the exit code is 3.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE", required = true)]
    model: Option<PathBuf>,
    /// Prompt lengths to measure; 0: none.
    #[arg(short = 'p', long, value_name = "TOKENS", value_delimiter = ',', default_value = "17,105,512")]
    prompt: Vec<u32>,
    /// Numbers of tokens to generate; 0: none.
    #[arg(short = 'n', long, value_name = "TOKENS", value_delimiter = ',', default_value = "128")]
    decode: Vec<u32>,
    /// Tokens in the cache before each measurement.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    depth: u32,
    /// Runs before those that count, and more until 0.3 s have passed: clocks rise for a while. 0: none.
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u32,
    /// Runs that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Also print the GPU time of one step of the longest prompt and of one decode step by operation, each dispatch waiting for the one before it.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// How to print results.
#[derive(clap::Args)]
pub struct FormatArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(clap::Subcommand)]
enum What {
    Device(device::Args),
    Kernels(kernels::Args),
    Gemm(gemm::Args),
    Experts(experts::Args),
    Attention(attention::Args),
    Scan(scan::Args),
    Moe(Box<moe::Args>),
    Prefill(Box<prefill::Args>),
    Sweep(Box<prefill::sweep::Args>),
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let model = match (&args.what, &args.model) {
        (Some(What::Device(device)), _) => return device::run(device, out),
        (Some(What::Kernels(kernels)), _) => return kernels::run(kernels, out),
        (Some(What::Gemm(gemm)), _) => return gemm::run(gemm, out),
        (Some(What::Experts(experts)), _) => return experts::run(experts, out),
        (Some(What::Attention(attention)), _) => return attention::run(attention, out),
        (Some(What::Scan(scan)), _) => return scan::run(scan, out),
        (Some(What::Moe(moe)), _) => return moe::run(moe, out),
        (Some(What::Prefill(prefill)), _) => return prefill::run(prefill, out),
        (Some(What::Sweep(sweep)), _) => return prefill::sweep::run(sweep, out),
        (None, Some(model)) => model,
        (None, None) => {
            return Err(usage("`--model` is missing", "`zinc bench -m FILE`, or `zinc bench kernels`"));
        }
    };
    let mut options = args.engine.options(model)?;
    options.context = Some(options.context.unwrap_or_else(|| args.longest()));
    let mut engine = load(&options, false)?;
    engine.finish_warming(); // what is measured is steps
    let mut bench = Bench::new(engine, args.warm_up, args.repeats)?;
    let mut results = Vec::new();
    for &tokens in args.prompt.iter().filter(|&&t| t > 0) {
        results.push(bench.prefill(tokens as usize, args.depth as usize)?);
    }
    for &tokens in args.decode.iter().filter(|&&t| t > 0) {
        results.push(bench.decode(tokens as usize, args.depth as usize)?);
    }
    if results.is_empty() {
        return Err(usage("there is nothing to measure", "give `-p` or `-n` a length above 0"));
    }
    report::print(&args.format, &bench.engine, model, &results, out)?;
    if args.profile {
        let (prompt, depth) = (args.prompt.iter().max().copied().unwrap_or(0), args.depth as usize);
        let step = prompt.min(bench.engine.prefill_path().chunk);
        for tokens in [step, args.decode.iter().any(|&n| n > 0).into()].into_iter().filter(|&n| n > 0) {
            report::profile(tokens, &bench.profile(tokens as usize, depth)?, out)?;
        }
    }
    match results.iter().find(|r| !r.sound()) {
        None => Ok(()),
        Some(r) => Err(wrong(r)),
    }
}

impl Args {
    /// Tokens of the longest measurement: what is in the cache, what is read or generated, and the token to begin with.
    fn longest(&self) -> u32 {
        let longest = self.prompt.iter().chain(&self.decode).max().copied().unwrap_or(0);
        self.depth.saturating_add(longest).saturating_add(2)
    }
}

fn wrong(r: &Measured) -> crate::error::Failure {
    let what = if r.finite { "differs from repeat to repeat" } else { "is not finite" };
    invalid(
        format!("the output of `{} {}` {what}", r.kind.name(), r.tokens),
        "`zinc check --ops` tests the kernels on this device, `--disable` switches paths off",
    )
}
