//! `zinc bench attention`: attention of many rows over a cache, on made-up keys and values.

use super::FormatArgs;
use super::report::{device_cells, document, headline, quoted};
use crate::args::DeviceArg;
use crate::device;
use crate::error::{Failure, Outcome, error};
use crate::load::{KvArg, PolicyArg};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use zinc_engine::DeviceFigures;
use zinc_kernels::Kernels;
use zinc_kernels::attention::{
    BenchShape, BenchTiming, Shape, Variant, bench, candidates, lanes_candidates, matrix_candidates,
    split_candidates,
};
use zinc_vulkan::CacheLocation;

/// Measures attention of the rows of one sequence: time, and products and sums a second over the keys that they see.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Rows.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "512", value_parser = clap::value_parser!(u32).range(1..=32768))]
    rows: Vec<u32>,
    /// Keys before the first row.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0,1536", value_parser = clap::value_parser!(u32).range(0..=1048576))]
    history: Vec<u32>,
    /// Query heads.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    heads: u32,
    /// Heads of keys and values.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    kv_heads: u32,
    /// Elements of a head.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "128", value_parser = clap::value_parser!(u32).range(8..=1024))]
    head_size: Vec<u32>,
    /// Keys that a row sees at most [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Element type of keys and values.
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvArg,
    /// Which arithmetic kernels may use.
    #[arg(long, value_enum, default_value = "exact")]
    policy: PolicyArg,
    /// Decoding: one row from its projections on, with norms, rotation and the cache's write, over caches that the device has not just read.
    #[arg(long, conflicts_with = "rows")]
    decode: bool,
    /// Measurements that count.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Measure every way to cut the work, not only the one that the device's policy takes; the fastest first.
    #[arg(long)]
    sweep: bool,
    /// In a sweep, only the ways of these kernels.
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', requires = "sweep", value_parser = ["split", "tiled", "matrix", "lanes"])]
    kernel: Vec<String>,
    #[command(flatten)]
    output: FormatArgs,
}

/// A measurement.
struct Measured {
    head_size: u32,
    rows: u32,
    history: u32,
    timing: BenchTiming,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let mut results = Vec::new();
    for &head_size in &args.head_size {
        for &rows in if args.decode { &[1][..] } else { &args.rows } {
            for &history in &args.history {
                results.extend(measure(args, &kernels, head_size, rows, history)?);
            }
        }
    }
    let caps = device.capabilities();
    if args.output.json {
        let results: Vec<Value> = results.iter().map(|m| as_json(args, m)).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "rows,history,heads,kv_heads,head_size,variant,median_us,shortest_us,tflops,gb_s,device,driver"
        )?;
        for Measured { head_size, rows, history, timing: t } in &results {
            let shape = format!("{rows},{history},{},{},{head_size}", args.heads, args.kv_heads);
            let times = format!("{},{},{},{}", t.median_us, t.shortest_us, t.tflops(), t.gb_per_s());
            let place = device_cells(caps);
            writeln!(out, "{shape},{},{times},{place}", quoted(&variant_name(&t.variant)))?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        writeln!(out, "{} query heads on {} heads\n", args.heads, args.kv_heads)?;
        let figures = DeviceFigures::read(caps, &CacheLocation::User);
        table(&results, figures.as_ref()).write(out, 0)?;
    }
    Ok(())
}

fn measure(
    args: &Args,
    kernels: &Kernels,
    head_size: u32,
    rows: u32,
    history: u32,
) -> Result<Vec<Measured>, Failure> {
    let shape = BenchShape {
        shape: Shape {
            heads: args.heads,
            kv_heads: args.kv_heads,
            key_size: head_size,
            value_size: head_size,
        },
        kind: args.kv.kv_type(),
        rows,
        history,
        window: args.window,
        precision: args.policy.precision(),
        decode: args.decode,
        variant: None,
        repeats: args.repeats,
    };
    let mut variants = vec![None];
    if args.sweep {
        variants = split_candidates(kernels, &shape.shape)
            .into_iter()
            .map(Variant::Split)
            .chain(candidates(kernels, &shape.shape).into_iter().map(Variant::Tiled))
            .chain(matrix_candidates(kernels, &shape.shape).into_iter().map(Variant::Matrix))
            .chain(lanes_candidates(kernels, &shape.shape).into_iter().map(Variant::Lanes))
            .filter(|v| !args.decode || matches!(v, Variant::Split(_)))
            .filter(|v| args.kernel.is_empty() || args.kernel.iter().any(|name| name == v.name()))
            .map(Some)
            .collect();
    }
    let mut results = Vec::new();
    for variant in variants {
        match bench(kernels, &BenchShape { variant, ..shape }) {
            Ok(timing) => results.push(timing),
            // A driver may refuse one of many.
            Err(e) if args.sweep => eprintln!("left out: {variant:?}: {e}"),
            Err(e) => return Err(error(e, "fewer `--rows` or a shorter `--history` need less memory")),
        }
    }
    results.sort_by(|a, b| a.median_us.total_cmp(&b.median_us));
    Ok(results.into_iter().map(|timing| Measured { head_size, rows, history, timing }).collect())
}

