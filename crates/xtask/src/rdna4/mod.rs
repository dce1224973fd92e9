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
/// The subgroup sizes that they have.
const LANES: [u32; 2] = [64, 32];

/// Measures everything, writes the tables, and checks the default variants.
///
/// # Errors
/// What is missing on this machine, what the driver or the validation layer says, and which default variants spill or keep too few waves.
pub fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?;
    let setup = Command::new(root.join("scripts/mesa26.sh")).status()?;
    if !setup.success() {
        return Err("scripts/mesa26.sh failed".into());
    }
    let folder = tempfile::tempdir()?;
    let mut runs = Vec::new();
    for card in CARDS {
        for lanes in LANES {
            eprintln!("{card}, subgroups of {lanes} …");
            runs.push(measured(root, card, lanes, &folder.path().join("run.json"))?);
        }
    }
    let out = root.join("bench/results/rdna4");
    std::fs::create_dir_all(&out)?;
    for (name, text) in report::files(&runs)? {
        std::fs::write(out.join(&name), text)?;
        eprintln!("bench/results/rdna4/{name}");
    }
    let problems = report::problems(&runs);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{} default variants are not as they should be:\n{}", problems.len(), problems.join("\n"))
        .into())
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
