//! Results as a table, JSON or CSV, each with all that is needed to compare them later.

use super::FormatArgs;
use super::limits::{OfLimit, of_limits};
use super::measure::{Kind, Measured};
use crate::error::Outcome;
use crate::load::{describe, prefill_lines, product_lines};
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use zinc_engine::{Engine, OpTime, Product, Products, Tile};
use zinc_kernels::{dot, gemm, slices};
use zinc_vulkan::Capabilities;

/// Version and commit of this program.
pub fn program() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "commit": Some(env!("ZINC_COMMIT")).filter(|c| !c.is_empty()) })
}

pub fn print(
    format: &FormatArgs,
    engine: &Engine,
    model: &Path,
    results: &[Measured],
    out: &mut dyn Write,
) -> Outcome {
    let name = model.file_name().unwrap_or(model.as_os_str()).to_string_lossy();
    if format.json {
        output::json(out, &as_json(engine, &name, results)?)?;
    } else if format.csv {
        as_csv(engine, &name, results, out)?;
    } else {
        as_text(engine, &name, results, out)?;
    }
    Ok(())
}

/// How a measurement processed its tokens: `batched 8`, `per-token`, `greedy`.
fn path(engine: &Engine, kind: Kind) -> String {
    match kind {
        Kind::Prefill => {
            let path = engine.prefill_path();
            if path.chunk > 1 { format!("{} {}", path.path, path.chunk) } else { path.path.to_string() }
        }
        Kind::Decode => "greedy".into(),
    }
}

/// Times of the dispatches of a step of so many tokens, those of all layers together.
pub fn profile(tokens: u32, times: &[OpTime], out: &mut dyn Write) -> Outcome {
    let mut sums: Vec<(&str, u64, u64)> = Vec::new();
    for time in times {
        let label = time
            .label
            .split_once('.')
            .filter(|(layer, _)| layer.parse::<u32>().is_ok())
            .map_or(&*time.label, |(_, l)| l);
        match sums.iter_mut().find(|(l, ..)| *l == label) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + time.nanoseconds),
            None => sums.push((label, 1, time.nanoseconds)),
        }
    }
    let mut table = Table::new(&[
        ("operation", Align::Left),
        ("dispatches", Align::Right),
        ("us each", Align::Right),
        ("us", Align::Right),
    ]);
    for (label, count, sum) in &sums {
        let us = *sum as f64 / 1e3;
        table.row([
            (*label).to_string(),
            count.to_string(),
            format!("{:.1}", us / *count as f64),
            format!("{us:.0}"),
        ]);
    }
    let total: u64 = sums.iter().map(|(_, _, sum)| sum).sum();
    table.row([
        "all".to_string(),
        times.len().to_string(),
        String::new(),
        format!("{:.0}", total as f64 / 1e3),
    ]);
    writeln!(out, "\na step of {}:\n", output::plural(tokens as usize, "token"))?;
    table.write(out, 0)?;
    Ok(())
}

fn as_text(engine: &Engine, name: &str, results: &[Measured], out: &mut dyn Write) -> Outcome {
    let bytes: u64 = engine.gguf().tensors().iter().map(|t| t.bytes).sum();
    writeln!(out, "zinc {}", env!("ZINC_VERSION"))?;
    writeln!(out, "model    {name}, {}, {}", engine.summary().architecture, output::bytes(bytes))?;
    let lines = describe(engine).into_iter().chain(prefill_lines(&engine.prefill_path()));
    for line in lines.chain(product_lines(engine)?) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        ("test", Align::Left),
        ("depth", Align::Right),
        ("tok/s", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("repeats", Align::Right),
        ("path", Align::Left),
        ("output", Align::Left),
    ]);
    for r in results {
        let rates = r.rates();
        let verdict = match (r.finite, r.repeatable) {
            (true, true) => format!("{:016x}", r.hash),
            (false, _) => "NOT FINITE".into(),
            (true, false) => "DIFFERS BETWEEN REPEATS".into(),
        };
        table.row([
            format!("{} {}", r.kind.name(), r.tokens),
            r.depth.to_string(),
            format!("{:.2}", r.median()),
            format!("{:.2}", rates.first().copied().unwrap_or_default()),
            format!("{:.2}", rates.last().copied().unwrap_or_default()),
            rates.len().to_string(),
            path(engine, r.kind),
            verdict,
        ]);
    }
    table.write(out, 0)?;
    for (r, q) in results.iter().filter_map(|r| Some((r, r.quarters?))) {
        let [a, b, c, d] = q;
        writeln!(out, "{} {} by quarters: {a:.2}, {b:.2}, {c:.2}, {d:.2} tok/s", r.kind.name(), r.tokens)?;
    }
    for share in of_limits(engine, results)? {
        writeln!(out, "{}", share.line())?;
    }
    Ok(())
}

