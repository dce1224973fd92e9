//! `zinc check`: whether this device and this model are as they must be.

use crate::device;
use crate::error::{Outcome, error};
use crate::load::{EngineArgs, PathArg, prefill_lines, product_lines};
use crate::output::{self, Align, Table, plural};
use clap::ValueEnum;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use zinc_engine::{BackendWish, Engine, LoadOptions, MemoryPlan, PrefillPath, Want, plan_without_device};
use zinc_gguf::Gguf;
use zinc_kernels::{Kernels, suites};
use zinc_model::Model;
use zinc_text::{ChatTemplate, Tokenizer};
use zinc_vulkan::{Device, DeviceWish};

/// Checks the device, its kernels and a model, and names whatever is wrong.
///
/// Exit code 1 if something is. With `--budget` and no device, memory is planned for a device of that size.
#[derive(clap::Args)]
pub struct Args {
    /// Run the kernels' suites on the device and compare with the references; `--ops=FAMILY,…`: only these.
    #[arg(long, value_name = "FAMILY", num_args = 0.., require_equals = true, value_delimiter = ',', value_parser = family)]
    ops: Option<Vec<String>>,
    /// With `--ops`: write which kernels ran right on this driver, for `cargo xtask executed`.
    #[arg(long, value_name = "FILE", requires = "ops")]
    executed: Option<PathBuf>,
    /// Check that this model can run, how, and with how much memory.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Option<PathBuf>,
    /// Load the Khronos validation layer; what it says is a fault.
    #[arg(long)]
    validation: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.engine.refuse_validate("check")?;
    let options = args.engine.options(args.model.as_deref().unwrap_or(Path::new("")))?;
    let device = find_device(args, &options, out)?;
    let paths: Vec<String> = PathArg::value_variants()
        .iter()
        .filter_map(|p| Some(p.to_possible_value()?.get_name().to_string()))
        .collect();
    writeln!(out, "accelerated paths: {} (`--disable PATH` switches one off)", paths.join(", "))?;
    let mut faults = 0;
    if let Some(families) = &args.ops {
        let device = device.as_ref().ok_or_else(|| {
            error(
                "`--ops` needs a Vulkan device",
                "`zinc devices` lists them; `--device NAME` takes a software driver too",
            )
        })?;
        faults += ops(device, families, args.executed.as_deref(), out)?;
    }
    if let Some(path) = &args.model {
        faults += model(path, &options, device.clone(), out)?;
    }
    if let Some(device) = device.filter(|_| args.validation) {
        let messages = device.instance().validation_messages();
        faults += messages.len();
        for message in messages {
            writeln!(out, "FAULT validation layer: {message}")?;
        }
    }
    match faults {
        0 => Ok(writeln!(out, "no fault found")?),
        n => Err(error(
            format!("{} found", plural(n, "fault")),
            "`--disable PATH` or `--backend cpu` may go round them; please report them with the output of `zinc devices --json`",
        )),
    }
}

