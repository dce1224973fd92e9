//! `zinc devices`: what there is, what each can do, which one would be taken and why.

use crate::args::DeviceArg;
use crate::error::Outcome;
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::Write;
use zinc_engine::TunedFile;
use zinc_vulkan::{
    CacheLocation, Capabilities, ComponentType, Error, Instance, InstanceOptions, MatrixShape, choose,
};

/// Lists the Vulkan devices: what each can do, which one would be chosen and why not the others.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArg,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The devices and the choice among them.
struct Found {
    devices: Vec<Capabilities>,
    chosen: Option<usize>,
    reasons: Vec<String>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let instance = Instance::new(&InstanceOptions::default())?;
    let devices = instance.devices();
    let (chosen, reasons) = match choose(&devices, &args.device.wish(), false) {
        Ok(choice) => (Some(choice.index), choice.reasons),
        Err(Error::NoDevice { reasons, .. }) => (None, reasons),
        Err(e) => return Err(e.into()),
    };
    let found = Found { devices, chosen, reasons };
    if args.json {
        output::json(out, &as_json(&found))?
    } else {
        as_text(&found, out)?
    }
    Ok(())
}

fn as_text(found: &Found, out: &mut dyn Write) -> std::io::Result<()> {
    for (device, reason) in found.devices.iter().zip(&found.reasons) {
        writeln!(out, "{reason}")?;
        let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
        for (what, text) in summary(device) {
            table.row([what.into(), text]);
        }
        table.write(out, 2)?;
        writeln!(out)?;
    }
    match (found.chosen, found.devices.is_empty()) {
        (Some(index), _) => writeln!(out, "device {index} would be taken."),
        (None, false) => {
            writeln!(
                out,
                "no device would be chosen: zinc runs on the CPU.\nhint: `--device NAME` takes one by name"
            )
        }
        (None, true) => writeln!(
            out,
            "no Vulkan device: zinc runs on the CPU.\nhint: install your GPU's Vulkan driver (Debian: `apt install mesa-vulkan-drivers`)"
        ),
    }
}

/// The facts that decide which kernels run, as heading and text.
fn summary(d: &Capabilities) -> Vec<(&'static str, String)> {
    let s = &d.subgroup;
    let (major, minor, patch) = d.api_version;
    let heap =
        |local: bool| -> u64 { d.heaps.iter().filter(|h| h.device_local == local).map(|h| h.bytes).sum() };
    let mut memory = format!("{} on the device", output::bytes(heap(true)));
    if let Some(free) = device_free(d) {
        memory += &format!(" ({} free)", output::bytes(free));
    }
    if heap(false) > 0 {
        memory += &format!(", {} of the host", output::bytes(heap(false)));
    }
    let sizes = if s.min_size == s.max_size {
        s.size.to_string()
    } else {
        format!("{} to {}, {} by default", s.min_size, s.max_size, s.size)
    };
    let control = if s.required_size { ", can be required" } else { "" };
    let mut lines = vec![
        ("driver", format!("{} {}, Vulkan {major}.{minor}.{patch}", d.driver, d.driver_version)),
        ("memory", memory),
        ("subgroups", format!("{sizes}{control}")),
        ("arithmetic", join(&arithmetic(d))),
        ("storage", join(&storage(d))),
        ("integer dot", integer_dot(d).to_string()),
        ("tiles", tiles(d)),
        ("matrices", join(&matrices(d))),
        (
            "limits",
            format!(
                "{} an allocation, {} shared memory, {} invocations a workgroup",
                output::bytes(d.limits.max_allocation),
                output::bytes(u64::from(d.limits.shared_memory)),
                d.limits.workgroup_invocations
            ),
        ),
    ];
    if !d.usable() {
        lines.push(("lacks", d.problems.join("; ")));
    }
    lines
}

/// Where the tiles of products come from.
fn tiles(d: &Capabilities) -> String {
    match TunedFile::of(d, &CacheLocation::User).map_or(Ok(None), |file| file.read()) {
        Ok(None) => "the policy's for its class; `zinc tune` measures better ones".into(),
        Ok(Some(measured)) => {
            let models = match measured.chunks.len() {
                0 => String::new(),
                n => format!(", steps of {}", output::plural(n, "model")),
            };
            let products = output::plural(measured.tiles.products(), "product");
            format!("tuned on this device: {products}{models}")
        }
        Err(why) => format!("the policy's: {why}"),
    }
}

