//! `zinc bench prefill`: every way to read a prompt, on the same model and the same prompts.

mod measure;
mod report;
pub mod sweep;
mod ways;

use super::plot::Plot;
use crate::error::{Failure, Outcome, file, invalid, usage};
use crate::load::{EngineArgs, load};
use measure::Limits;
use report::Compared;
use std::io::Write;
use std::path::{Path, PathBuf};
use ways::Way;
use zinc_engine::{Engine, LoadOptions, PrefillMode};
use zinc_gguf::Gguf;
use zinc_kernels::Policy;
use zinc_model::Model;

/// Measures each way to read a prompt: a token a step, batched with serial-K and with K-parallel products, and the default.
///
/// The model is loaded once. Each way but serial K must give the very bits and tokens of the first one that was measured; if one does not, or
/// numbers are not finite, the exit code is 3. Serial K adds in another order, so how far it agrees is reported.
#[derive(clap::Args)]
pub struct Args {
    /// The GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: PathBuf,
    /// Prompt lengths.
    #[arg(short = 'p', long, value_name = "TOKENS", value_delimiter = ',', default_value = "17,105,300,658,2048", value_parser = clap::value_parser!(u32).range(1..))]
    prompts: Vec<u32>,
    /// Columns of a workgroup of K-parallel products; steps have at least as many tokens.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8,16,32,64", value_parser = clap::value_parser!(u32).range(1..=64))]
    columns: Vec<u32>,
    /// Columns of a workgroup of serial-K products.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u32).range(1..=64))]
    serial_columns: Vec<u32>,
    /// Tokens to generate after each prompt.
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    generate: u32,
    #[command(flatten)]
    how_long: HowLong,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    engine: EngineArgs,
}

/// How often and how long to measure.
#[derive(clap::Args)]
pub struct HowLong {
    /// Runs that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Seconds for one way and one prompt. A measurement ends there, with fewer repeats; what would take longer even once is skipped.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    budget_seconds: f64,
}

/// Where results go.
#[derive(clap::Args)]
pub struct Files {
    /// Print JSON; `--json=FILE`: write it beside the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// Print Markdown; `--markdown=FILE`: write it beside the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    markdown: Option<Option<PathBuf>>,
    /// Write a plot.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let n: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    if n > 0.0 && n.is_finite() { Ok(n) } else { Err("must be more than 0".into()) }
}

/// What belongs to all results.
pub struct About {
    /// File name of the model.
    pub model: String,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// Tokens generated after each prompt.
    pub generate: u32,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut prompts = args.prompts.clone();
    prompts.sort_unstable();
    prompts.dedup();
    let mut columns = args.columns.clone();
    columns.dedup();
    let widest = columns.iter().copied().max().unwrap_or(1);
    let options = options(&args.engine, &args.model, widest, longest(&prompts, args.generate))?;
    let mut engine = load(&options, false)?;
    engine.finish_warming(); // what is measured is steps
    let default = default_rows(&args.engine, &engine);
    let ways = ways::all(&engine, default, &columns, &args.serial_columns);
    let limits = args.how_long.limits(args.generate);
    finish(&mut engine, &ways, &prompts, &limits, (&args.files, &args.model), &report::plot, out)
}

/// How results are plotted.
type PlotOf<'a> = &'a dyn Fn(&Engine, &About, &[Compared<'_>]) -> Plot;

/// Measures, writes, and fails if an output is wrong. The files are written after each way.
fn finish(
    engine: &mut Engine,
    ways: &[Way],
    prompts: &[u32],
    limits: &Limits,
    (files, model): (&Files, &Path),
    plot: PlotOf<'_>,
    out: &mut dyn Write,
) -> Outcome {
    let about = About::of(engine, model, limits.generate as u32);
    let mut tried = Vec::new();
    for way in ways {
        tried.extend(measure::way(engine, way, prompts, limits)?);
        // A run that is cut short leaves what it has measured.
        let results = report::compare(&tried);
        files.save(
            &|| report::as_json(engine, &about, &results),
            &|out| report::as_markdown(engine, &about, &results, out),
            &|| plot(engine, &about, &results),
        )?;
    }
    let results = report::compare(&tried);
    match (&files.json, &files.markdown) {
        (Some(None), _) => crate::output::json(out, &report::as_json(engine, &about, &results))?,
        (_, Some(None)) => report::as_markdown(engine, &about, &results, out)?,
        _ => report::as_text(engine, &about, &results, out)?,
    }
    match results.iter().find_map(|r| r.wrong()) {
        None => Ok(()),
        Some(what) => {
            Err(invalid(what, "`zinc check -m FILE --ops` tests the kernels and the model on this device"))
        }
    }
}

/// Tokens of the longest prompt and what is generated after it.
pub fn longest(prompts: &[u32], generate: u32) -> u32 {
    prompts.iter().max().copied().unwrap_or(0).saturating_add(generate)
}

/// The options of a load whose steps can have `widest` rows, with a context of `context` tokens if the model has as many.
pub fn options(engine: &EngineArgs, model: &Path, widest: u32, context: u32) -> Outcome<LoadOptions> {
    if engine.prefill.is_some() {
        return Err(usage("`--prefill` has no effect: every way is measured", "leave it out"));
    }
    let mut options = engine.options(model)?;
    let trained =
        Model::from_gguf(&Gguf::open(model)?).map_err(zinc_engine::Error::from)?.spec.context_length;
    options.context = Some(options.context.unwrap_or(context.min(trained.max(1))));
    options.prefill = PrefillMode::Batched;
    // Steps that were tuned are wide enough for what has no more columns than a workgroup.
    options.chunk = match options.chunk {
        Some(asked) => Some(asked.max(widest)),
        None if widest > 64 => Some(widest.max(Policy::STEPS)),
        None => None,
    };
    Ok(options)
}

/// Rows of a step where nothing is measured: as asked for, tuned, or the default.
pub fn default_rows(args: &EngineArgs, engine: &Engine) -> u32 {
    let loaded = engine.prefill_path().chunk;
    // Wider steps may have been asked for, that hold the most columns.
    let default = if engine.summary().steps == "asked for" { engine.default_steps() } else { loaded };
    args.chunk.unwrap_or(default).min(loaded)
}

impl HowLong {
    /// With so many tokens generated.
    pub fn limits(&self, generate: u32) -> Limits {
        Limits { repeats: self.repeats as usize, seconds: self.budget_seconds, generate: generate as usize }
    }
}

impl About {
    pub fn of(engine: &Engine, model: &Path, generate: u32) -> About {
        let name = model.file_name().unwrap_or(model.as_os_str()).to_string_lossy().into_owned();
        About { model: name, bytes: engine.gguf().tensors().iter().map(|t| t.bytes).sum(), generate }
    }
}

type Print<'a> = &'a dyn Fn(&mut dyn Write) -> std::io::Result<()>;

impl Files {
    /// Writes the files that were asked for.
    fn save(
        &self,
        json: &dyn Fn() -> serde_json::Value,
        markdown: Print<'_>,
        plot: &dyn Fn() -> Plot,
    ) -> Outcome {
        if let Some(Some(path)) = &self.json {
            written(path, format!("{:#}\n", json()).as_bytes())?;
        }
        if let Some(Some(path)) = &self.markdown {
            let mut bytes = Vec::new();
            markdown(&mut bytes)?;
            written(path, &bytes)?;
        }
        if let Some(path) = &self.svg {
            written(path, plot().svg().as_bytes())?;
        }
        Ok(())
    }
}

fn written(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| file(path, "written", &e))
}
