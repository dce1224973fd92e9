//! Attention on matrix cores by head size: models take it only where inexact results are allowed.

use super::measure::Figures;
use crate::Result;
use serde::{Deserialize, Serialize};
use zinc_kernels::attention::attention::{Args, record};
use zinc_kernels::attention::{MatrixTile, Shape};
use zinc_kernels::kv::{KvCache, KvType, page_bytes};
use zinc_kernels::{Kernels, Mat, Precision, RowInfo};
use zinc_vulkan::{MemoryKind, RecorderOptions};

/// A pipeline for a prompt's rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Elements of a head.
    pub head_size: u32,
    /// Pairs of row and head of a tile.
    pub queries: u32,
    /// Keys at a time.
    pub keys: u32,
    /// Subgroups that share a row group.
    pub column_groups: u32,
    /// The compiler's figures.
    pub figures: Figures,
}

const HEAD_SIZES: [u32; 4] = [64, 128, 256, 512];
const ROWS: u32 = 512;

/// The policy's tiles; none where the device has no matrices.
pub fn tiles(kernels: &Kernels) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for head_size in HEAD_SIZES {
        let shape = Shape { heads: 32, kv_heads: 8, key_size: head_size, value_size: head_size };
        let policy = &kernels.policy().attention.matrix;
        if let Some(tile) = MatrixTile::of(policy, kernels.subgroup_size(), kernels.caps(), &shape) {
            let figures = pipeline(kernels, &shape)?;
            let MatrixTile { keys, column_groups, .. } = tile;
            points.push(Point { head_size, queries: tile.queries(), keys, column_groups, figures });
        }
    }
    Ok(points)
}

/// The figures of the pipeline for a prompt's rows.
fn pipeline(kernels: &Kernels, shape: &Shape) -> Result<Figures> {
    // Kernels of its own: their one pipeline is this one.
    let device = kernels.device();
    let own = Kernels::with_policy(device, kernels.policy().clone());
    let alloc = |bytes: u64| device.alloc(MemoryKind::Device, bytes, "attention").map(|b| b.all());
    let pages = ROWS / zinc_kernels::kv::PAGE_TOKENS;
    let width = shape.heads * shape.key_size;
    let rows = alloc(4 * u64::from(ROWS * width))?;
    let cache = alloc(u64::from(pages) * page_bytes(KvType::F16, shape.kv_heads, shape.key_size))?;
    let small = alloc(RowInfo::BYTES * u64::from(ROWS))?;
    let args = Args {
        q: Mat::dense(&rows, width),
        cache: KvCache {
            k: &cache,
            v: &cache,
            kind: KvType::F16,
            kv_heads: shape.kv_heads,
            key_size: shape.key_size,
            value_size: shape.value_size,
            pages: &small,
            max_pages: pages,
        },
        heads: shape.heads,
        scale: 1.0,
        softcap: None,
        window: None,
        sinks: None,
        row_info: &small,
        max_keys: ROWS,
        scratch: &small,
        out: Mat::dense(&rows, width),
        rows: ROWS,
        run: ROWS,
        precision: Precision::Fast,
    };
    let mut recorder =
        device.recorder(&RecorderOptions { label: "attention".into(), ..Default::default() })?;
    record(&own, &mut recorder, "attention", &args)?;
    drop(recorder);
    let made = device.pipelines().pop().ok_or("no pipeline was made")?;
    Figures::of_pipeline(&made)
}