fn as_json(engine: &Engine, name: &str, results: &[Measured]) -> Outcome<Value> {
    let of_limits: Vec<Value> = of_limits(engine, results)?.iter().map(OfLimit::as_json).collect();
    let results: Vec<Value> = results
        .iter()
        .map(|r| {
            let rates = r.rates();
            json!({
                "test": r.kind.name(), "tokens": r.tokens, "depth": r.depth, "seconds": r.seconds,
                "tokens_per_second": { "median": r.median(), "min": rates.first(), "max": rates.last() },
                "path": path(engine, r.kind), "finite": r.finite, "repeatable": r.repeatable,
                "output_hash": format!("{:016x}", r.hash), "tokens_per_second_by_quarter": r.quarters,
            })
        })
        .collect();
    let bytes: u64 = engine.gguf().tensors().iter().map(|t| t.bytes).sum();
    let path = engine.prefill_path();
    Ok(json!({
        "zinc": program(),
        "model": { "file": name, "tensor_bytes": bytes },
        "engine": engine.summary(),
        "products": {
            "decode": engine.products(1)?.iter().map(products_json).collect::<Vec<_>>(),
            "prefill": engine.products(path.chunk)?.iter().map(products_json).collect::<Vec<_>>(),
        },
        "prefill_path": path,
        "results": results,
        "of_device_limits": of_limits,
    }))
}

