//! Measuring attention over a cache of one sequence.

use super::attention::{Args, COUNTER_BYTES, record_variant, scratch_bytes, spread};
use super::{DecodeArgs, Shape, Variant, decode, select};
use crate::kv::{KvCache, KvType, PAGE_TOKENS, page_bytes};
use crate::launch::refuse;
use crate::rope::Rotation;
use crate::rope::qk_norm_rope_kv::HeadNorms;
use crate::rounds::{Round, fill, rounds};
use crate::{Error, Kernels, Mat, Precision, RowInfo};
use std::time::Duration;
use zinc_plan::Pairing;
use zinc_vulkan::{MemoryKind, RecorderOptions, Slice};

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
    /// Of one row: from its projections on, with norms, rotation and the cache's write.
    pub decode: bool,
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
    /// Bytes of the keys and values that the rows see.
    pub bytes: f64,
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

    /// Keys and values, each read once, in GB/s at the median.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes / self.median_us / 1e3
    }
}

/// Clocks rise for a while after a pause: work for that long does not count.
const WARM_UP: Duration = Duration::from_millis(100);
/// Most bytes of scratch for rows that are computed for themselves.
const SCRATCH: u64 = 256 << 20;

/// Bytes of caches that kernels of single rows go through in turn, as the layers of a model do: more than the device's own cache holds.
const ROTATE: u64 = 256 << 20;
/// Caches at most.
const MOST_CACHES: u64 = 64;

/// Times attention of rows that follow `history` keys: on matrix cores and in tiles the kernel alone; of single rows one after the other, each with a
/// cache that the device has not just read.
///
/// # Errors
/// [`crate::Unsupported`] for a shape without kernel, and for several rows of decoding, else what the device says.
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
    let k_bytes = u64::from(pages) * page_bytes(kind, shape.kv_heads, shape.key_size);
    let v_bytes = u64::from(pages) * page_bytes(kind, shape.kv_heads, shape.value_size);
    let caches = match variant {
        Variant::Split(_) => ROTATE.div_ceil(k_bytes + v_bytes).min(MOST_CACHES),
        _ => 1,
    };
    let (k, v) = (alloc(caches * k_bytes, "bench keys")?, alloc(caches * v_bytes, "bench values")?);
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

    let (one_k, one_v) = (k.slice(0, k_bytes)?, v.slice(0, v_bytes)?);
    let args = Args {
        q: Mat::dense(&q, q_width),
        cache: KvCache {
            k: &one_k,
            v: &one_v,
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
    let variant = match (bench.variant, variant) {
        (None, Variant::Split(split)) => Variant::Split(spread(split, &kernels.policy().attention, &args)),
        (_, variant) => variant,
    };
    let own = OwnRow::new(kernels, bench)?;
    let timestamps = caches == 1;
    let options = RecorderOptions { label: "bench attention".into(), timestamps, ..Default::default() };
    let mut rec = device.recorder(&options)?;
    for i in 0..caches {
        let (k, v) = (k.slice(i * k_bytes, k_bytes)?, v.slice(i * v_bytes, v_bytes)?);
        let args = Args { cache: KvCache { k: &k, v: &v, ..args.cache }, ..args };
        match (&variant, &own) {
            (Variant::Split(split), Some(own)) => {
                decode::record_split(kernels, &mut rec, "decode attention", &own.args(args), split)?;
            }
            _ => record_variant(kernels, &mut rec, "attention", &args, &variant)?,
        }
    }
    let commands = rec.finish()?;

    let time = |r: &Round| match r.dispatches.is_empty() {
        true => r.wall / caches as f64,
        false => r.dispatches.iter().sum(),
    };
    let mut times: Vec<f64> = rounds(device, &commands, WARM_UP, bench.repeats)?.iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    let visible: f64 = (history..keys).map(|i| f64::from((i + 1).min(window.unwrap_or(u32::MAX)))).sum();
    let flops = 2.0 * f64::from(shape.key_size + shape.value_size) * f64::from(shape.heads) * visible;
    let seen = (history..keys).map(|i| i + 1 - (i + 1).min(window.unwrap_or(u32::MAX))).min().unwrap_or(0);
    let key_bytes =
        u64::from(shape.kv_heads) * (kind.row_bytes(shape.key_size) + kind.row_bytes(shape.value_size));
    let bytes = (u64::from(keys - seen) * key_bytes) as f64;
    Ok(BenchTiming { variant, flops, bytes, median_us: times[times.len() / 2], shortest_us: times[0] })
}

/// What decoding has beside attention's operands: the projections of the row's key and value, weights of norms, a table of angles.
struct OwnRow {
    shape: Shape,
    k: Slice,
    v: Slice,
    weights: Slice,
    table: Slice,
}

impl OwnRow {
    fn new(kernels: &Kernels, bench: &BenchShape) -> Result<Option<OwnRow>, Error> {
        let (shape, device) = (bench.shape, kernels.device());
        if !bench.decode {
            return Ok(None);
        }
        if bench.rows != 1 {
            return Ok(refuse("decode_attention", format!("{} rows of a sequence", bench.rows))?);
        }
        let floats = |n: u32, label| {
            Ok::<_, Error>(device.alloc(MemoryKind::Device, 4 * u64::from(n).max(4), label)?.all())
        };
        let own = OwnRow {
            shape,
            k: floats(shape.kv_heads * shape.key_size, "bench key")?,
            v: floats(shape.kv_heads * shape.value_size, "bench value")?,
            weights: floats(shape.key_size, "bench norm")?,
            table: floats((bench.history + 1) * shape.key_size, "bench angles")?,
        };
        fill(device, [&own.k, &own.v, &own.weights, &own.table])?;
        Ok(Some(own))
    }

    fn args<'a>(&'a self, attention: Args<'a>) -> DecodeArgs<'a> {
        let Shape { kv_heads, key_size, value_size, .. } = self.shape;
        DecodeArgs {
            attention,
            gated: false,
            k: Mat::dense(&self.k, kv_heads * key_size),
            v: Mat::dense(&self.v, kv_heads * value_size),
            norms: Some(HeadNorms { q: &self.weights, k: &self.weights, values: false, eps: 1e-6 }),
            rotation: Rotation { table: &self.table, rotated_pairs: key_size / 2, pairing: Pairing::Halves },
        }
    }
}
