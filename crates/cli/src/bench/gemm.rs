//! `zinc bench gemm`: products in tiles of f16 factors, on made-up weights that no cache holds.

use super::FormatArgs;
use super::kernels::{format, row_length};
use super::report::{device_cells, document, gemm_tile_json, gemm_tile_name, headline, quoted};
use crate::args::{DeviceArg, byte_size};
use crate::device;
use crate::error::{Outcome, error};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use zinc_kernels::Kernels;
use zinc_kernels::gemm::{BenchShape, BenchTiming, bench, candidates};
use zinc_kernels::gemv::ProductClass;
use zinc_quant::{FormatRef, formats};

/// Measures products of many columns, as prompts need them, with f16 factors: time, and products and sums a second.
///
/// The conversion of the columns to f16, made once for all products that read them, is timed apart.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Formats, separated by commas [default: all].
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', value_parser = format)]
    format: Vec<FormatRef>,
    /// Rows of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Elements of a row, a multiple of 256.
    #[arg(long, value_name = "N", default_value_t = 14336, value_parser = row_length)]
    inner: u32,
    /// Columns, separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "512", value_parser = clap::value_parser!(u32).range(1..=16384))]
    columns: Vec<u32>,
    /// Two matrices, the second one gated by the activation of the first one's product.
    #[arg(long)]
    gated: bool,
    /// Bytes of matrices to go through in turn: more than the device's cache.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = byte_size)]
    rotate: u64,
    /// Rounds over all matrices that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Measure every way to cut the work, not only the one that the device's policy takes; the fastest first.
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// A measurement: format, columns, whether the policy takes the tile, times.
type Measured = (FormatRef, u32, bool, BenchTiming);

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let list = if args.format.is_empty() { formats() } else { &args.format };
    let mut results = Vec::new();
    for &format in list {
        for &columns in &args.columns {
            results.extend(measure(args, &kernels, format, columns)?);
        }
    }
    let caps = device.capabilities();
    if args.output.json {
        let results: Vec<Value> = results.iter().map(|m| as_json(args, m)).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "format,rows,inner,gated,columns,tile,policy,median_us,shortest_us,convert_us,tflops,device,driver"
        )?;
        for (format, columns, own, t) in &results {
            let shape = format!("{},{},{},{columns}", args.rows, args.inner, args.gated);
            let times = format!("{},{},{},{}", t.median_us, t.shortest_us, t.convert_us, t.tflops());
            let place = device_cells(caps);
            writeln!(out, "{format},{shape},{},{own},{times},{place}", quoted(&gemm_tile_name(&t.tile)))?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        let matrices = if args.gated { "gate and up of " } else { "" };
        writeln!(out, "{matrices}{} x {}; `*` is what the policy takes\n", args.rows, args.inner)?;
        table(&results).write(out, 0)?;
    }
    Ok(())
}

fn measure(args: &Args, kernels: &Kernels, format: FormatRef, columns: u32) -> Outcome<Vec<Measured>> {
    let class = ProductClass { format, m: args.rows, k: args.inner, gated: args.gated };
    let shape = BenchShape {
        class,
        columns,
        tile: None,
        rotate_bytes: args.rotate,
        repeats: args.repeats,
        warm_up: BenchShape::WARM_UP,
    };
    let own = bench(kernels, &shape)
        .map_err(|e| error(e, "a smaller `--rotate` needs less memory; `--format` chooses formats"))?;
    let mut results = vec![(format, columns, true, own)];
    if args.sweep {
        let all = candidates(kernels.policy(), kernels.caps(), &class, columns);
        for tile in all.into_iter().filter(|&t| t != own.tile) {
            // A tile that the driver does not take is no candidate.
            if let Ok(timing) = bench(kernels, &BenchShape { tile: Some(tile), ..shape }) {
                results.push((format, columns, false, timing));
            }
        }
    }
    results.sort_by(|a, b| a.3.median_us.total_cmp(&b.3.median_us));
    Ok(results)
}

fn table(results: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("format", Align::Left),
        ("columns", Align::Right),
        ("tile", Align::Left),
        ("us", Align::Right),
        ("shortest us", Align::Right),
        ("convert us", Align::Right),
        ("TFLOP/s", Align::Right),
    ]);
    for (format, columns, own, t) in results {
        table.row([
            format.to_string(),
            columns.to_string(),
            format!("{}{}", gemm_tile_name(&t.tile), if *own { " *" } else { "" }),
            format!("{:.1}", t.median_us),
            format!("{:.1}", t.shortest_us),
            format!("{:.1}", t.convert_us),
            format!("{:.2}", t.tflops()),
        ]);
    }
    table
}

fn as_json(args: &Args, (format, columns, own, t): &Measured) -> Value {
    json!({
        "kernel": "gemm", "format": format.name, "rows": args.rows, "inner": args.inner, "gated": args.gated,
        "columns": columns, "tile": gemm_tile_json(&t.tile), "policy": own,
        "median_us": t.median_us, "shortest_us": t.shortest_us, "convert_us": t.convert_us, "tflops": t.tflops(),
    })
}
