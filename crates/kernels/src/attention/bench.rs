//! Measuring attention over a cache of one sequence.

use super::attention::{Args, COUNTER_BYTES, record_variant, scratch_bytes};
use super::{Shape, Variant, select};
use crate::kv::{KvCache, KvType, PAGE_TOKENS, page_bytes};
use crate::rounds::{Round, fill, rounds};
use crate::{Error, Kernels, Mat, Precision, RowInfo};
use std::time::Duration;
use zinc_vulkan::{MemoryKind, RecorderOptions};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchShape {
    /// Heads and their sizes.
    pub shape: Shape,
    /// Element type of the cache.
    pub kind: KvType,
    /// Rows of one sequence.
    pub rows: u32,
    /// Keys before the first row.
    pub history: u32,
    /// Keys that a row sees at most.
    pub window: Option<u32>,
    /// Which arithmetic is allowed.
    pub precision: Precision,
    /// How to compute it; the policy's choice where `None`.
    pub variant: Option<Variant>,
    /// Measurements.
    pub repeats: u32,
}

/// Times of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchTiming {
    /// How it was computed.
    pub variant: Variant,
    /// Products and sums of the visible scores and values.
    pub flops: f64,
    /// Median time, in microseconds.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
}

impl BenchTiming {
    /// TFLOP/s at the median.
    pub fn tflops(&self) -> f64 {
        self.flops / self.median_us / 1e6
    }
}

/// Clocks rise for a while after a pause: work for that long does not count.
const WARM_UP: Duration = Duration::from_millis(100);
/// Most bytes of scratch for rows that are computed for themselves.
const SCRATCH: u64 = 256 << 20;

/// Times attention of rows that follow `history` keys.
///
/// # Errors
/// [`crate::Unsupported`] for a shape without kernel, else what the device says.
pub fn bench(kernels: &Kernels, bench: &BenchShape) -> Result<BenchTiming, Error> {
    let &BenchShape { shape, kind, rows, history, window, .. } = bench;
    let device = kernels.device();
    let variant = match bench.variant {
        Some(variant) => variant,
        None => {
            let policy = &kernels.policy().attention;
            select(policy, bench.precision, kernels.subgroup_size(), kernels.caps(), &shape, rows)?
        }
    };
    let keys = history + rows;
    let pages = keys.div_ceil(PAGE_TOKENS);
    let alloc =
        |bytes: u64, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, bytes.max(16), label)?.all());
    let k = alloc(u64::from(pages) * page_bytes(kind, shape.kv_heads, shape.key_size), "bench keys")?;
    let v = alloc(u64::from(pages) * page_bytes(kind, shape.kv_heads, shape.value_size), "bench values")?;
    let (q_width, out_width) = (shape.heads * shape.key_size, shape.heads * shape.value_size);
    let q = alloc(4 * u64::from(rows) * u64::from(q_width), "bench q")?;
    let out = alloc(4 * u64::from(rows) * u64::from(out_width), "bench out")?;
    let row_bytes = scratch_bytes(kernels, &shape, keys, window)?;
    let parts = row_bytes.max(SCRATCH.min(row_bytes * u64::from(rows)));
    let scratch = alloc(COUNTER_BYTES + parts, "bench scratch")?;
    device.upload(&scratch.slice(0, COUNTER_BYTES)?, &vec![0; COUNTER_BYTES as usize])?;
    // Four entries at least: allocations have 16 bytes.
    let table: Vec<u32> = (0..pages.max(4)).collect();
    let infos: Vec<RowInfo> =
        (history..keys).map(|position| RowInfo { position, ..Default::default() }).collect();
    let (table_on, infos_on) = (
        alloc(4 * u64::from(pages.max(4)), "bench pages")?,
        alloc(RowInfo::BYTES * u64::from(rows), "bench rows")?,
    );
    device.upload(&table_on, bytemuck::cast_slice(&table))?;
    device.upload(&infos_on, bytemuck::cast_slice(&infos))?;
    fill(device, [&k, &v, &q])?;

    let args = Args {
        q: Mat::dense(&q, q_width),
        cache: KvCache {
            k: &k,
            v: &v,
            kind,
            kv_heads: shape.kv_heads,
            key_size: shape.key_size,
            value_size: shape.value_size,
            pages: &table_on,
            max_pages: pages,
        },
        heads: shape.heads,
        scale: 1.0,
        softcap: None,
        window,
        sinks: None,
        row_info: &infos_on,
        max_keys: keys,
        scratch: &scratch,
        out: Mat::dense(&out, out_width),
        rows,
        run: rows,
        precision: bench.precision,
    };
    let options = RecorderOptions { label: "bench attention".into(), timestamps: true, ..Default::default() };
    let mut rec = device.recorder(&options)?;
    record_variant(kernels, &mut rec, "attention", &args, &variant)?;
    let commands = rec.finish()?;

    let time = |r: &Round| if r.dispatches.is_empty() { r.wall } else { r.dispatches.iter().sum() };
    let mut times: Vec<f64> = rounds(device, &commands, WARM_UP, bench.repeats)?.iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    let visible: f64 = (history..keys).map(|i| f64::from((i + 1).min(window.unwrap_or(u32::MAX)))).sum();
    let flops = 2.0 * f64::from(shape.key_size + shape.value_size) * f64::from(shape.heads) * visible;
    Ok(BenchTiming { variant, flops, median_us: times[times.len() / 2], shortest_us: times[0] })
}
