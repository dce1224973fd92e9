//! Products in tiles on matrix cores, which the fast policy takes for prompts.

use super::measure::Figures;
use super::sweep::SWEPT;
use crate::Result;
use serde::{Deserialize, Serialize};
use zinc_kernels::gemm::{Args, Packed, Tile, record, select};
use zinc_kernels::gemv::{Epilogue, Gate, ProductClass, Weights};
use zinc_kernels::{Kernels, Mat};
use zinc_quant::{FormatRef, by_name};
use zinc_vulkan::{MemoryKind, RecorderOptions};

/// A pipeline for a prompt's columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Format of the weights.
    pub format: String,
    /// Gate and up in one dispatch.
    pub gated: bool,
    /// Rows and columns of a workgroup, rows and columns of a subgroup.
    pub tile: [u32; 4],
    /// Columns of a prompt that the policy takes it for.
    pub columns: u32,
    /// The compiler's figures.
    pub figures: Figures,
}

/// Columns of prompts.
const WIDTHS: [u32; 3] = [64, 128, 512];
/// Rows of a matrix of Qwen3-8B, and elements of a row.
const M: u32 = 4096;
const K: u32 = 4096;

/// The policy's tiles for the swept formats.
pub fn tiles(kernels: &Kernels) -> Result<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    for format in SWEPT.into_iter().filter_map(by_name) {
        for gated in [false, true] {
            for columns in WIDTHS {
                let class = ProductClass { format, m: M, k: K, gated };
                let own = select(kernels.policy(), kernels.caps(), &class, columns)?;
                let tile = [own.rows, own.columns, own.sub_rows, own.sub_columns];
                if points.iter().any(|p| (p.format.as_str(), p.gated, p.tile) == (format.name, gated, tile)) {
                    continue;
                }
                let figures = pipeline(kernels, format, gated, columns, &own)?;
                points.push(Point { format: format.name.into(), gated, tile, columns, figures });
            }
        }
    }
    Ok(points)
}

/// The figures of a product's pipeline.
fn pipeline(kernels: &Kernels, format: FormatRef, gated: bool, columns: u32, tile: &Tile) -> Result<Figures> {
    // Kernels of its own: their one pipeline is this product's.
    let device = kernels.device();
    let own = Kernels::with_policy(device, kernels.policy().clone());
    let alloc = |bytes: u64| device.alloc(MemoryKind::Device, bytes, "gemm").map(|b| b.all());
    let weights = alloc(u64::from(M) * format.device_row_bytes(K as usize) as u64)?;
    let x = alloc(Packed::bytes_for(columns, K))?;
    let out = alloc(4 * u64::from(M * columns))?;
    let partials = match tile.partial_bytes(M, columns, gated) {
        0 => None,
        bytes => Some(alloc(bytes)?),
    };
    let weights = Weights { slice: &weights, format, m: M, k: K };
    let args = Args {
        weights,
        up: gated.then_some((Gate::SwiGlu, weights)),
        x: Packed { slice: &x, offset: 0, rows: columns, k: K },
        epilogue: Epilogue::default(),
        out: Mat::dense(&out, M),
        partials: partials.as_ref(),
    };
    let mut recorder = device.recorder(&RecorderOptions { label: "gemm".into(), ..Default::default() })?;
    record(&own, &mut recorder, "gemm", &args, tile)?;
    drop(recorder);
    let made = device.pipelines().pop().ok_or("no pipeline was made")?;
    Figures::of_pipeline(&made)
}
