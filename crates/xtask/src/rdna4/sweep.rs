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
const WIDTHS: [u32; 4] = [1, 2, 4, 8];
/// Weight rows.
const ROWS: [u32; 3] = [1, 2, 4];
/// Rows of a matrix of Qwen3-8B, and elements of a row.
const M: u32 = 4096;
const K: u32 = 4096;

/// Every format by the policy's tiles, and those of [`SWEPT`] by other numbers of rows.
pub fn products(kernels: &Kernels) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for format in zinc_quant::formats() {
        for columns in WIDTHS {
            let own = gemv::select(kernels.policy(), format, M, K, columns, false)?;
            let swept = ROWS.iter().filter(|&&r| r != own.rows && SWEPT.contains(&format.name));
            for rows in swept.copied().chain([own.rows]) {
                let figures = product(kernels, format, columns, gemv::Tile { rows, ..own })?;
                let default = rows == own.rows;
                points.push(Point { format: format.name.into(), columns, rows, default, figures });
            }
        }
    }
    Ok(points)
}

/// The figures of a product's pipeline.
fn product(
    kernels: &Kernels,
    format: zinc_quant::FormatRef,
    columns: u32,
    tile: gemv::Tile,
) -> Result<Figures> {
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
        columns,
        epilogue: gemv::Epilogue::default(),
        out: Mat::dense(&out, M),
    };
    gemv::record(&own, &mut recorder, "product", &args, tile)?;
    drop(recorder);
    let made = device.pipelines().pop().ok_or("no pipeline was made")?;
    Figures::of_pipeline(&made)
}
