//! Measuring a product in tiles on weights that no cache holds.

use super::{Args, ConvertArgs, Packed, Tile, convert, record, select};
use crate::gemv::{Epilogue, Gate, ProductClass, Weights};
use crate::rounds::{fill, rounds};
use crate::{Error, Kernels, Mat};
use std::time::Duration;
use zinc_vulkan::{MemoryKind, RecorderOptions, Slice};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchShape {
    /// The product.
    pub class: ProductClass,
    /// Its columns.
    pub columns: u32,
    /// How to cut the work; the policy's way where `None`.
    pub tile: Option<Tile>,
    /// Distinct matrices are multiplied in turn until they have this many bytes: more than any cache.
    pub rotate_bytes: u64,
    /// Rounds over all matrices.
    pub repeats: u32,
    /// Work before what counts.
    pub warm_up: Duration,
}

impl BenchShape {
    /// Clocks rise for a while after a pause, such as the compilation of a pipeline.
    pub const WARM_UP: Duration = Duration::from_millis(50);
}

/// Times of a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchTiming {
    /// The tile.
    pub tile: Tile,
    /// Products and sums.
    pub flops: f64,
    /// Median time of a product, without the conversion of its columns, in microseconds.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
    /// Median time of the conversion.
    pub convert_us: f64,
}

impl BenchTiming {
    /// TFLOP/s at the median.
    pub fn tflops(&self) -> f64 {
        self.flops / self.median_us / 1e6
    }
}

/// Times a product on rotating buffers, each after a conversion of its columns.
///
/// # Errors
/// [`crate::Unsupported`] for a shape without kernel, else what the device says.
pub fn bench(kernels: &Kernels, shape: &BenchShape) -> Result<BenchTiming, Error> {
    let &BenchShape { class, columns, .. } = shape;
    let ProductClass { format, m, k, gated } = class;
    let device = kernels.device();
    let tile = match shape.tile {
        Some(tile) => tile,
        None => select(kernels.policy(), kernels.caps(), &class, columns)?,
    };
    let matrix = (u64::from(m) * format.device_row_bytes(k as usize) as u64).next_multiple_of(16);
    let bytes = if gated { 2 * matrix } else { matrix };
    let count = shape.rotate_bytes.min(device.max_buffer()).div_ceil(bytes).max(1);
    let alloc = |bytes: u64, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, bytes, label)?.all());
    let buffers = (0..count).map(|_| alloc(bytes, "bench weights")).collect::<Result<Vec<Slice>, Error>>()?;
    let x = alloc(4 * u64::from(k) * u64::from(columns), "bench x")?;
    let packed = alloc(Packed::bytes_for(columns, k), "bench packed")?;
    let out = alloc(4 * u64::from(m) * u64::from(columns), "bench out")?;
    fill(device, buffers.iter().chain([&x]))?;

    let options = RecorderOptions { label: "bench gemm".into(), timestamps: true, ..Default::default() };
    let mut rec = device.recorder(&options)?;
    let packed = Packed { slice: &packed, offset: 0, rows: columns, k };
    for weights in &buffers {
        convert(kernels, &mut rec, "convert", &ConvertArgs { x: Mat::dense(&x, k), out: packed })?;
        let second = weights.slice(bytes - matrix, matrix)?;
        let args = Args {
            weights: Weights { slice: weights, format, m, k },
            up: gated.then_some((Gate::SwiGlu, Weights { slice: &second, format, m, k })),
            x: packed,
            epilogue: Epilogue::default(),
            out: Mat::dense(&out, m),
        };
        record(kernels, &mut rec, "gemm", &args, &tile)?;
    }
    let commands = rec.finish()?;
    let (mut converts, mut products) = (Vec::new(), Vec::new());
    for round in rounds(device, &commands, shape.warm_up, shape.repeats)? {
        match round.dispatches.is_empty() {
            // By the wall clock where there are no timestamps, conversions and all.
            true => products.push(round.wall / count as f64),
            false => {
                let (even, odd) = round.dispatches.as_chunks::<2>().0.iter().map(|&[c, p]| (c, p)).unzip();
                converts.extend::<Vec<f64>>(even);
                products.extend::<Vec<f64>>(odd);
            }
        }
    }
    converts.sort_by(f64::total_cmp);
    products.sort_by(f64::total_cmp);
    let matrices = if gated { 2.0 } else { 1.0 };
    Ok(BenchTiming {
        tile,
        flops: matrices * 2.0 * f64::from(m) * f64::from(k) * f64::from(columns),
        median_us: products[products.len() / 2],
        shortest_us: products[0],
        convert_us: converts.get(converts.len() / 2).copied().unwrap_or(0.0),
    })
}
