//! `zinc bench scan`: the scan of a gated delta net over the rows of one sequence, on made-up rows.

use super::FormatArgs;
use super::report::{device_cells, document, headline};
use crate::args::DeviceArg;
use crate::device;
use crate::error::{Outcome, error, usage};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use zinc_kernels::Kernels;
use zinc_kernels::recurrent::bench::{BenchShape, BenchTiming, Form, bench};
use zinc_kernels::recurrent::chunked;
use zinc_kernels::recurrent::delta_net::{Cut, Shape};

/// Measures the scan of a layer of a gated delta net: microseconds a token, and bytes of states and rows.
///
/// Rows are done one after the other and, as the fast policy does many rows, in chunks. States are read once and written once, whatever the rows.
/// The default heads are those of Qwen3.5 35B-A3B.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Rows.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,64,512", value_parser = clap::value_parser!(u32).range(1..=32768))]
    rows: Vec<u32>,
    /// Value heads.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    heads: u32,
    /// Key heads, of which the value heads are a multiple.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    key_heads: u32,
    /// Elements of a key head and of a value head.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(4..=256))]
    head_size: u32,
    /// Measurements that count.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Measure every way to share states out, not only the one that is taken; the fastest first.
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    output: FormatArgs,
}

/// Rows, whether it is the way that is taken, times.
type Measured = (u32, bool, BenchTiming);

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if !args.heads.is_multiple_of(args.key_heads) {
        return Err(usage("`--heads` is no multiple of `--key-heads`", "32 and 16, for example"));
    }
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let kernels = Kernels::new(&device);
    let mut results = Vec::new();
    for &rows in &args.rows {
        results.extend(measure(args, &kernels, rows)?);
    }
    let caps = device.capabilities();
    if args.output.json {
        let results: Vec<Value> = results.iter().map(|m| as_json(args, m)).collect();
        output::json(out, &document(caps, "results", results.into()))?;
    } else if args.output.csv {
        writeln!(
            out,
            "rows,heads,key_heads,head_size,lanes,values,threads,taken,median_us,shortest_us,us_a_token,state_bytes,row_bytes,device,driver"
        )?;
        for (rows, own, t) in &results {
            let shape = format!("{rows},{},{},{}", args.heads, args.key_heads, args.head_size);
            let cut = match t.form {
                Form::Rows(Cut { lanes, columns, threads }) => format!("{lanes},{columns},{threads},{own}"),
                Form::Chunks(c) => format!("chunks,{},{},{own}", c.slice, c.stage),
            };
            let times = format!("{},{},{}", t.median_us, t.shortest_us, t.median_us / f64::from(*rows));
            writeln!(out, "{shape},{cut},{times},{},{},{}", t.state_bytes, t.row_bytes, device_cells(caps))?;
        }
    } else {
        writeln!(out, "{}", headline(caps))?;
        let Args { heads, key_heads, head_size, .. } = args;
        writeln!(
            out,
            "{heads} value heads, {key_heads} key heads of {head_size}; `*` is what the exact and the fast policy take\n"
        )?;
        table(&results).write(out, 0)?;
    }
    Ok(())
}

fn measure(args: &Args, kernels: &Kernels, rows: u32) -> Outcome<Vec<Measured>> {
    let &Args { heads, key_heads, head_size: size, repeats, .. } = args;
    let shape = Shape { heads, key_heads, key_size: size, value_size: size, grouped: false };
    let shape = BenchShape { shape, rows, form: None, repeats };
    let own = bench(kernels, &shape).map_err(|e| error(e, "`--head-size` is a multiple of 4"))?;
    let usual = own.form;
    let mut results = vec![(rows, true, own)];
    let chunks = chunked::Cut::all(kernels, &shape.shape);
    let taken = chunks.first().copied().map(Form::Chunks);
    let mut others: Vec<Form> = chunks.into_iter().map(Form::Chunks).collect();
    if args.sweep {
        others.extend(Cut::all(kernels, &shape.shape).into_iter().map(Form::Rows).filter(|&f| f != usual));
    }
    for form in others {
        // A cut that the driver does not take is no candidate.
        if let Ok(timing) = bench(kernels, &BenchShape { form: Some(form), ..shape }) {
            let taken = Some(form) == taken && rows >= kernels.policy().scan.chunked_rows;
            results.push((rows, taken, timing));
        }
    }
    results.sort_by(|a, b| a.2.median_us.total_cmp(&b.2.median_us));
    Ok(results)
}

fn table(results: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("rows", Align::Right),
        ("lanes x values of threads", Align::Left),
        ("us", Align::Right),
        ("shortest us", Align::Right),
        ("us a token", Align::Right),
        ("states read and written", Align::Right),
        ("rows read and written", Align::Right),
    ]);
    for (rows, own, t) in results {
        let form = match t.form {
            Form::Rows(Cut { lanes, columns, threads }) => format!("{lanes} x {columns} of {threads}"),
            Form::Chunks(c) => {
                let times: Vec<String> = t.dispatches.iter().map(|d| format!("{d:.1}")).collect();
                format!("chunks, {} values, stages of {}: {}", c.slice, c.stage, times.join(" + "))
            }
        };
        table.row([
            rows.to_string(),
            format!("{form}{}", if *own { " *" } else { "" }),
            format!("{:.1}", t.median_us),
            format!("{:.1}", t.shortest_us),
            format!("{:.3}", t.median_us / f64::from(*rows)),
            output::bytes(t.state_bytes),
            output::bytes(t.row_bytes),
        ]);
    }
    table
}

fn as_json(args: &Args, (rows, own, t): &Measured) -> Value {
    let (cut, chunks) = match t.form {
        Form::Rows(cut) => (Some(cut), None),
        Form::Chunks(cut) => (None, Some(cut)),
    };
    json!({
        "kernel": "delta_net", "form": if cut.is_some() { "rows" } else { "chunks" }, "dispatch_us": t.dispatches,
        "rows": rows, "heads": args.heads, "key_heads": args.key_heads, "head_size": args.head_size,
        "lanes": cut.map(|c| c.lanes), "values": cut.map(|c| c.columns), "threads": cut.map(|c| c.threads),
        "slice": chunks.map(|c| c.slice), "stage": chunks.map(|c| c.stage), "taken": own,
        "median_us": t.median_us, "shortest_us": t.shortest_us, "us_a_token": t.median_us / f64::from(*rows),
        "state_bytes": t.state_bytes, "row_bytes": t.row_bytes,
    })
}
