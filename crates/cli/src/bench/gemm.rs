//! `zinc bench gemm`: products in tiles of f16 factors, on made-up weights that no cache holds.

use super::FormatArgs;
use super::kernels::{format, row_length};
use super::report::{device_cells, document, gemm_tile_json, gemm_tile_name, headline, quoted};
use crate::args::{DeviceArg, byte_size};
use crate::device;
use crate::error::{Outcome, error};
use crate::load::tell;
use crate::output::{self, Align, Table, plural};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;
use zinc_engine::DeviceFigures;
use zinc_kernels::gemm::{Bench, BenchTiming, Tile, candidates, select};
use zinc_kernels::gemv::ProductClass;
use zinc_kernels::{Kernels, Unsupported};
use zinc_quant::{FormatRef, formats};
use zinc_vulkan::CacheLocation;

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
    /// Rows and elements of a row (a multiple of 256) of the matrices, separated by commas, with `:gated` behind where there are two of them, the
    /// second one gated by the activation of the first one's product.
    #[arg(long, value_name = "ROWSxINNER", value_delimiter = ',', default_value = "4096x14336", value_parser = size)]
    shape: Vec<Size>,
    /// Columns, separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "512", value_parser = clap::value_parser!(u32).range(1..=16384))]
    columns: Vec<u32>,
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

/// A size of `--shape`: rows, elements of a row, whether there are two matrices.
pub type Size = (u32, u32, bool);

pub fn size(text: &str) -> Result<Size, String> {
    let (size, gated) = text.strip_suffix(":gated").map_or((text, false), |t| (t, true));
    let (m, k) = size.split_once('x').ok_or("not a size such as 4096x14336 or 12288x4096:gated")?;
    let m = m.parse().ok().filter(|&m| m > 0).ok_or("not a number of rows")?;
    Ok((m, row_length(k)?, gated))
}

/// A measurement.
struct Measured {
    class: ProductClass,
    columns: u32,
    /// Whether the policy takes the tile.
    own: bool,
    timing: BenchTiming,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let list = if args.format.is_empty() { formats() } else { &args.format };
    let mut results = Vec::new();
    for &format in list {
        for &(m, k, gated) in &args.shape {
            results.extend(measure(args, &kernels, ProductClass { format, m, k, gated })?);
        }
    }
    let caps = device.capabilities();
    if args.output.json {
        let results: Vec<Value> = results.iter().map(as_json).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "format,rows,inner,gated,columns,tile,policy,median_us,shortest_us,convert_us,tflops,device,driver"
        )?;
        for Measured { class: c, columns, own, timing: t } in &results {
            let shape = format!("{},{},{},{columns}", c.m, c.k, c.gated);
            let times = format!("{},{},{},{}", t.median_us, t.shortest_us, t.convert_us, t.tflops());
            let place = device_cells(caps);
            writeln!(out, "{},{shape},{},{own},{times},{place}", c.format, quoted(&gemm_tile_name(&t.tile)))?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        writeln!(out, "`*` is what the policy takes\n")?;
        let figures = DeviceFigures::read(caps, &CacheLocation::User);
        table(&results, figures.and_then(|f| f.float_matrix_rate())).write(out, 0)?;
    }
    Ok(())
}

fn measure(args: &Args, kernels: &Kernels, class: ProductClass) -> Outcome<Vec<Measured>> {
    let begin = Instant::now();
    let (policy, caps) = (kernels.policy(), kernels.caps());
    // The policy's own first, then those of a sweep.
    let tiles = |columns| -> Result<Vec<Tile>, Unsupported> {
        let own = select(policy, caps, &class, columns)?;
        let mut all = vec![own];
        if args.sweep {
            all.extend(candidates(policy, caps, &class, columns).into_iter().filter(|&t| t != own));
        }
        Ok(all)
    };
    let hint = "a smaller `--rotate` needs less memory; `--format` chooses formats";
    let mut all = Vec::new();
    for &columns in &args.columns {
        all.extend(tiles(columns).map_err(|e| error(e, hint))?.into_iter().map(|tile| (columns, tile)));
    }
    Bench::prepare(kernels, &class, &all);
    let mut results = Vec::new();
    for &columns in &args.columns {
        let bench = Bench::new(kernels, class, columns, args.rotate).map_err(|e| error(e, hint))?;
        let mut of_columns = Vec::new();
        for (i, tile) in tiles(columns).map_err(|e| error(e, hint))?.into_iter().enumerate() {
            // The device does not pause after the first one.
            let warm_up = if i == 0 { Bench::WARM_UP } else { Bench::WARM_UP / 10 };
            match bench.time(&tile, args.repeats, warm_up) {
                Ok(timing) => of_columns.push(Measured { class, columns, own: i == 0, timing }),
                // A tile that the driver does not take is no candidate.
                Err(_) if i > 0 => {}
                Err(e) => return Err(error(e, hint)),
            }
        }
        of_columns.sort_by(|a, b| a.timing.median_us.total_cmp(&b.timing.median_us));
        results.extend(of_columns);
    }
    if args.sweep {
        let (count, seconds) = (plural(results.len(), "measurement"), begin.elapsed().as_secs_f32());
        tell(&[format!("{}: {count} in {seconds:.0} s", size_name(&class))]);
    }
    Ok(results)
}

pub fn size_name(c: &ProductClass) -> String {
    format!("{} {}x{}{}", c.format, c.m, c.k, if c.gated { " gated" } else { "" })
}

/// Rates; with percentages of a matrix rate of `limit` TFLOP/s where it is known.
fn table(results: &[Measured], limit: Option<f64>) -> Table {
    let mut headings = vec![
        ("product", Align::Left),
        ("columns", Align::Right),
        ("tile", Align::Left),
        ("us", Align::Right),
        ("shortest us", Align::Right),
        ("convert us", Align::Right),
        ("TFLOP/s", Align::Right),
    ];
    headings.extend(limit.map(|_| ("%", Align::Right)));
    let mut table = Table::new(&headings);
    for Measured { class, columns, own, timing: t } in results {
        let mut cells = vec![
            size_name(class),
            columns.to_string(),
            format!("{}{}", gemm_tile_name(&t.tile), if *own { " *" } else { "" }),
            format!("{:.1}", t.median_us),
            format!("{:.1}", t.shortest_us),
            format!("{:.1}", t.convert_us),
            format!("{:.2}", t.tflops()),
        ];
        cells.extend(limit.map(|limit| format!("{:.1}", 100.0 * t.tflops() / limit)));
        table.row(cells);
    }
    table
}

fn as_json(Measured { class: c, columns, own, timing: t }: &Measured) -> Value {
    json!({
        "kernel": "gemm", "format": c.format.name, "rows": c.m, "inner": c.k, "gated": c.gated,
        "columns": columns, "tile": gemm_tile_json(&t.tile), "policy": own,
        "median_us": t.median_us, "shortest_us": t.shortest_us, "convert_us": t.convert_us, "tflops": t.tflops(),
    })
}
