//! The tables, and what fails.

use super::measure::{Figures, Row, Run, Worst};
use super::sweep::{Point, SWEPT};
use crate::Result;
use serde::Serialize;
use std::fmt::Write;

/// Waves of a SIMD below which a default variant fails. A wave waits some hundreds of cycles for memory; with fewer than this many in their
/// turns the SIMD stands still meanwhile.
const MIN_WAVES: u32 = 4;
/// The same of kernels on matrices: the products of a step, dozens of matrix instructions, last as long as the loads of the next one.
const MIN_WAVES_ON_MATRICES: u32 = 2;

/// Bytes of the instruction cache of a work-group processor. A loop that is longer fetches its code anew each time.
const INSTRUCTION_CACHE: u32 = 32 << 10;

/// What is wrong with the default variants: those of the subgroup size that the policy takes.
pub fn problems(runs: &[Run]) -> Vec<String> {
    let mut all = Vec::new();
    for run in runs.iter().filter(|r| r.default) {
        let products = run.sweep.iter().filter(|p| p.default).map(|p| (name(p), p.figures));
        let models = run.defaults.iter().map(|r| (format!("{} {}", r.shader, constants(r)), r.figures));
        let attention = run
            .attention
            .iter()
            .map(|p| (format!("attention on matrices, heads of {}", p.head_size), p.figures));
        let gemm = run.gemm.iter().map(|p| (gemm_name(p), p.figures));
        for (what, f) in models.chain(products).chain(attention).chain(gemm) {
            let starts = |names: &[&str]| names.iter().any(|name| what.starts_with(name));
            let on_matrices = starts(&["gemm ", "attention_matrix ", "attention on matrices"]);
            let least = if on_matrices { MIN_WAVES_ON_MATRICES } else { MIN_WAVES };
            let why = match f {
                Figures { wmma: 0, .. } if on_matrices => {
                    "no matrix instruction in the disassembly".to_owned()
                }
                Figures { dot4: 0, .. } if starts(&["dot "]) => {
                    "no integer dot product in the disassembly".to_owned()
                }
                Figures { spilled: 1.., .. } => format!("{} registers are spilled", f.spilled),
                Figures { scratch: 1.., .. } => format!("{} bytes of scratch memory", f.scratch),
                Figures { waves, .. } if waves < least => format!(
                    "{waves} waves a SIMD, at least {least} are wanted ({} VGPRs, {} bytes of LDS)",
                    f.vgprs, f.lds
                ),
                Figures { code, .. } if code > INSTRUCTION_CACHE => {
                    format!("{code} bytes of code, the instruction cache holds {INSTRUCTION_CACHE}")
                }
                _ => continue,
            };
            all.push(format!("{} wave{}: {what}: {why}", run.card, run.lanes));
        }
    }
    all
}

fn name(p: &Point) -> String {
    format!("gemv {} {} columns, {} rows", p.format, p.columns, p.rows)
}

fn constants(row: &Row) -> String {
    row.constants.iter().map(|c| c.1.to_string()).collect::<Vec<_>>().join(" ")
}

/// A run as its file, a line each row.
pub fn json(run: &Run) -> Result<String> {
    fn lines<T: Serialize>(rows: &[T]) -> Result<String> {
        let rows = rows.iter().map(serde_json::to_string).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(rows.join(",\n  "))
    }
    Ok(format!(
        "{{\"card\":{:?},\"lanes\":{},\"default\":{},\"driver\":{:?},\n\"defaults\":[\n  {}],\n\"sweep\":[\n  {}],\n\"gemm\":[\n  {}],\n\"attention\":[\n  {}],\n\"others\":[\n  {}]}}\n",
        run.card,
        run.lanes,
        run.default,
        run.driver,
        lines(&run.defaults)?,
        lines(&run.sweep)?,
        lines(&run.gemm)?,
        lines(&run.attention)?,
        lines(&run.others)?
    ))
}

/// The tables of runs side by side; which has a column of its own is the first's.
pub fn tables(runs: &[Run]) -> String {
    let mut out = String::from(
        "<!-- Written by `cargo xtask rdna4`. What it means: docs/rdna4.md. -->\n# What AMD's compiler makes of the kernels\n\n",
    );
    let Some(main) = runs.first() else { return out };
    let _ = writeln!(
        out,
        "Driver: {}. Nothing was executed. Cells are VGPRs / waves a SIMD where not said otherwise.\n",
        main.driver
    );
    defaults(&mut out, runs);
    for format in SWEPT {
        products(&mut out, runs, format);
    }
    gemm(&mut out, runs);
    attention(&mut out, runs);
    others(&mut out, main);
    out
}

fn label(run: &Run) -> String {
    format!("{} wave{}", run.card, run.lanes)
}

/// VGPRs and waves, and what is spilled.
fn cell(f: &Figures) -> String {
    let spilled = match (f.spilled, f.scratch) {
        (0, 0) => String::new(),
        (spilled, scratch) => format!(", {spilled} spilled, {scratch} B scratch"),
    };
    format!("{} / {}{spilled}", f.vgprs, f.waves)
}