/// What the driver says is free of the device's largest heap, where it says so.
fn device_free(d: &Capabilities) -> Option<u64> {
    let heap = d.heaps.iter().filter(|h| h.device_local).max_by_key(|h| h.bytes)?;
    heap.budget.map(|b| b.budget.saturating_sub(b.used))
}

fn join<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

fn present(flags: &[(bool, &'static str)]) -> Vec<&'static str> {
    flags.iter().filter(|f| f.0).map(|f| f.1).collect()
}

fn arithmetic(d: &Capabilities) -> Vec<&'static str> {
    let f = &d.features;
    present(&[
        (f.shader_f16, "f16"),
        (f.bfloat16, "bf16"),
        (f.shader_f64, "f64"),
        (f.shader_i8, "i8"),
        (f.shader_i16, "i16"),
        (f.shader_i64, "i64"),
    ])
}

fn storage(d: &Capabilities) -> Vec<&'static str> {
    present(&[(d.features.storage_8bit, "8-bit"), (d.features.storage_16bit, "16-bit")])
}

fn integer_dot(d: &Capabilities) -> &'static str {
    let f = &d.features;
    match (f.integer_dot, f.integer_dot_4x8_signed_accelerated) {
        (true, true) => "4x8, accelerated",
        (true, false) => "4x8, not accelerated",
        (false, _) => "none",
    }
}

/// Cooperative matrix shapes in words, each once, subgroup scope.
fn matrices(d: &Capabilities) -> Vec<String> {
    let mut shapes: Vec<String> = d.cooperative_matrix.iter().map(shape).collect();
    shapes.sort();
    shapes.dedup();
    if d.cooperative_matrix2.is_some() {
        shapes.push("NV 2".into());
    }
    shapes
}

fn shape(s: &MatrixShape) -> String {
    format!("{}x{}x{} {} to {}", s.m, s.n, s.k, component(s.a), component(s.result))
}

fn component(c: ComponentType) -> String {
    format!("{c:?}").to_lowercase()
}

fn as_json(found: &Found) -> Value {
    let devices: Vec<Value> =
        found.devices.iter().zip(&found.reasons).map(|(d, reason)| device_json(d, reason)).collect();
    json!({ "devices": devices, "chosen": found.chosen })
}

fn device_json(d: &Capabilities, reason: &str) -> Value {
    let s = &d.subgroup;
    let f = &d.features;
    let uuid: String = d.uuid.iter().map(|b| format!("{b:02x}")).collect();
    let heaps: Vec<Value> = d
        .heaps
        .iter()
        .map(|h| {
            json!({
                "bytes": h.bytes, "device_local": h.device_local, "host_visible": h.host_visible,
                "budget_bytes": h.budget.map(|b| b.budget), "used_bytes": h.budget.map(|b| b.used),
            })
        })
        .collect();
    let shapes: Vec<Value> = d
        .cooperative_matrix
        .iter()
        .map(|m| {
            json!({
                "m": m.m, "n": m.n, "k": m.k, "a": component(m.a), "b": component(m.b), "c": component(m.c),
                "result": component(m.result), "scope": format!("{:?}", m.scope).to_lowercase(),
                "saturating": m.saturating,
            })
        })
        .collect();
    json!({
        "index": d.index, "name": d.name, "kind": d.kind.to_string(), "usable": d.usable(), "reason": reason,
        "problems": d.problems,
        "driver": d.driver, "driver_version": d.driver_version,
        "api_version": format!("{}.{}.{}", d.api_version.0, d.api_version.1, d.api_version.2),
        "vendor_id": d.vendor_id, "device_id": d.device_id, "uuid": uuid,
        "memory": heaps,
        "subgroup": {
            "size": s.size, "min_size": s.min_size, "max_size": s.max_size, "required_size": s.required_size,
            "full_subgroups": s.full_subgroups,
        },
        "arithmetic": arithmetic(d), "storage": storage(d),
        "integer_dot": f.integer_dot, "integer_dot_accelerated": f.integer_dot_4x8_signed_accelerated,
        "timestamps": f.timestamps, "memory_budget": f.memory_budget,
        "tiles": tiles(d),
        "cooperative_matrix": shapes, "cooperative_matrix2": d.cooperative_matrix2.is_some(),
        "limits": {
            "max_allocation": d.limits.max_allocation, "max_buffer": d.limits.max_buffer,
            "shared_memory": d.limits.shared_memory, "workgroup_invocations": d.limits.workgroup_invocations,
            "push_constants": d.limits.push_constants,
        },
    })
}
