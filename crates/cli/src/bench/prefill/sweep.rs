//! `zinc bench sweep`: how fast prompts are read over the columns of a workgroup, the rows of a team and the tokens of a step.

use super::super::plot::{Axis, Plot};
use super::report::{Compared, plot_of};
use super::ways::{Kind, Way};
use super::{About, Files, HowLong, default_rows, finish, longest, options};
use crate::error::Outcome;
use crate::load::{EngineArgs, load};
use std::io::Write;
use std::path::PathBuf;
use zinc_engine::{Cut, Engine};

/// Measures how fast prompts are read over the columns of a workgroup: the curve that the best width is read from.
///
/// Every result must have the bits of the device's own policy, which is measured first; exit code 3 if one has not.
#[derive(clap::Args)]
pub struct Args {
    /// The GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: PathBuf,
    /// Prompt lengths.
    #[arg(short = 'p', long, value_name = "TOKENS", value_delimiter = ',', default_value = "658", value_parser = clap::value_parser!(u32).range(1..))]
    prompts: Vec<u32>,
    /// Columns of a workgroup.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8,16,24,32,40,48,56,64", value_parser = clap::value_parser!(u32).range(1..=64))]
    columns: Vec<u32>,
    /// Weight rows of a team of lanes [default: as the device's policy says].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    rows: Vec<u32>,
    /// Tokens of a step [default: what `--chunk` says, or as many as the most columns].
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    chunks: Vec<u32>,
    #[command(flatten)]
    how_long: HowLong,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    engine: EngineArgs,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut prompts = args.prompts.clone();
    prompts.sort_unstable();
    let most = |list: &[u32]| list.iter().copied().max().unwrap_or(1);
    let widest = most(&args.columns).max(most(&args.chunks));
    let options = options(&args.engine, &args.model, widest, longest(&prompts, 1))?;
    let mut engine = load(&options, false)?;
    engine.finish_warming(); // what is measured is steps
    let default = default_rows(&args.engine, &engine);
    let chunks =
        if args.chunks.is_empty() { vec![default.max(most(&args.columns))] } else { args.chunks.clone() };
    let ways = ways(&engine, default, &chunks, args);
    finish(&mut engine, &ways, &prompts, &args.how_long.limits(1), (&args.files, &args.model), &plot, out)
}

/// The policy's own way, then all that is swept over.
fn ways(engine: &Engine, default: u32, chunks: &[u32], args: &Args) -> Vec<Way> {
    let mut ways = vec![Way::new(engine, Kind::Default, default, engine.cut())];
    let rows: Vec<Option<u32>> =
        if args.rows.is_empty() { vec![None] } else { args.rows.iter().copied().map(Some).collect() };
    for &chunk in chunks {
        for &rows in &rows {
            ways.extend(
                args.columns.iter().map(|&columns| {
                    Way::new(engine, Kind::KParallel, chunk, Cut::Workgroup { columns, rows })
                }),
            );
        }
    }
    ways
}

/// Speed over columns; over the tokens of a step where there is one number of columns.
fn plot(engine: &Engine, about: &About, results: &[Compared<'_>]) -> Plot {
    let swept = || results.iter().filter(|c| c.tried.way.kind == Kind::KParallel);
    let mut columns: Vec<u32> = swept().filter_map(|c| c.tried.way.columns()).collect();
    columns.dedup();
    let over_columns = columns.len() > 1;
    let points = swept().filter_map(|c| {
        let x = if over_columns { c.tried.way.columns()? } else { c.tried.chunk };
        let rows = c.tried.way.team_rows().map_or(String::new(), |r| format!(", {r} rows a team"));
        let chunk = if over_columns { format!(", steps of {}", c.tried.chunk) } else { String::new() };
        Some((format!("{} tokens{chunk}{rows}", c.tried.prompt), f64::from(x), c.rates()?))
    });
    let (over, label) =
        if over_columns { ("columns", "columns of a workgroup") } else { ("steps", "tokens of a step") };
    let x = Axis { label, logarithmic: false };
    plot_of(engine, format!("Speed over {over}: {}", about.model), x, points)
}
