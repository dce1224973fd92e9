//! What AMD's shader compiler makes of the kernels, without a card.
//!
//! Mesa's RADV runs on a pretended card (`crates/vulkan/pretend`, `scripts/mesa26.sh`). Nothing executes there, but the engine does all that it
//! would do before: it plans, chooses variants by its policy, compiles and records. So what is measured are the pipelines that the engine itself
//! makes for full-size models, whatever the kernels are; no list of variants or constants is kept here.

mod attention;
mod gemm;
mod measure;
mod models;
mod report;
mod sweep;
mod waves;

use crate::Result;
use measure::Run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The cards: R9700 and RX 9070 (RDNA4), RX 7900 XTX (RDNA3).
const CARDS: [&str; 2] = ["gfx1201", "gfx1100"];
/// Where the figures of a run and the tables lie.
const RESULTS: &str = "bench/results/rdna4";
/// The subgroup sizes that they have.
const LANES: [u32; 2] = [64, 32];

/// Measures everything, writes the tables, and checks the default variants.
///
/// # Errors
/// What is missing on this machine, what the driver or the validation layer says, and which default variants spill or keep too few waves.
pub fn run() -> Result<()> {
    let root = root()?;
    let setup = Command::new(root.join("scripts/mesa26.sh")).status()?;
    if !setup.success() {
        return Err("scripts/mesa26.sh failed".into());
    }
    let (folder, out) = (tempfile::tempdir()?, root.join(RESULTS));
    std::fs::create_dir_all(&out)?;
    for card in CARDS {
        for lanes in LANES {
            eprintln!("{card}, subgroups of {lanes} …");
            let run = measured(root, card, lanes, &folder.path().join("run.json"))?;
            std::fs::write(out.join(file_name(card, lanes)), report::json(&run)?)?;
        }
    }
    tables()
}

/// Writes the tables of the runs that are there, and checks their default variants.
///
/// # Errors
/// Files that cannot be read, and which default variants are not as they should be.
pub fn tables() -> Result<()> {
    let out = root()?.join(RESULTS);
    let files = CARDS.iter().flat_map(|card| LANES.map(|lanes| out.join(file_name(card, lanes))));
    let runs = files
        .filter(|file| file.exists())
        .map(|file| {
            serde_json::from_slice(&std::fs::read(&file)?)
                .map_err(|e| format!("`{}`: {e}", file.display()).into())
        })
        .collect::<Result<Vec<Run>>>()?;
    std::fs::write(out.join("tables.md"), report::tables(&runs))?;
    let problems = report::problems(&runs);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{} default variants are not as they should be:\n{}", problems.len(), problems.join("\n"))
        .into())
}

fn file_name(card: &str, lanes: u32) -> String {
    format!("{card}-wave{lanes}.json")
}

fn root() -> Result<&'static Path> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?)
}

/// One card and subgroup size, in a process that has the card.
fn measured(root: &Path, card: &str, lanes: u32, file: &PathBuf) -> Result<Run> {
    let status = Command::new(root.join(".mesa26/run"))
        .args(["--gpu", card])
        .arg(std::env::current_exe()?)
        .args(["rdna4", "--measure", card, &lanes.to_string()])
        .arg(file)
        .status()?;
    if !status.success() {
        return Err(format!("measuring {card} with subgroups of {lanes} failed").into());
    }
    Ok(serde_json::from_slice(&std::fs::read(file)?)?)
}

/// The part of [`run`] that has the card: writes a [`Run`] to a file.
///
/// # Errors
/// What the driver or the validation layer says.
pub fn measure(card: &str, lanes: &str, file: &str) -> Result<()> {
    let run = measure::measure(card, lanes.parse()?)?;
    Ok(std::fs::write(file, serde_json::to_vec(&run)?)?)
}
