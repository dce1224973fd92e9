//! Products of a weight matrix by width: what each further column costs in registers.

use super::measure::Figures;
use crate::Result;
use serde::{Deserialize, Serialize};
use zinc_kernels::{Kernels, Mat, gemv};
use zinc_vulkan::{MemoryKind, RecorderOptions};

/// A product's pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Format of the weights.
    pub format: String,
    /// Columns of a workgroup.
    pub columns: u32,
    /// Weight rows that share a lane's loads of x.
    pub rows: u32,
    /// Whether the policy takes this tile for some number of columns.
    pub default: bool,
    /// The compiler's figures.
    pub figures: Figures,
}

/// The formats that are swept; of the others only the policy's tiles are looked at.
pub const SWEPT: [&str; 4] = ["Q4_K", "Q6_K", "Q8_0", "F16"];
/// Columns that are looked at.
const WIDTHS: [u32; 10] = [1, 2, 4, 8, 16, 24, 32, 40, 48, 64];
/// Weight rows.
const ROWS: [u32; 3] = [1, 2, 4];
/// Most sums of a lane: more are beyond every register file.
const MAX_SUMS: u32 = 128;
/// Rows of a matrix of Qwen3-8B, and elements of a row.
const M: u32 = 4096;
const K: u32 = 4096;

/// Every format by the policy's tiles, and those of [`SWEPT`] by every width, as the policy's tile for wide products but for rows and columns,
/// with lanes that read x themselves.
pub fn products(kernels: &Kernels) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &format in zinc_quant::formats() {
        let class = gemv::ProductClass { format, m: M, k: K, gated: false };
        let mut tiles = Vec::new();
        for columns in WIDTHS {
            let tile = gemv::select(kernels.policy(), &class, columns)?;
            if !tiles.contains(&(tile, true)) {
                tiles.push((tile, true));
            }
        }
        if SWEPT.contains(&format.name) {
            let own = gemv::select(kernels.policy(), &class, 64)?;
            for (rows, columns) in ROWS.iter().flat_map(|&r| WIDTHS.map(|c| (r, c))) {
                let tile = gemv::Tile { rows, columns, spread: false, stage: 0, ..own };
                if rows * columns <= MAX_SUMS && !tiles.contains(&(tile, true)) {
                    tiles.push((tile, false));
                }
            }
        }
        for (tile, default) in tiles {
            let figures = product(kernels, format, tile)?;
            let gemv::Tile { columns, rows, .. } = tile;
            points.push(Point { format: format.name.into(), columns, rows, default, figures });
        }
    }
    Ok(points)
}

/// The figures of a product's pipeline.
fn product(kernels: &Kernels, format: zinc_quant::FormatRef, tile: gemv::Tile) -> Result<Figures> {
    let columns = tile.columns;
    // Kernels of its own: their one pipeline is this product's.
    let device = kernels.device();
    let own = Kernels::with_policy(device, kernels.policy().clone());
    let bytes = u64::from(M) * format.device_row_bytes(K as usize) as u64;
    let weights = device.alloc(MemoryKind::Device, bytes, "weights")?.all();
    let x = device.alloc(MemoryKind::Device, 4 * u64::from(K * columns), "x")?.all();
    let out = device.alloc(MemoryKind::Device, 4 * u64::from(M * columns), "out")?.all();
    let mut recorder = device.recorder(&RecorderOptions { label: "product".into(), ..Default::default() })?;
    let args = gemv::Args {
        weights: gemv::Weights { slice: &weights, format, m: M, k: K },
        up: None,
        x: Mat::dense(&x, K),
        norm: None,
        columns,
        epilogue: gemv::Epilogue::default(),
        out: Mat::dense(&out, M),
    };
    gemv::record(&own, &mut recorder, "product", &args, tile)?;
    drop(recorder);
    let made = device.pipelines().pop().ok_or("no pipeline was made")?;
    Figures::of_pipeline(&made)
}