fn as_csv(engine: &Engine, name: &str, results: &[Measured], out: &mut dyn Write) -> io::Result<()> {
    let s = engine.summary();
    let head = [
        "test",
        "tokens",
        "depth",
        "repeats",
        "median_tok_s",
        "min_tok_s",
        "max_tok_s",
        "path",
        "finite",
        "repeatable",
        "output_hash",
        "model",
        "backend",
        "device",
        "driver",
        "policy",
        "kv_type",
        "version",
        "commit",
    ];
    writeln!(out, "{}", head.join(","))?;
    for r in results {
        let rates = r.rates();
        let cells = [
            r.kind.name().to_string(),
            r.tokens.to_string(),
            r.depth.to_string(),
            rates.len().to_string(),
            r.median().to_string(),
            rates.first().copied().unwrap_or_default().to_string(),
            rates.last().copied().unwrap_or_default().to_string(),
            path(engine, r.kind),
            r.finite.to_string(),
            r.repeatable.to_string(),
            format!("{:016x}", r.hash),
            name.to_string(),
            s.backend.to_string(),
            s.device.clone(),
            s.driver.clone(),
            s.policy.to_string(),
            s.kv_type.to_string(),
            env!("CARGO_PKG_VERSION").to_string(),
            env!("ZINC_COMMIT").to_string(),
        ];
        let cells: Vec<String> = cells.iter().map(|c| quoted(c)).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// Lanes and parts of K (`~` where a team walks the parts), rows and columns of a team, subgroups, stage.
fn tile_name(t: Tile) -> String {
    let spread = if t.spread { "" } else { "~" };
    format!("{}x{}{spread} {}x{} {}s stage {}", t.lanes, t.parts, t.rows, t.columns, t.subgroups, t.stage)
}

/// Who multiplies, rows and columns of a workgroup, of a subgroup (or invocation), elements of K at a time, `x2` where two of these are in shared memory, parts of K, subgroups
/// that split steps.
pub fn gemm_tile_name(t: &gemm::Tile) -> String {
    let matrix = match t.matrix {
        gemm::Matrix::Portable => "portable".to_string(),
        gemm::Matrix::Khr { m, n, k } => format!("khr {m}x{n}x{k}"),
        gemm::Matrix::Lanes => "lanes".to_string(),
    };
    let buffers = if t.buffers > 1 { format!(" x{}", t.buffers) } else { String::new() };
    let (tile, sub) = ((t.rows, t.columns), (t.sub_rows, t.sub_columns));
    let parts = if t.parts > 1 { format!(" {} parts", t.parts) } else { String::new() };
    let apart = if t.apart > 1 { format!(" {} apart", t.apart) } else { String::new() };
    format!("{matrix} {}x{} of {}x{} step {}{buffers}{parts}{apart}", tile.0, tile.1, sub.0, sub.1, t.step)
}

/// A tile of such products for JSON.
pub fn gemm_tile_json(t: &gemm::Tile) -> Value {
    let matrix = match t.matrix {
        gemm::Matrix::Portable => Value::Null,
        _ => json!(t.matrix.dimensions()),
    };
    json!({
        "matrices": t.matrix.variant(), "matrix": matrix, "rows": t.rows, "columns": t.columns, "sub_rows": t.sub_rows,
        "sub_columns": t.sub_columns, "step": t.step, "buffers": t.buffers, "parts": t.parts, "apart": t.apart,
    })
}

/// A product's kernel and tile in a word or two.
pub fn product_name(product: Product) -> String {
    match product {
        Product::Columns(tile) => format!("{} {}", product.family(), tile_name(tile)),
        Product::Dot(tile) => format!("{} {}", product.family(), dot_name(tile)),
        Product::Slices(tile) => format!("{} {}", product.family(), slices_name(tile)),
        Product::Gemm(tile) => format!("{} {}", product.family(), gemm_tile_name(&tile)),
    }
}

/// The products of a step that are alike, for JSON.
pub fn products_json(p: &Products) -> Value {
    json!({
        "format": p.class.format.name, "rows": p.class.m, "inner": p.class.k, "gated": p.class.gated, "columns": p.columns, "count": p.count,
        "experts": p.experts.map(|g| json!({ "of": g.experts, "used": g.top_k, "slots_a_tile": g.columns() })),
        "kernel": p.product.family(), "tile": product_json(p.product),
    })
}

/// Lanes, bytes of x, rows and columns of a team, subgroups, stage, batches of rows (`+` where codes are loaded ahead).
fn dot_name(t: dot::Tile) -> String {
    let ahead = if t.ahead { "+" } else { "" };
    let dot::Tile { lanes, bytes, rows, columns, subgroups, stage, batches, .. } = t;
    format!("{lanes}x{bytes}b {rows}x{columns} {subgroups}s stage {stage} of {batches}{ahead}")
}

/// Matrices of rows whose sums are kept, workgroups.
fn slices_name(t: slices::Tile) -> String {
    format!("{} of {}", t.tiles, t.groups)
}

/// A product's tile for JSON.
pub fn product_json(product: Product) -> Value {
    match product {
        Product::Columns(tile) => tile_json(tile),
        Product::Gemm(tile) => gemm_tile_json(&tile),
        Product::Slices(t) => {
            json!({ "tiles": t.tiles, "groups": t.groups })
        }
        Product::Dot(t) => json!({
            "lanes": t.lanes, "bytes": t.bytes, "rows": t.rows, "columns": t.columns, "subgroups": t.subgroups, "stage": t.stage,
            "batches": t.batches, "ahead": t.ahead,
        }),
    }
}

/// A tile for JSON.
fn tile_json(t: Tile) -> Value {
    json!({
        "lanes": t.lanes, "parts": t.parts, "spread": t.spread, "rows": t.rows, "columns": t.columns, "subgroups": t.subgroups,
        "stage": t.stage,
    })
}

/// The first line of a report of measurements on a device.
pub fn headline(caps: &Capabilities) -> String {
    format!("zinc {} on {} ({})", env!("ZINC_VERSION"), caps.name, caps.driver_name())
}

/// Measurements on a device as JSON, under the name `of`.
pub fn document(caps: &Capabilities, of: &str, results: Value) -> Value {
    json!({ "zinc": program(), "device": caps.name, "driver": caps.driver_name(), of: results })
}

/// The last two cells of a measurement's line in CSV: device and driver.
pub fn device_cells(caps: &Capabilities) -> String {
    format!("{},{}", quoted(&caps.name), quoted(&caps.driver_name()))
}

/// A cell of CSV (RFC 4180).
pub fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into()
    }
}
