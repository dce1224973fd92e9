//! `zinc bench device`: what the device can do at most, and keeping it.

use super::report::{document, headline};
use crate::args::{DeviceArg, byte_size};
use crate::device;
use crate::error::{Failure, Outcome, error, file, invalid};
use crate::load::tell;
use crate::output::{self, Align, Table};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use zinc_engine::{DeviceFigures, MatrixFigure};
use zinc_kernels::Kernels;
use zinc_kernels::device::{Effort, Failed, bandwidth, dispatch_costs, matrix_cases, matrix_rate};
use zinc_vulkan::{CacheLocation, Capabilities};

/// Measures what the device can do at most: memory, dispatches, matrix products in registers.
///
/// The figures are kept for the device and driver; percentages in other reports are of them. The results of what is measured are checked;
/// exit code 3 if one is wrong.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Bytes to read and copy: more than the device's cache; less is taken where memory is short.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = byte_size)]
    bytes: u64,
    /// Dispatches of a submission.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    dispatches: u32,
    /// Microseconds that a dispatch of matrix products should take.
    #[arg(long, value_name = "US", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    matrix_us: u32,
    /// Measurements that count.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Print JSON; `--json=FILE`: write it beside the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (device, _) = device::open(&args.device.wish(), false, false)?;
    let caps = device.capabilities();
    let figures = measure(&Kernels::new(&device), args)?;
    let kept = figures.write(caps, &CacheLocation::User)?;
    let value = document(caps, "figures", json!(figures));
    match &args.json {
        Some(None) => return Ok(output::json(out, &value)?),
        Some(Some(path)) => {
            std::fs::write(path, format!("{value:#}\n")).map_err(|e| file(path, "written", &e))?
        }
        None => {}
    }
    as_text(caps, &figures, out)?;
    match kept {
        Some(path) => Ok(writeln!(out, "\nkept in {}", path.display())?),
        None => Ok(()),
    }
}

fn measure(kernels: &Kernels, args: &Args) -> Outcome<DeviceFigures> {
    let effort = Effort {
        bytes: args.bytes,
        dispatches: args.dispatches,
        matrix_us: f64::from(args.matrix_us),
        repeats: args.repeats,
        warm_up: Duration::from_micros(u64::from(args.matrix_us) * 20),
    };
    tell(&["memory".into()]);
    let memory = bandwidth(kernels, &effort).map_err(failure)?;
    tell(&["dispatches".into()]);
    let dispatch = dispatch_costs(kernels, &effort).map_err(failure)?;
    let mut matrices = Vec::new();
    for case in matrix_cases(kernels) {
        let (scope, types) = (case.scope.name(), case.types);
        let what = format!("{types} {}x{}x{} in {scope} scope", case.m, case.n, case.k);
        tell(&[format!("matrices of {what}")]);
        match matrix_rate(kernels, &case, &effort) {
            Ok(rate) => matrices.push(MatrixFigure {
                scope: scope.into(),
                types: types.into(),
                m: case.m,
                n: case.n,
                k: case.k,
                threads: case.threads,
                tera_per_s: rate.tera_per_s,
            }),
            // A size that the device's registers or its compiler have no room for is no candidate.
            Err(Failed::Kernels(why)) => tell(&[format!("note: {what} left out: {why}")]),
            Err(e) => return Err(failure(e)),
        }
    }
    Ok(DeviceFigures {
        buffer_bytes: memory.bytes,
        read_gb_per_s: memory.read_gb_per_s,
        copy_gb_per_s: memory.copy_gb_per_s,
        dispatch_replayed_us: dispatch.replayed_us,
        dispatch_unordered_us: dispatch.unordered_us,
        dispatch_recorded_us: dispatch.recorded_us,
        submit_us: dispatch.submit_us,
        matrices,
    })
}

fn failure(e: Failed) -> Failure {
    match e {
        Failed::Kernels(e) => error(e, "a smaller `--bytes` needs less memory"),
        wrong => invalid(wrong.to_string(), "`zinc check --ops` tests the kernels on this device"),
    }
}

fn as_text(caps: &Capabilities, f: &DeviceFigures, out: &mut dyn Write) -> Outcome {
    writeln!(out, "{}\n", headline(caps))?;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    let size = output::bytes(f.buffer_bytes);
    let mut line =
        |what: String, value: f64, unit: &str| table.row([what, format!("{value:.2}"), unit.into()]);
    line(format!("read {size}"), f.read_gb_per_s, "GB/s");
    line(format!("copy {size}, read and written"), f.copy_gb_per_s, "GB/s");
    line("dispatch after a barrier, replayed".into(), f.dispatch_replayed_us, "us");
    line("dispatch without barrier, replayed".into(), f.dispatch_unordered_us, "us");
    line("dispatch after a barrier, recorded each time".into(), f.dispatch_recorded_us, "us");
    line("submit one and wait".into(), f.submit_us, "us");
    table.write(out, 0)?;
    writeln!(out)?;
    if f.matrices.is_empty() {
        return Ok(writeln!(out, "no cooperative matrices")?);
    }
    let mut table = Table::new(&[
        ("scope", Align::Left),
        ("types", Align::Left),
        ("m x n x k", Align::Left),
        ("invocations", Align::Right),
        ("T(FL)OP/s", Align::Right),
    ]);
    for m in &f.matrices {
        let size = format!("{}x{}x{}", m.m, m.n, m.k);
        let rate = format!("{:.2}", m.tera_per_s);
        table.row([m.scope.clone(), m.types.clone(), size, m.threads.to_string(), rate]);
    }
    Ok(table.write(out, 0)?)
}