/// Opens the device that a run would take, and tells which and why. None where the CPU executor would run.
fn find_device(args: &Args, options: &LoadOptions, out: &mut dyn Write) -> Outcome<Option<Device>> {
    if options.backend == BackendWish::Cpu {
        writeln!(out, "device: none, the CPU executor was asked for")?;
        return Ok(None);
    }
    let software = options.backend == BackendWish::Vulkan;
    let opened = device::open(&options.device, software, args.validation);
    let may_do_without = options.backend == BackendWish::Auto && options.device == DeviceWish::Auto;
    match opened {
        Ok((device, reasons)) => {
            reasons.iter().try_for_each(|r| writeln!(out, "{r}"))?;
            Ok(Some(device))
        }
        Err(e) if may_do_without => {
            writeln!(
                out,
                "device: none, so the CPU executor runs models\n  {}",
                e.to_string().replace('\n', "\n  ")
            )?;
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

fn family(name: &str) -> Result<String, String> {
    let names: Vec<&str> = suites().iter().map(|s| s.0).collect();
    if names.contains(&name) { Ok(name.into()) } else { Err(format!("there are {}", names.join(", "))) }
}

/// Writes a driver's record, which `cargo xtask executed` reads.
fn executed(device: &Device, shaders: &BTreeSet<String>, file: &Path) -> Outcome {
    let caps = device.capabilities();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let record = json!({
        "device": caps.name,
        "driver": format!("{} {}", caps.driver, caps.driver_version),
        "date": zinc_text::strftime("%Y-%m-%d", now).unwrap_or_default(),
        "shaders": shaders,
    });
    Ok(std::fs::write(file, format!("{record:#}\n"))?)
}

/// Runs the suites of these families, of all where none is named; returns how many cases failed. The shaders of suites without a fault are recorded,
/// after each suite: what runs for long may be ended.
fn ops(device: &Device, families: &[String], record: Option<&Path>, out: &mut dyn Write) -> Outcome<usize> {
    let (mut faults, mut ran) = (0, BTreeSet::new());
    let wanted = |name: &str| families.is_empty() || families.iter().any(|f| f == name);
    for (name, suite) in suites().iter().filter(|s| wanted(s.0)) {
        // Kernels of its own: the pipelines that are alive are this suite's.
        let kernels = Kernels::new(device);
        let results = suite(&kernels);
        let (skipped, results): (Vec<_>, Vec<_>) = results.into_iter().partition(|r| r.skipped);
        let bad: Vec<_> = results.iter().filter(|r| !r.ok).collect();
        let verdict = if bad.is_empty() { "ok".to_string() } else { format!("{} FAILED", bad.len()) };
        writeln!(out, "kernels of `{name}`: {}, {verdict}", plural(results.len(), "case"))?;
        for r in &bad {
            writeln!(out, "FAULT {}: {}", r.name, r.detail)?;
        }
        for r in &skipped {
            writeln!(out, "skipped {}: {}", r.name, r.detail)?;
        }
        out.flush()?;
        faults += bad.len();
        if bad.is_empty() {
            ran.extend(device.pipelines().iter().map(|p| p.name().to_owned()));
        }
        if let Some(file) = record {
            executed(device, &ran, file)?;
        }
    }
    Ok(faults)
}

/// Checks a model; returns how many faults there are.
fn model(path: &Path, options: &LoadOptions, device: Option<Device>, out: &mut dyn Write) -> Outcome<usize> {
    let file = Arc::new(Gguf::open(path)?);
    let mut faults = Vec::new();
    if let Err(e) = Tokenizer::from_metadata(file.metadata(), options.pretokenizer.as_deref()) {
        faults.push(e.to_string());
    }
    match ChatTemplate::from_metadata(file.metadata()) {
        Ok(Some(_)) => writeln!(out, "chat template: found")?,
        Ok(None) => writeln!(out, "chat template: none, `zinc run` continues texts")?,
        Err(e) => faults.push(e.to_string()),
    }
    match Model::from_gguf(&file) {
        Err(e) => faults.push(e.to_string()),
        Ok(model) => {
            let s = &model.spec;
            writeln!(
                out,
                "model: {}, {}, context {}",
                s.architecture,
                plural(s.layers.len(), "layer"),
                s.context_length
            )?;
            model.notes.iter().try_for_each(|n| writeln!(out, "note: {n}"))?;
            match (device, options.budget) {
                (None, Some(budget)) => match plan_without_device(&model, options, budget) {
                    Ok(plan) => {
                        let place = format!("a device of {}", output::bytes(budget));
                        planned((plan.context, &plan.path, &plan.memory), &place, out)?;
                        let most = plan.largest_context.min(s.context_length);
                        writeln!(
                            out,
                            "the largest context that fits is {most} tokens, the model was trained for {}",
                            s.context_length
                        )?;
                    }
                    Err(e) => faults.push(e.to_string()),
                },
                (device, _) => faults.extend(loaded(file, options, device, out)?),
            }
        }
    }
    for fault in &faults {
        writeln!(out, "FAULT `{}`: {}", path.display(), fault.replace('\n', "\n  "))?;
    }
    Ok(faults.len())
}

/// Loads the model where it would run and reads one token; returns what went wrong.
fn loaded(
    file: Arc<Gguf>,
    options: &LoadOptions,
    device: Option<Device>,
    out: &mut dyn Write,
) -> Outcome<Option<String>> {
    let engine = match device {
        Some(device) => Engine::on_device(file, device, options, &mut |_| ()),
        None => {
            Engine::open(file, &LoadOptions { backend: BackendWish::Cpu, ..options.clone() }, &mut |_| ())
        }
    };
    let mut engine = match engine {
        Ok(engine) => engine,
        Err(e) => return Ok(Some(e.to_string())),
    };
    let s = engine.summary();
    let memory = MemoryPlan { items: s.memory.clone() };
    planned((s.context, &engine.prefill_path(), &memory), &s.device, out)?;
    product_lines(&engine)?.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if s.tiles == "tuned" {
        writeln!(out, "tiles    tuned on this device")?;
    }
    if s.steps == "tuned" {
        writeln!(out, "steps    of {} tokens, tuned on this device", engine.prefill_path().chunk)?;
    }
    s.notes.iter().filter(|n| n.contains("tiles")).try_for_each(|n| writeln!(out, "note: {n}"))?;
    let token = engine.tokenizer().ok().and_then(|t| t.bos()).unwrap_or(0);
    let logits = engine.sequence().and_then(|mut s| engine.forward(&mut s, &[token], Want::Last));
    Ok(match logits {
        Err(e) => Some(e.to_string()),
        Ok(l) if l.values.iter().all(|v| v.is_finite()) => None,
        Ok(_) => Some("the logits after one token are not finite".into()),
    })
}

fn planned(
    (context, path, memory): (u32, &PrefillPath, &MemoryPlan),
    place: &str,
    out: &mut dyn Write,
) -> Outcome {
    writeln!(out, "runs on  {place}, context {context}")?;
    prefill_lines(path).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if memory.items.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
    for (what, bytes) in memory.items.iter().filter(|i| i.1 > 0) {
        table.row([(*what).into(), output::bytes(*bytes)]);
    }
    table.row(["in all".into(), output::bytes(memory.total())]);
    writeln!(out, "device memory:")?;
    Ok(table.write(out, 2)?)
}
