//! `zinc bench kernels`: the read bandwidth of matrix-vector products, on weights that no cache holds.

use super::FormatArgs;
use super::report::{device_cells, document, headline, product_json, product_name, quoted};
use crate::args::{DeviceArg, byte_size};
use crate::device;
use crate::error::{Outcome, error};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use zinc_engine::DeviceFigures;
use zinc_kernels::gemv::{self, ProductClass};
use zinc_kernels::product::{BenchShape, BenchTiming, Product, bench};
use zinc_kernels::{Kernels, Unsupported, dot, slices};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_vulkan::CacheLocation;

/// Measures matrix-vector products for each format: bytes of weights read a second.
///
/// `alone`: a product waits for the one before it, as in decoding. `streamed`: products overlap.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Formats, separated by commas [default: all].
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', value_parser = format)]
    format: Vec<FormatRef>,
    /// The kernel family: K-parallel columns in f32, integer dot products of few columns, or slices of K on matrices.
    #[arg(long, value_enum, default_value_t = KernelArg::Gemv)]
    kernel: KernelArg,
    /// Two matrices, the second one gated by the activation of the first one's product.
    #[arg(long)]
    gated: bool,
    /// Rows of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Elements of a row, a multiple of 256.
    #[arg(long, value_name = "N", default_value_t = 12288, value_parser = row_length)]
    inner: u32,
    /// Columns.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    columns: u32,
    /// Bytes of matrices to go through in turn: more than the device's cache.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = byte_size)]
    rotate: u64,
    /// Rounds over all matrices that count.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Measure every way to cut the work, not only the one that the device's policy takes.
    #[arg(long)]
    sweep: bool,
    /// Measure this way to cut the work: lanes, parts, spread (0 or 1), rows, columns, subgroups, stage (elements of a lane); for `dot` lanes, bytes of
    /// x, rows, columns, subgroups, stage (chunks of a lane), batches, ahead (0 or 1); for `slices` matrices of
    /// rows, workgroups. May be given several times.
    #[arg(long, value_name = "N,…", value_parser = tile, conflicts_with = "sweep")]
    tile: Vec<Product>,
    #[command(flatten)]
    output: FormatArgs,
}

/// The values of `--kernel`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum KernelArg {
    /// Exact
    Gemv,
    /// Fast, x rounded to integers
    Dot,
    /// Fast, x rounded to f16 and kept in the registers of matrices
    Slices,
}

pub fn format(name: &str) -> Result<FormatRef, String> {
    by_name(name).ok_or_else(|| {
        let known: Vec<&str> = formats().iter().map(|f| f.name).collect();
        format!("there are {}", known.join(", "))
    })
}

fn tile(text: &str) -> Result<Product, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[lanes, parts, spread @ 0..=1, rows, columns, subgroups, stage]) => {
            let spread = spread == 1;
            Ok(Product::Columns(gemv::Tile { lanes, parts, spread, rows, columns, subgroups, stage }))
        }
        Ok(&[lanes, bytes, rows, columns, subgroups, stage, batches, ahead @ 0..=1]) => {
            let ahead = ahead == 1;
            Ok(Product::Dot(dot::Tile { lanes, bytes, rows, columns, subgroups, stage, batches, ahead }))
        }
        Ok(&[tiles, groups]) => Ok(Product::Slices(slices::Tile { tiles, groups })),
        _ => {
            Err("not seven numbers, the third of them 0 or 1, nor eight, the last of them 0 or 1, nor two"
                .into())
        }
    }
}

/// The ways to cut a product that are measured: those asked for, else the policy's, then all others of a sweep.
fn products(args: &Args, kernels: &Kernels, class: &ProductClass) -> Result<Vec<Product>, Unsupported> {
    if !args.tile.is_empty() {
        return Ok(args.tile.clone());
    }
    let (caps, policy, columns) = (kernels.caps(), kernels.policy(), args.columns);
    let (own, others): (Product, Vec<Product>) = match args.kernel {
        KernelArg::Gemv => {
            let others = gemv::candidates(policy, class, columns).into_iter().map(Product::Columns);
            (Product::Columns(gemv::select(policy, class, columns)?), others.collect())
        }
        KernelArg::Dot => {
            let others = dot::candidates(policy, class, columns).into_iter().map(Product::Dot);
            (Product::Dot(dot::select(caps, policy, class, columns)?), others.collect())
        }
        KernelArg::Slices => {
            let others = slices::candidates(caps, policy, class, columns).into_iter().map(Product::Slices);
            (Product::Slices(slices::select(caps, policy, class, columns)?), others.collect())
        }
    };
    Ok(std::iter::once(own).chain(others.into_iter().filter(|_| args.sweep)).collect())
}

