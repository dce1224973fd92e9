//! `zinc inspect`: what a GGUF file holds, and whether zinc can run it.

mod values;

use crate::error::Outcome;
use crate::output::{self, Align, Table, printable};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use zinc_gguf::{GgmlType, Gguf};
use zinc_model::Model;
use zinc_text::{ChatTemplate, Tokenizer};

/// Shows what a GGUF file holds: metadata, tensors, sizes, and whether zinc can run it and if not exactly why.
#[derive(clap::Args)]
pub struct Args {
    /// The GGUF file; of a split model any part.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print long arrays and strings whole.
    #[arg(long)]
    full: bool,
}

/// Sums over the tensors of one type.
#[derive(Default)]
struct Total {
    tensors: usize,
    elements: u64,
    bytes: u64,
}

/// What both outputs tell.
struct Report<'a> {
    file: &'a Gguf,
    architecture: Option<&'a str>,
    totals: BTreeMap<GgmlType, Total>,
    /// Why zinc cannot run it; empty where it can.
    reasons: Vec<String>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let file = Gguf::open(&args.file)?;
    let mut totals: BTreeMap<GgmlType, Total> = BTreeMap::new();
    for t in file.tensors() {
        let total = totals.entry(t.ggml_type).or_default();
        total.tensors += 1;
        total.elements += t.elements();
        total.bytes += t.bytes;
    }
    let report = Report {
        architecture: file.metadata().str("general.architecture").ok(),
        totals,
        reasons: reasons(&file),
        file: &file,
    };
    if args.json {
        output::json(out, &as_json(&report, args.full))?
    } else {
        as_text(&report, args.full, out)?
    }
    Ok(())
}

/// Every reason why the file cannot be run, a line each; a hint is for the one who meets an error alone.
fn reasons(file: &Gguf) -> Vec<String> {
    let model = Model::from_gguf(file).err().map(|e| e.to_string());
    let text = Tokenizer::from_metadata(file.metadata(), None).err().map(|e| e.to_string());
    let template = ChatTemplate::from_metadata(file.metadata()).err().map(|e| e.to_string());
    let reasons = [model, text, template].into_iter().flatten();
    reasons.map(|r| r.split("\nhint:").next().unwrap_or(&r).replace('\n', " ")).collect()
}

impl Report<'_> {
    fn elements(&self) -> u64 {
        self.totals.values().map(|t| t.elements).sum()
    }

    fn bytes(&self) -> u64 {
        self.totals.values().map(|t| t.bytes).sum()
    }
}

fn as_text(r: &Report, full: bool, out: &mut dyn Write) -> io::Result<()> {
    let name = r.file.metadata().str("general.name").unwrap_or("unnamed");
    let parts: Vec<String> = r.file.parts().iter().map(|p| p.file.clone()).collect();
    let mut head = Table::new(&[("", Align::Left), ("", Align::Left)]);
    head.row(["file".into(), parts.join(", ")]);
    head.row(["name".into(), printable(name)]);
    head.row(["architecture".into(), printable(r.architecture.unwrap_or("not named"))]);
    head.row(["parameters".into(), output::count(r.elements())]);
    let version = r.file.parts()[0].version;
    head.row(["size".into(), format!("{} of tensors, GGUF version {version}", output::bytes(r.bytes()))]);
    head.row(["runs in zinc".into(), if r.reasons.is_empty() { "yes" } else { "no:" }.into()]);
    head.write(out, 0)?;
    for reason in &r.reasons {
        writeln!(out, "  - {}", printable(reason))?;
    }

    writeln!(out, "\nmetadata ({})", output::plural(r.file.metadata().len(), "key"))?;
    let mut table = Table::new(&[("key", Align::Left), ("type", Align::Left), ("value", Align::Left)]);
    for (key, value) in r.file.metadata().iter() {
        table.row([printable(key), values::type_text(value), values::text(value, full)]);
    }
    table.write(out, 2)?;

    writeln!(out, "\ntypes")?;
    let columns = [("type", Align::Left), ("tensors", Align::Right), ("elements", Align::Right)];
    let mut table = Table::new(&[columns[0], columns[1], columns[2], ("size", Align::Right)]);
    for (kind, total) in &r.totals {
        let sizes = [total.tensors.to_string(), output::count(total.elements), output::bytes(total.bytes)];
        let [tensors, elements, bytes] = sizes;
        table.row([kind.to_string(), tensors, elements, bytes]);
    }
    table.write(out, 2)?;
    tensors_text(r, out)
}

fn tensors_text(r: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\ntensors ({})", r.file.tensors().len())?;
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
        ("offset", Align::Right),
        (if r.file.parts().len() > 1 { "part" } else { "" }, Align::Right),
    ]);
    for t in r.file.tensors() {
        let shape: Vec<String> = t.dims.iter().map(u64::to_string).collect();
        let part = if r.file.parts().len() > 1 { (t.part + 1).to_string() } else { String::new() };
        table.row([
            printable(&t.name),
            t.ggml_type.to_string(),
            shape.join(" x "),
            output::bytes(t.bytes),
            t.offset.to_string(),
            part,
        ]);
    }
    table.write(out, 2)
}

fn as_json(r: &Report, full: bool) -> Json {
    let parts: Vec<Json> =
        r.file.parts().iter().map(|p| json!({ "file": p.file, "bytes": p.file_bytes() })).collect();
    let metadata: serde_json::Map<String, Json> =
        r.file.metadata().iter().map(|(k, v)| (k.to_string(), values::json(v, full))).collect();
    let types: Vec<Json> = r
        .totals
        .iter()
        .map(|(k, t)| json!({ "type": k.name(), "tensors": t.tensors, "elements": t.elements, "bytes": t.bytes }))
        .collect();
    let tensors: Vec<Json> = r
        .file
        .tensors()
        .iter()
        .map(|t| {
            json!({
                "name": t.name, "type": t.ggml_type.name(), "shape": t.dims.as_slice(), "bytes": t.bytes,
                "offset": t.offset, "part": t.part,
            })
        })
        .collect();
    json!({
        "parts": parts,
        "version": r.file.parts()[0].version,
        "alignment": r.file.parts()[0].alignment,
        "name": r.file.metadata().str("general.name").ok(),
        "architecture": r.architecture,
        "parameters": r.elements(),
        "tensor_bytes": r.bytes(),
        "runnable": r.reasons.is_empty(),
        "reasons": r.reasons,
        "metadata": metadata,
        "types": types,
        "tensors": tensors,
    })
}
