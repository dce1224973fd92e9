//! `zinc bench experts`: products of rows with the matrices of the experts that they have chosen.

use super::FormatArgs;
use super::gemm::{Size, size, size_name};
use super::kernels::format;
use super::report::{device_cells, document, headline, product_json, product_name, quoted};
use crate::args::DeviceArg;
use crate::device;
use crate::error::{Outcome, error};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use zinc_kernels::gemv::{Cut, ProductClass};
use zinc_kernels::moe::{Bench, BenchShape, BenchTiming, Way};
use zinc_kernels::product::Chooser;
use zinc_kernels::{Kernels, Precision};
use zinc_quant::FormatRef;

/// Measures products of experts on made-up weights, with rows that choose at random: time, products and sums a second, and bytes of used experts
/// read a second.
///
/// Packing rows by expert and the conversion to f16, which a layer's products share, are timed apart.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Formats, separated by commas.
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', default_value = "Q4_K", value_parser = format)]
    format: Vec<FormatRef>,
    /// Rows and elements of a row (a multiple of 256) of an expert's matrices, separated by commas, with `:gated` behind where there are two of them.
    /// Without it each slot of a row has an input of its own.
    #[arg(long, value_name = "ROWSxINNER", value_delimiter = ',', default_value = "512x2048:gated,2048x512", value_parser = size)]
    shape: Vec<Size>,
    /// Experts to choose from.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    experts: u32,
    /// Experts that a row uses.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    used: u32,
    /// Rows, separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8,512,2048", value_parser = clap::value_parser!(u32).range(1..=16384))]
    columns: Vec<u32>,
    /// Rounds over all choices that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Measure every way to cut the work, not only the one that the device's policy takes; the fastest first.
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// A measurement: product, rows, whether the policy takes the way, the way, times.
type Measured = (ProductClass, u32, bool, Way, BenchTiming);

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let mut results = Vec::new();
    for &format in &args.format {
        for (&(m, k, gated), &rows) in
            args.shape.iter().flat_map(|s| args.columns.iter().map(move |c| (s, c)))
        {
            results.extend(measure(args, &kernels, ProductClass { format, m, k, gated }, rows)?);
        }
    }
    let caps = device.capabilities();
    if args.output.json {
        let results: Vec<Value> = results.iter().map(|r| as_json(args, r)).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "format,rows,inner,gated,experts,used,columns,kernel,tile,slots_a_tile,policy,median_us,shortest_us,pack_us,convert_us,tflops,gb_s,device,driver"
        )?;
        for (c, columns, own, (g, product), t) in &results {
            let shape =
                format!("{},{},{},{},{},{},{columns}", c.format, c.m, c.k, c.gated, g.experts, g.top_k);
            let kernel = format!("{},{},{}", product.family(), quoted(&product_name(*product)), g.columns());
            let times = format!("{},{},{},{}", t.median_us, t.shortest_us, t.pack_us, t.convert_us);
            let rates = format!("{},{},{}", t.tflops(), t.gb_per_s(), device_cells(caps));
            writeln!(out, "{shape},{kernel},{own},{times},{rates}")?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        writeln!(out, "{} of {} experts; `*` is what the policy takes\n", args.used, args.experts)?;
        table(&results).write(out, 0)?;
    }
    Ok(())
}

fn measure(args: &Args, kernels: &Kernels, class: ProductClass, rows: u32) -> Outcome<Vec<Measured>> {
    let hint = "`--experts`, `--used` and `--shape` say what there is";
    let shape = BenchShape { class, experts: args.experts, top_k: args.used, rows, parts: !class.gated };
    let bench = Bench::new(kernels, shape).map_err(|e| error(e, hint))?;
    let (caps, policy) = (kernels.caps(), kernels.policy());
    let by = Chooser { caps, policy, precision: Precision::Fast, cut: &Cut::Policy };
    let ways = bench.ways(&by, args.sweep).map_err(|e| error(e, hint))?;
    bench.prepare(&ways);
    let mut results = Vec::new();
    for (i, way) in ways.into_iter().enumerate() {
        // The device does not pause after the first one.
        let warm_up = Duration::from_millis(if i == 0 { 50 } else { 5 });
        match bench.time(way, args.repeats, warm_up) {
            Ok(timing) => results.push((class, rows, i == 0, way, timing)),
            // A tile that the driver does not take is no candidate.
            Err(_) if i > 0 => {}
            Err(e) => return Err(error(e, hint)),
        }
    }
    results.sort_by(|a, b| a.4.median_us.total_cmp(&b.4.median_us));
    Ok(results)
}

fn table(results: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("product", Align::Left),
        ("rows", Align::Right),
        ("tile", Align::Left),
        ("us", Align::Right),
        ("shortest us", Align::Right),
        ("pack us", Align::Right),
        ("convert us", Align::Right),
        ("TFLOP/s", Align::Right),
        ("GB/s", Align::Right),
    ]);
    for (class, rows, own, (grouping, product), t) in results {
        let tile = format!("{}, {} slots", product_name(*product), grouping.columns());
        table.row([
            size_name(class),
            rows.to_string(),
            format!("{tile}{}", if *own { " *" } else { "" }),
            format!("{:.1}", t.median_us),
            format!("{:.1}", t.shortest_us),
            format!("{:.1}", t.pack_us),
            format!("{:.1}", t.convert_us),
            format!("{:.2}", t.tflops()),
            format!("{:.0}", t.gb_per_s()),
        ]);
    }
    table
}

fn as_json(args: &Args, (c, rows, own, (g, product), t): &Measured) -> Value {
    json!({
        "kernel": product.family(), "format": c.format.name, "rows": c.m, "inner": c.k, "gated": c.gated,
        "experts": args.experts, "used": args.used, "columns": rows, "tile": product_json(*product), "slots_a_tile": g.columns(), "policy": own,
        "median_us": t.median_us, "shortest_us": t.shortest_us, "pack_us": t.pack_us, "convert_us": t.convert_us, "tflops": t.tflops(), "gb_per_s": t.gb_per_s(),
    })
}