/// Rates; with percentages of what `zinc bench device` measured where that is known.
fn table(results: &[Measured], figures: Option<&DeviceFigures>) -> Table {
    let matrix = figures.and_then(DeviceFigures::float_matrix_rate);
    let read = figures.map(|f| f.read_gb_per_s);
    let mut columns = vec![
        ("head", Align::Right),
        ("rows", Align::Right),
        ("history", Align::Right),
        ("variant", Align::Left),
        ("us", Align::Right),
        ("shortest us", Align::Right),
        ("TFLOP/s", Align::Right),
    ];
    columns.extend(matrix.map(|_| ("% of matrices", Align::Right)));
    columns.push(("GB/s", Align::Right));
    columns.extend(read.map(|_| ("% of read", Align::Right)));
    let mut table = Table::new(&columns);
    for Measured { head_size, rows, history, timing: t } in results {
        let percent = |rate: f64, most: Option<f64>| most.map(|most| format!("{:.1}", 100.0 * rate / most));
        let mut cells = vec![
            head_size.to_string(),
            rows.to_string(),
            history.to_string(),
            variant_name(&t.variant),
            format!("{:.1}", t.median_us),
            format!("{:.1}", t.shortest_us),
            format!("{:.2}", t.tflops()),
        ];
        cells.extend(percent(t.tflops(), matrix));
        cells.push(format!("{:.1}", t.gb_per_s()));
        cells.extend(percent(t.gb_per_s(), read));
        table.row(cells);
    }
    table
}

/// `tiled, queries x keys of threads, threads over the keys and columns, staged lanes and values`, `+` where queries stay;
/// `matrix, queries x keys, row x column groups of matrices, staged steps and values`.
fn variant_name(variant: &Variant) -> String {
    match variant {
        Variant::Split(s) => format!(
            "split, {} heads x {} keys of {}, {} loads, {}",
            s.heads,
            s.key_block,
            s.threads,
            s.ahead,
            if s.whole_spans { "a span each".into() } else { format!("{} joined at once", s.at_once) }
        ),
        Variant::Tiled(t) => format!(
            "tiled, {} x {} of {}, {} and {} wide, {} lanes, {} values{}",
            t.queries,
            t.blocks * t.key_block,
            t.threads,
            t.key_threads,
            t.column_threads,
            t.stage_lanes,
            t.value_keys,
            if t.resident { " +" } else { "" }
        ),
        Variant::Matrix(t) => format!(
            "matrix, {} x {} keys, {} x {} subgroups of {}, {} steps, {} values",
            t.queries(),
            t.keys,
            t.row_groups,
            t.column_groups,
            t.row_tiles,
            t.stage_steps,
            t.value_keys
        ),
        Variant::Lanes(t) => format!("lanes, {} x {} keys", t.queries(), t.keys),
    }
}

fn as_json(args: &Args, measured: &Measured) -> Value {
    let Measured { head_size, rows, history, timing: t } = measured;
    json!({
        "kernel": "attention", "rows": rows, "history": history, "heads": args.heads, "kv_heads": args.kv_heads,
        "head_size": head_size, "window": args.window, "variant": variant_name(&t.variant),
        "median_us": t.median_us, "shortest_us": t.shortest_us, "tflops": t.tflops(), "gb_per_s": t.gb_per_s(), "decode": args.decode,
    })
}
