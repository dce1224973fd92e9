//! On which drivers each kernel ran, and which were only ever compiled.

use crate::Result;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// What `zinc check --ops --executed` writes: the shaders of the suites without a fault.
#[derive(Debug, Deserialize)]
struct Record {
    device: String,
    driver: String,
    date: String,
    shaders: BTreeSet<String>,
}

/// What is read of a run of `cargo xtask rdna4`.
#[derive(Debug, Deserialize)]
struct Compiled {
    card: String,
    driver: String,
    defaults: Vec<Shader>,
    others: Vec<Shader>,
}

#[derive(Debug, Deserialize)]
struct Shader {
    shader: String,
    /// Of those that no model takes.
    pipelines: Option<u32>,
}

/// Where README.md has the table of drivers.
const MARKS: [&str; 2] =
    ["<!-- Written by `cargo xtask executed`. -->\n", "<!-- Written by hand again. -->\n"];

/// Writes docs/executed.md, a row for each kernel, and README.md's table, a row for each driver.
///
/// # Errors
/// Files that are not there or not as they should be.
pub fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?;
    let mut files: Vec<_> = std::fs::read_dir(root.join("bench/results/executed"))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    let records = files
        .iter()
        .map(|file| {
            serde_json::from_slice(&std::fs::read(file)?)
                .map_err(|e| format!("`{}`: {e}", file.display()).into())
        })
        .collect::<Result<Vec<Record>>>()?;
    let compiled: Compiled =
        serde_json::from_slice(&std::fs::read(root.join("bench/results/rdna4/gfx1201-wave64.json"))?)?;
    let names: Vec<String> = crate::kernels().collect();
    std::fs::write(root.join("docs/executed.md"), by_kernel(&names, &records, &compiled))?;
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    Ok(std::fs::write(root.join("README.md"), replaced(&readme, &by_driver(&names, &records, &compiled))?)?)
}

/// A row for each kernel and variant; formats share one.
fn by_kernel(names: &[String], records: &[Record], compiled: &Compiled) -> String {
    let mut rows: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for name in names {
        let variant: Vec<&str> = name.split(' ').filter(|part| !part.starts_with("FORMAT=")).collect();
        rows.entry(variant.join(" ")).or_default().push(name);
    }
    let mut out = String::from(
        "<!-- Written by `cargo xtask executed`. -->\n# Where each kernel last ran\n\nBy driver, when the kernel last ran there in a suite of `zinc check --ops` all of whose cases agreed with the references; formats of weights share a row. **compiled only**: no driver's record in bench/results/executed has it, but AMD's compiler \
         took it for a card that is not there ([rdna4.md](rdna4.md)). A dash: no suite makes it there.\n\n`zinc check --ops --executed bench/results/executed/NAME.json` on a machine with the driver writes its column, `cargo xtask executed` this page.\n\n| kernel | formats |",
    );
    for r in records {
        let _ = write!(out, " {}, {} |", r.device, r.driver);
    }
    let _ = write!(out, " {}, {} |\n|---|--:|", compiled.card, compiled.driver);
    out.push_str(&"---|".repeat(records.len() + 1));
    out.push('\n');
    let known: BTreeSet<&str> = compiled.shaders().collect();
    for (row, shaders) in rows {
        let _ = write!(out, "| {row} | {} |", shaders.len());
        for record in records {
            let _ = match shaders.iter().filter(|s| record.shaders.contains(**s)).count() {
                0 => write!(out, " — |"),
                n if n == shaders.len() => write!(out, " {} |", record.date),
                n => write!(out, " {}, {n} of {} |", record.date, shaders.len()),
            };
        }
        let ran = records.iter().any(|r| shaders.iter().any(|s| r.shaders.contains(*s)));
        out.push_str(match (shaders.iter().any(|s| known.contains(s.as_str())), ran) {
            (true, true) => " compiled |\n",
            (true, false) => " **compiled only** |\n",
            (false, _) => " — |\n",
        });
    }
    out
}

/// A row for each driver.
fn by_driver(names: &[String], records: &[Record], compiled: &Compiled) -> String {
    let mut out = String::from("| device | driver | kernels | |\n|---|---|--:|---|\n");
    let of = |shaders: &BTreeSet<&str>| names.iter().filter(|n| shaders.contains(n.as_str())).count();
    for r in records {
        let ran = of(&r.shaders.iter().map(String::as_str).collect());
        let _ = writeln!(
            out,
            "| {} | {} | {ran} of {} | ran right, last {} |",
            r.device,
            r.driver,
            names.len(),
            r.date
        );
    }
    let Compiled { card, driver, .. } = compiled;
    let _ = writeln!(
        out,
        "| {card}, pretended | {driver} | {} of {} | compiled, never run |",
        of(&compiled.shaders().collect()),
        names.len()
    );
    out
}

impl Compiled {
    fn shaders(&self) -> impl Iterator<Item = &str> {
        let made = self.defaults.iter().chain(&self.others).filter(|s| s.pipelines != Some(0));
        made.map(|s| s.shader.as_str())
    }
}

/// The text with what is between [`MARKS`] replaced.
fn replaced(text: &str, table: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).ok_or("README.md has no place for the table of drivers")?;
    let (_, after) = rest.split_once(end).ok_or("the place for the table of drivers has no end")?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> ([String; 4], [Record; 1], Compiled) {
        let record = Record {
            device: "cpu".into(),
            driver: "llvmpipe 1".into(),
            date: "2026-11-30".into(),
            shaders: ["a FORMAT=Q8_0", "c", "gone"].map(String::from).into(),
        };
        let shader = |s: &str| Shader { shader: s.into(), pipelines: None };
        let compiled = Compiled {
            card: "gfx1201".into(),
            driver: "radv".into(),
            defaults: vec![shader("a FORMAT=Q4_K")],
            others: vec![shader("b X=1")],
        };
        (["a FORMAT=Q4_K", "a FORMAT=Q8_0", "b X=1", "c"].map(String::from), [record], compiled)
    }

    #[test]
    fn what_ran_nowhere_is_marked() {
        let (names, records, compiled) = given();
        let text = by_kernel(&names, &records, &compiled);
        for row in [
            "| a | 2 | 2026-11-30, 1 of 2 | compiled |",
            "| b X=1 | 1 | — | **compiled only** |",
            "| c | 1 | 2026-11-30 | — |",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }

    #[test]
    fn drivers_have_a_row_each_in_their_place() {
        let (names, records, compiled) = given();
        let [begin, end] = MARKS;
        let text =
            replaced(&format!("before\n{begin}old\n{end}after\n"), &by_driver(&names, &records, &compiled))
                .unwrap();
        assert!(
            text.starts_with("before\n<!--") && text.ends_with("-->\nafter\n") && !text.contains("old"),
            "{text}"
        );
        assert!(text.contains("| cpu | llvmpipe 1 | 2 of 4 | ran right, last 2026-11-30 |"), "{text}");
        assert!(text.contains("| gfx1201, pretended | radv | 2 of 4 | compiled, never run |"), "{text}");
        assert!(replaced("no place", "").is_err());
    }
}