/// The default variants in the first run's order; other runs where they have the same shader in the same place among its namesakes.
fn defaults(out: &mut String, runs: &[Run]) {
    out.push_str("## Default variants\n\nThe pipelines that the engine makes for Qwen3-8B, Gemma 4 31B and Qwen3.5-35B-A3B in Q4_K_M, under the exact policy, the fast one or both, for steps of any number of rows; those of decoding and of the widest steps first. WMMA and dot4 are instructions in the disassembly (of gfx1201 in waves of 64, as all figures of one column); constants in the order of their ids.\n\n");
    let main = &runs[0];
    let _ = write!(
        out,
        "| used by | shader | constants | invocations | SGPRs | LDS | code | WMMA | dot4 | latency | inverse throughput |"
    );
    for run in runs {
        let _ = write!(out, " {} |", label(run));
    }
    out.push_str("\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    out.push_str(&"--:|".repeat(runs.len()));
    out.push('\n');
    for (i, row) in main.defaults.iter().enumerate() {
        let f = &row.figures;
        let _ = write!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.used.join(", "),
            row.shader,
            constants(row),
            f.invocations,
            f.sgprs,
            f.lds,
            f.code,
            f.wmma,
            f.dot4,
            f.latency,
            f.inverse_throughput
        );
        let place = main.defaults[..i].iter().filter(|r| r.shader == row.shader).count();
        for run in runs {
            let same = run.defaults.iter().filter(|r| r.shader == row.shader).nth(place);
            let _ = write!(out, " {} |", same.map_or("—".into(), |r| cell(&r.figures)));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// Products of a format by columns and rows.
fn products(out: &mut String, runs: &[Run], format: &str) {
    let main = &runs[0];
    let mut points: Vec<&Point> = main.sweep.iter().filter(|p| p.format == format).collect();
    points.sort_by_key(|p| (p.rows, p.columns, !p.default));
    let _ = writeln!(
        out,
        "## Products of {format} by columns\n\nA matrix of 4096 rows of 4096. `cycles` is the inverse throughput over rows · columns, `*` a tile of the policy; the others differ from its widest in rows and columns alone, and read x without shared memory.\n"
    );
    let _ = write!(out, "| rows | columns | code | cycles |");
    for run in runs {
        let _ = write!(out, " {} |", label(run));
    }
    let _ = writeln!(out, "\n|--:|--:|--:|--:|{}", "--:|".repeat(runs.len()));
    for p in points {
        let mark = if p.default { " *" } else { "" };
        let cycles = f64::from(p.figures.inverse_throughput) / f64::from(p.columns * p.rows);
        let _ = write!(out, "| {} | {}{mark} | {} | {cycles:.0} |", p.rows, p.columns, p.figures.code);
        for run in runs {
            let same = |q: &&Point| {
                (&q.format, q.columns, q.rows, q.default) == (&p.format, p.columns, p.rows, p.default)
            };
            let _ =
                write!(out, " {} |", run.sweep.iter().find(same).map_or("—".into(), |q| cell(&q.figures)));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn gemm_name(p: &super::gemm::Point) -> String {
    let [rows, columns, sub_rows, sub_columns] = p.tile;
    let gated = if p.gated { " gated" } else { "" };
    format!("gemm {}{gated} {rows}x{columns} of {sub_rows}x{sub_columns}", p.format)
}

/// Products in tiles on matrix cores.
fn gemm(out: &mut String, runs: &[Run]) {
    out.push_str("## Products in tiles on matrix cores\n\nThe policy's tiles for 64, 128 and 512 columns of a matrix of 4096 rows of 4096, which the fast policy takes for prompts: rows x columns of a workgroup, of a subgroup.\n\n| tile | invocations | LDS | code | cycles | WMMA |");
    for run in runs {
        let _ = write!(out, " {} |", label(run));
    }
    let _ = writeln!(out, "\n|---|--:|--:|--:|--:|--:|{}", "--:|".repeat(runs.len()));
    for p in &runs[0].gemm {
        let f = &p.figures;
        let _ = write!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            gemm_name(p),
            f.invocations,
            f.lds,
            f.code,
            f.inverse_throughput,
            f.wmma
        );
        for run in runs {
            let same = run.gemm.iter().find(|q| gemm_name(q) == gemm_name(p));
            let _ = write!(out, " {} |", same.map_or("—".into(), |q| cell(&q.figures)));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// Attention on matrix cores by head size.
fn attention(out: &mut String, runs: &[Run]) {
    out.push_str("## Attention on matrix cores\n\nThe policy's tiles for 32 query heads on 8, which the fast policy takes for prompts.\n\n| head | queries x keys, subgroups a row group | invocations | LDS | code | cycles | WMMA |");
    for run in runs {
        let _ = write!(out, " {} |", label(run));
    }
    let _ = writeln!(out, "\n|--:|---|--:|--:|--:|--:|--:|{}", "--:|".repeat(runs.len()));
    for p in &runs[0].attention {
        let f = &p.figures;
        let _ = write!(
            out,
            "| {} | {} x {}, {} | {} | {} | {} | {} | {} |",
            p.head_size,
            p.queries,
            p.keys,
            p.column_groups,
            f.invocations,
            f.lds,
            f.code,
            f.inverse_throughput,
            f.wmma
        );
        for run in runs {
            let same = run.attention.iter().find(|q| q.head_size == p.head_size);
            let _ = write!(out, " {} |", same.map_or("—".into(), |q| cell(&q.figures)));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// Shaders that the two models do not use.
fn others(out: &mut String, run: &Run) {
    let _ = writeln!(
        out,
        "## Other shaders\n\nOf the pipelines that the kernels' own tests make, the one with the fewest waves; {}.\n\n| shader | pipelines | VGPRs / waves | LDS | code |\n|---|--:|--:|--:|--:|",
        label(run)
    );
    for w in &run.others {
        let (Worst { shader, pipelines, .. }, f) = (w, &w.figures);
        let _ = match pipelines {
            0 => writeln!(out, "| {shader} | none | | | |"),
            n => writeln!(out, "| {shader} | {n} | {} | {} | {} |", cell(f), f.lds, f.code),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lanes: u32, default: bool, figures: Figures) -> Run {
        let row = Row {
            used: vec!["8B decode".into()],
            shader: "norm".into(),
            constants: vec![(0, 64), (3, 1)],
            figures,
        };
        let point = Point { format: "Q4_K".into(), columns: 8, rows: 2, default: true, figures };
        Run {
            card: "gfx1201".into(),
            lanes,
            default,
            driver: "radv Mesa 26".into(),
            defaults: vec![row],
            sweep: vec![point],
            gemm: vec![],
            attention: vec![],
            others: vec![],
        }
    }

    fn figures(vgprs: u32, waves: u32) -> Figures {
        Figures { vgprs, waves, ..Default::default() }
    }

    #[test]
    fn spills_scratch_few_waves_and_long_code_of_default_variants_are_problems() {
        let of = |f| problems(&[run(64, true, f)]);
        assert_eq!(of(figures(48, 16)), Vec::<String>::new());
        assert_eq!(of(figures(180, MIN_WAVES)), Vec::<String>::new());
        let few = of(figures(252, MIN_WAVES - 1));
        assert_eq!(few.len(), 2, "{few:?}");
        assert!(few[0].starts_with("gfx1201 wave64: norm 64 1: 3 waves a SIMD"), "{few:?}");
        assert!(few[1].contains("gemv Q4_K 8 columns, 2 rows"), "{few:?}");
        assert!(of(Figures { spilled: 2, ..figures(48, 16) })[0].contains("2 registers are spilled"));
        assert!(of(Figures { scratch: 64, ..figures(48, 16) })[0].contains("64 bytes of scratch"));
        let long = Figures { code: INSTRUCTION_CACHE + 4, ..figures(48, 16) };
        assert!(of(long)[0].contains("32772 bytes of code"));
        assert!(problems(&[run(32, false, figures(252, 1))]).is_empty(), "no policy takes it");
    }

    #[test]
    fn a_kernel_without_the_instructions_that_it_is_there_for_is_a_problem() {
        let of = |shader: &str, wmma, dot4| {
            let mut run = run(64, true, figures(48, 16));
            run.defaults[0].shader = shader.into();
            run.defaults[0].figures = Figures { wmma, dot4, ..figures(48, 16) };
            problems(&[run]).join(";")
        };
        assert!(of("gemm FORMAT=Q4_K MATRIX=khr", 0, 0).contains("no matrix instruction"));
        assert!(of("attention_matrix KV=f16", 0, 0).contains("no matrix instruction"));
        assert!(of("dot FORMAT=Q4_K GATE=no", 0, 0).contains("no integer dot product"));
        assert_eq!(of("gemm FORMAT=Q4_K MATRIX=khr", 16, 0) + &of("dot FORMAT=Q4_K GATE=no", 0, 8), "");
    }

    #[test]
    fn runs_stand_side_by_side() {
        let runs = [run(64, true, figures(48, 16)), run(32, false, figures(96, 12))];
        let read: Run = serde_json::from_str(&json(&runs[0]).unwrap()).unwrap();
        assert_eq!((read.lanes, &read.defaults, &read.sweep), (64, &runs[0].defaults, &runs[0].sweep));
        let table = tables(&runs);
        assert!(
            table.contains("| 8B decode | norm | 64 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 48 / 16 | 96 / 12 |"),
            "{table}"
        );
        assert!(table.contains("| 2 | 8 * | 0 | 0 | 48 / 16 | 96 / 12 |"), "{table}");
    }
}
