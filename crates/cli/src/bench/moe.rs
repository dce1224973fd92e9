//! `zinc bench moe`: prefill of a model with experts, on varied tokens, and how they are shared out among the experts.

use super::measure::{Bench, Measured};
use super::report::program;
use super::wrong;
use crate::error::{Outcome, usage};
use crate::load::{EngineArgs, describe, load};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use zinc_engine::{PrefillPath, Routing};
use zinc_plan::Op;

/// Measures prefill of a model with experts on tokens without pattern, and counts how many rows each expert gets.
///
/// Rows are counted in a run of their own, whose choices are read back between steps. In the last layer only rows with logits choose, so it is left
/// out of what is said of all layers.
#[derive(clap::Args)]
pub struct Args {
    /// The GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: PathBuf,
    /// Prompt lengths.
    #[arg(short = 'p', long, value_name = "TOKENS", value_delimiter = ',', default_value = "512,2048", value_parser = clap::value_parser!(u32).range(1..))]
    prompts: Vec<u32>,
    /// Runs before those that count, and more until 0.3 s have passed: clocks rise for a while. 0: none.
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u32,
    /// Runs that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Also print the counts of each layer.
    #[arg(long)]
    layers: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// A prompt.
struct Prompt {
    measured: Measured,
    layers: Vec<Routing>,
    /// The rows of an expert in any layer.
    all: Routing,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut options = args.engine.options(&args.model)?;
    let longest = args.prompts.iter().max().copied().unwrap_or(0);
    options.context = Some(options.context.unwrap_or(longest.saturating_add(1)));
    let mut engine = load(&options, false)?;
    if !engine.model().plan.ops.iter().any(|n| matches!(n.op, Op::Route { .. })) {
        return Err(usage("the model has no experts", "`zinc bench -m FILE` measures other models"));
    }
    engine.finish_warming(); // what is measured is steps
    let mut bench = Bench::new(engine, args.warm_up, args.repeats)?;
    let mut prompts = Vec::new();
    for &tokens in &args.prompts {
        let measured = bench.prefill(tokens as usize, 0)?;
        let layers = bench.routing(tokens as usize)?;
        prompts.push(Prompt { measured, all: all(&layers), layers });
    }
    let path = bench.engine.prefill_path();
    if args.json {
        let results: Vec<Value> = prompts.iter().map(|p| as_json(p, &path)).collect();
        let summary = bench.engine.summary();
        output::json(out, &json!({ "zinc": program(), "engine": summary, "results": results }))?;
    } else {
        describe(&bench.engine).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)?;
        table(&prompts, &path).write(out, 0)?;
        for p in prompts.iter().filter(|_| args.layers) {
            writeln!(out, "\nrows an expert of {} tokens", p.measured.tokens)?;
            by_layer(&p.layers).write(out, 0)?;
        }
    }
    match prompts.iter().map(|p| &p.measured).find(|m| !m.sound()) {
        None => Ok(()),
        Some(m) => Err(wrong(m)),
    }
}

/// The experts of all layers whose rows all choose, as if they were one layer's.
fn all(layers: &[Routing]) -> Routing {
    let rows = layers.iter().map(|r| r.rows).max().unwrap_or(0);
    let whole = layers.iter().filter(|r| r.rows == rows);
    Routing { layer: None, rows, slots: whole.flat_map(|r| r.slots.iter().copied()).collect() }
}

fn spread_cells(r: &Routing) -> [String; 4] {
    let s = r.spread();
    [s.min.to_string(), s.median.to_string(), s.max.to_string(), s.empty.to_string()]
}

fn table(prompts: &[Prompt], path: &PrefillPath) -> Table {
    let mut table = Table::new(&[
        ("prompt", Align::Right),
        ("path", Align::Left),
        ("step", Align::Right),
        ("tok/s", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("n", Align::Right),
        ("rows an expert: least", Align::Right),
        ("median", Align::Right),
        ("most", Align::Right),
        ("experts without", Align::Right),
    ]);
    for p in prompts {
        let rates = p.measured.rates();
        let rate = |r: Option<&f64>| r.map_or_else(String::new, |r| format!("{r:.1}"));
        let head = [p.measured.tokens.to_string(), path.path.into(), path.chunk.to_string()];
        let rates = [
            format!("{:.1}", p.measured.median()),
            rate(rates.first()),
            rate(rates.last()),
            rates.len().to_string(),
        ];
        let [least, median, most, empty] = spread_cells(&p.all);
        let empty = format!("{empty} of {}", p.all.slots.len());
        table.row([&head[..], &rates, &[least, median, most, empty]].concat());
    }
    table
}

fn by_layer(layers: &[Routing]) -> Table {
    let mut table = Table::new(&[
        ("layer", Align::Right),
        ("rows", Align::Right),
        ("least", Align::Right),
        ("median", Align::Right),
        ("most", Align::Right),
        ("experts without", Align::Right),
    ]);
    for r in layers {
        let layer = r.layer.map_or_else(String::new, |l| l.to_string());
        table.row([&[layer, r.rows.to_string()][..], &spread_cells(r)].concat());
    }
    table
}

fn as_json(p: &Prompt, path: &PrefillPath) -> Value {
    let (m, rates) = (&p.measured, p.measured.rates());
    let layer =
        |r: &Routing| json!({ "layer": r.layer, "rows": r.rows, "spread": r.spread(), "slots": r.slots });
    json!({
        "prompt_tokens": m.tokens, "path": path.path, "chunk": path.chunk,
        "tokens_per_second": { "median": m.median(), "min": rates.first(), "max": rates.last() },
        "seconds": m.seconds, "finite": m.finite, "repeatable": m.repeatable, "logits_hash": format!("{:016x}", m.hash),
        "rows_an_expert": p.all.spread(), "experts": p.all.slots.len(),
        "layers": p.layers.iter().map(layer).collect::<Vec<_>>(),
    })
}
