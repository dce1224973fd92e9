//! Measuring a product on weights that no cache holds.

use super::{Product, record};
use crate::gemv::{Args, Epilogue, Gate, ProductClass, Weights};
use crate::rounds::{Round, fill, rounds};
use crate::{Error, Kernels, Mat};
use std::time::Duration;
use zinc_vulkan::{Commands, MemoryKind, RecorderOptions};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchShape {
    /// The product.
    pub class: ProductClass,
    /// Its columns.
    pub columns: u32,
    /// The kernel and how to cut the work.
    pub product: Product,
    /// Distinct matrices are multiplied in turn until they have this many bytes: more than any cache.
    pub rotate_bytes: u64,
    /// Rounds over all matrices.
    pub repeats: u32,
    /// Work before what counts.
    pub warm_up: Duration,
}

impl BenchShape {
    /// Clocks rise for a while after a pause, such as the compilation of a pipeline.
    pub const WARM_UP: Duration = Duration::from_millis(150);
}

/// Times of a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchTiming {
    /// The kernel and its tile.
    pub product: Product,
    /// Bytes of the weights of a product.
    pub bytes: u64,
    /// Median time of a product that waits for the one before it and its barrier, in microseconds.
    pub alone_us: f64,
    /// The shortest of these.
    pub shortest_us: f64,
    /// Median over the repeats of the mean time of products without barriers between them.
    pub streamed_us: f64,
}

impl BenchTiming {
    /// Bytes of weights over the median time, in GB/s.
    pub fn alone_gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.alone_us / 1e3
    }

    /// Bytes of weights over the mean time without barriers, in GB/s.
    pub fn streamed_gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.streamed_us / 1e3
    }
}

/// Times a product on rotating buffers.
///
/// # Errors
/// [`crate::Unsupported`] for a shape without kernel, else what the device says.
pub fn bench(kernels: &Kernels, shape: &BenchShape) -> Result<BenchTiming, Error> {
    let &BenchShape { class, columns, product, .. } = shape;
    let ProductClass { format, m, k, gated } = class;
    let device = kernels.device();
    let matrix = u64::from(m) * format.device_row_bytes(k as usize) as u64;
    let bytes = if gated { 2 * matrix.next_multiple_of(16) } else { matrix };
    let count = shape.rotate_bytes.min(device.max_buffer()).div_ceil(bytes).max(1);
    let buffers = (0..count)
        .map(|_| Ok(device.alloc(MemoryKind::Device, bytes, "bench weights")?.all()))
        .collect::<Result<Vec<_>, Error>>()?;
    let x = device.alloc(MemoryKind::Device, 4 * u64::from(k) * u64::from(columns), "bench x")?.all();
    let out_bytes = 4 * u64::from(m) * u64::from(columns);
    let out = device.alloc(MemoryKind::Device, out_bytes * count, "bench out")?.all();
    fill(device, buffers.iter().chain([&x]))?;

    // Products into one place wait for each other, into several they do not. A timestamp waits as well, so products that shall overlap
    // have none, and go round often enough that the submission itself does not count.
    let commands = |apart: bool, rounds: u64| -> Result<Commands, Error> {
        let options =
            RecorderOptions { label: "bench products".into(), timestamps: !apart, ..Default::default() };
        let mut rec = device.recorder(&options)?;
        for i in 0..rounds * count {
            let i = i % count;
            let place = out.slice(if apart { i * out_bytes } else { 0 }, out_bytes)?;
            let weights = &buffers[i as usize];
            let second = weights.slice(if gated { bytes / 2 } else { 0 }, matrix)?;
            let args = Args {
                weights: Weights { slice: weights, format, m, k },
                up: gated.then_some((Gate::SwiGlu, Weights { slice: &second, format, m, k })),
                x: Mat::dense(&x, k),
                norm: None,
                columns,
                epilogue: Epilogue::default(),
                out: Mat::dense(&place, m),
            };
            record(kernels, &mut rec, "product", &args, product, None)?;
        }
        Ok(rec.finish()?)
    };
    let mut alone = times(kernels, &commands(false, 1)?, shape.warm_up, shape.repeats, count)?;
    alone.sort_by(f64::total_cmp);
    let mut streamed = times(
        kernels,
        &commands(true, STREAMED_ROUNDS)?,
        shape.warm_up / 5,
        shape.repeats,
        STREAMED_ROUNDS * count,
    )?;
    streamed.sort_by(f64::total_cmp);
    Ok(BenchTiming {
        product,
        bytes,
        alone_us: alone[alone.len() / 2],
        shortest_us: alone[0],
        streamed_us: streamed[streamed.len() / 2],
    })
}

/// Rounds over all matrices in one submission of products that overlap.
const STREAMED_ROUNDS: u64 = 8;

/// Microseconds of each product in each round after the warm-up. By the wall clock where there are no timestamps.
fn times(
    kernels: &Kernels,
    commands: &Commands,
    warm_up: Duration,
    repeats: u32,
    count: u64,
) -> Result<Vec<f64>, Error> {
    let rounds = rounds(kernels.device(), commands, warm_up, repeats)?;
    let each = |r: Round| match r.dispatches.is_empty() {
        true => vec![r.wall / count as f64],
        false => r.dispatches,
    };
    Ok(rounds.into_iter().flat_map(each).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{Chooser, select};
    use crate::{Precision, gemv};
    use zinc_quant::by_name;

    #[test]
    fn a_bench_gives_times() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let format = by_name("Q8_0").expect("a format of the list");
        let class = ProductClass { format, m: 64, k: 256, gated: false };
        for precision in [Precision::Exact, Precision::Fast] {
            let (caps, policy, cut) = (kernels.caps(), kernels.policy(), &gemv::Cut::Policy);
            let product = select(&Chooser { caps, policy, precision, cut }, &class, 1).unwrap();
            assert_eq!(product.family(), if precision == Precision::Exact { "gemv" } else { "dot" });
            let shape = BenchShape {
                class,
                columns: 1,
                product,
                rotate_bytes: 40_000,
                repeats: 2,
                warm_up: Duration::from_millis(1),
            };
            let timing = bench(&kernels, &shape).expect("a timing");
            assert_eq!(timing.bytes, 64 * format.device_row_bytes(256) as u64);
            assert!(timing.alone_us > 0.0 && timing.streamed_us > 0.0);
        }
    }
}