pub fn row_length(text: &str) -> Result<u32, String> {
    let n: u32 = text.parse().map_err(|_| "not a number".to_string())?;
    if n > 0 && n.is_multiple_of(256) { Ok(n) } else { Err("not a multiple of 256".into()) }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let list = if args.format.is_empty() { formats() } else { &args.format };
    let mut results = Vec::new();
    for &format in list {
        let class = ProductClass { format, m: args.rows, k: args.inner, gated: args.gated };
        let products = products(args, &kernels, &class)
            .map_err(|e| error(e, "`--format` and `--inner` choose what has a kernel"))?;
        for (i, product) in products.into_iter().enumerate() {
            let shape = BenchShape {
                class,
                columns: args.columns,
                product,
                rotate_bytes: args.rotate,
                repeats: args.repeats,
                warm_up: BenchShape::WARM_UP,
            };
            match bench(&kernels, &shape) {
                Ok(timing) => results.push((format, timing)),
                // A tile that the device has no room for is no candidate.
                Err(_) if args.sweep && i > 0 => {}
                Err(e) => {
                    let hint = "a smaller `--rotate` needs less memory; `--format` chooses formats";
                    return Err(error(e, hint));
                }
            }
        }
    }
    let caps = device.capabilities();
    let limit = DeviceFigures::read(caps, &CacheLocation::User).map(|f| f.read_gb_per_s);
    if args.output.json {
        let results: Vec<Value> = results.iter().map(|(f, t)| as_json(args, f, t, limit)).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "format,rows,inner,gated,columns,kernel,tile,bytes,alone_us,shortest_us,streamed_us,alone_gb_s,streamed_gb_s,device,driver"
        )?;
        for (f, t) in &results {
            let times = format!("{},{},{},{}", t.bytes, t.alone_us, t.shortest_us, t.streamed_us);
            let shape = format!("{},{},{},{}", args.rows, args.inner, args.gated, args.columns);
            let tile = product_name(t.product);
            let tile = format!("{},{}", t.product.family(), quoted(&tile));
            let rates = format!("{},{}", t.alone_gb_per_s(), t.streamed_gb_per_s());
            let place = device_cells(caps);
            writeln!(out, "{f},{shape},{tile},{times},{rates},{place}")?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        writeln!(
            out,
            "{} x {}{} by {}\n",
            args.rows,
            args.inner,
            if args.gated { ", gated," } else { "" },
            output::plural(args.columns as usize, "column")
        )?;
        table(&results, limit).write(out, 0)?;
    }
    Ok(())
}

/// Rates; with percentages of a read bandwidth of `limit` GB/s where it is known.
fn table(results: &[(FormatRef, BenchTiming)], limit: Option<f64>) -> Table {
    let mut columns = vec![
        ("format", Align::Left),
        ("tile", Align::Left),
        ("size", Align::Right),
        ("alone us", Align::Right),
    ];
    let percent = limit.map(|_| ("%", Align::Right));
    columns.extend([("shortest us", Align::Right), ("GB/s", Align::Right)]);
    columns.extend(percent);
    columns.extend([("streamed us", Align::Right), ("GB/s", Align::Right)]);
    columns.extend(percent);
    let mut table = Table::new(&columns);
    for (format, t) in results {
        let rate = |us: f64, gb_per_s: f64| {
            let of_limit = limit.map(|limit| format!("{:.0}", 100.0 * gb_per_s / limit));
            [format!("{us:.2}"), format!("{gb_per_s:.1}")].into_iter().chain(of_limit)
        };
        let mut cells = vec![
            format.to_string(),
            product_name(t.product),
            output::bytes(t.bytes),
            format!("{:.2}", t.alone_us),
        ];
        cells.extend(rate(t.shortest_us, t.alone_gb_per_s()));
        cells.extend(rate(t.streamed_us, t.streamed_gb_per_s()));
        table.row(cells);
    }
    table
}

fn as_json(args: &Args, format: FormatRef, t: &BenchTiming, limit: Option<f64>) -> Value {
    json!({
        "kernel": t.product.family(), "format": format.name, "rows": args.rows, "inner": args.inner, "gated": args.gated,
        "columns": args.columns, "tile": product_json(t.product),
        "bytes": t.bytes, "alone_us": t.alone_us, "shortest_us": t.shortest_us, "streamed_us": t.streamed_us,
        "alone_gb_per_s": t.alone_gb_per_s(), "streamed_gb_per_s": t.streamed_gb_per_s(),
        "device_read_gb_per_s": limit,
    })
}
