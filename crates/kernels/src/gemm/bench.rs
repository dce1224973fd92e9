//! Measuring products in tiles on weights that no cache holds.

use super::gemm_op::prepare;
use super::{Args, ConvertArgs, Packed, Tile, convert, record};
use crate::gemv::{Epilogue, Gate, ProductClass, Weights};
use crate::rounds::{fill, rounds};
use crate::{Error, Kernels, Mat};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zinc_vulkan::{MemoryKind, RecorderOptions, Slice};

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

/// The operands of a product, to be multiplied with any tile: distinct matrices of more bytes than any cache has, used in turn.
pub struct Bench<'a> {
    kernels: &'a Kernels,
    class: ProductClass,
    columns: u32,
    weights: Vec<Slice>,
    /// Bytes of a matrix, of which a gated product has two.
    matrix: u64,
    x: Slice,
    packed: Slice,
    out: Slice,
    partials: RefCell<Option<Slice>>,
}

impl<'a> Bench<'a> {
    /// Clocks rise for a while after a pause, such as the compilation of a pipeline.
    pub const WARM_UP: Duration = Duration::from_millis(50);

    /// Operands of `class` with so many columns; the matrices have `rotate_bytes` together.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(
        kernels: &'a Kernels,
        class: ProductClass,
        columns: u32,
        rotate_bytes: u64,
    ) -> Result<Bench<'a>, Error> {
        let ProductClass { format, m, k, gated } = class;
        let device = kernels.device();
        let matrix = (u64::from(m) * format.device_row_bytes(k as usize) as u64).next_multiple_of(16);
        let bytes = if gated { 2 * matrix } else { matrix };
        let count = rotate_bytes.min(device.max_buffer()).div_ceil(bytes).max(1);
        let alloc = |bytes: u64, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, bytes, label)?.all());
        let weights = (0..count).map(|_| alloc(bytes, "bench weights")).collect::<Result<Vec<_>, Error>>()?;
        let x = alloc(4 * u64::from(k) * u64::from(columns), "bench x")?;
        let packed = alloc(Packed::bytes_for(columns, k), "bench packed")?;
        let out = alloc(4 * u64::from(m) * u64::from(columns), "bench out")?;
        fill(device, weights.iter().chain([&x]))?;
        let partials = RefCell::new(None);
        Ok(Bench { kernels, class, columns, weights, matrix, x, packed, out, partials })
    }

    /// Makes the pipelines of tiles for so many columns, several at a time: a driver may take a second for one. What does not compile is told when it is measured.
    pub fn prepare(kernels: &Kernels, class: &ProductClass, tiles: &[(u32, Tile)]) {
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tiles.len());
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    while let Some((columns, tile)) = tiles.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let _ = prepare(kernels, class, *columns, tile);
                    }
                });
            }
        });
    }

    /// Memory for the sums of a tile's parts; kept for the next tile.
    fn partials(&self, tile: &Tile) -> Result<Option<Slice>, Error> {
        let bytes = tile.partial_bytes(self.class.m, self.columns, self.class.gated);
        let mut kept = self.partials.borrow_mut();
        if bytes > kept.as_ref().map_or(0, Slice::len) {
            *kept = Some(self.kernels.device().alloc(MemoryKind::Device, bytes, "bench partials")?.all());
        }
        Ok(kept.clone().filter(|_| bytes > 0))
    }

    /// Times the product with a tile, each after a conversion of its columns: `repeats` rounds over all matrices, after work of `warm_up`.
    ///
    /// # Errors
    /// [`crate::Unsupported`] for a tile that is none for the product, else what the device says.
    pub fn time(&self, tile: &Tile, repeats: u32, warm_up: Duration) -> Result<BenchTiming, Error> {
        let &Bench { kernels, class, columns, matrix, .. } = self;
        let ProductClass { format, m, k, gated } = class;
        let options = RecorderOptions { label: "bench gemm".into(), timestamps: true, ..Default::default() };
        let mut rec = kernels.device().recorder(&options)?;
        let partials = self.partials(tile)?;
        let packed = Packed { slice: &self.packed, offset: 0, rows: columns, k };
        for weights in &self.weights {
            let x = Mat::dense(&self.x, k);
            convert(kernels, &mut rec, "convert", &ConvertArgs { x, out: packed })?;
            let second = weights.slice(if gated { matrix } else { 0 }, matrix)?;
            let args = Args {
                weights: Weights { slice: weights, format, m, k },
                up: gated.then_some((Gate::SwiGlu, Weights { slice: &second, format, m, k })),
                x: packed,
                epilogue: Epilogue::default(),
                out: Mat::dense(&self.out, m),
                partials: partials.as_ref(),
            };
            record(kernels, &mut rec, "gemm", &args, tile)?;
        }
        let commands = rec.finish()?;
        let (mut converts, mut products) = (Vec::new(), Vec::new());
        for round in rounds(kernels.device(), &commands, warm_up, repeats)? {
            match round.dispatches.is_empty() {
                // By the wall clock where there are no timestamps, conversions and all.
                true => products.push(round.wall / self.weights.len() as f64),
                false => {
                    let (even, odd) =
                        round.dispatches.as_chunks::<2>().0.iter().map(|&[c, p]| (c, p)).unzip();
                    converts.extend::<Vec<f64>>(even);
                    products.extend::<Vec<f64>>(odd);
                }
            }
        }
        converts.sort_by(f64::total_cmp);
        products.sort_by(f64::total_cmp);
        let matrices = if gated { 2.0 } else { 1.0 };
        Ok(BenchTiming {
            tile: *tile,
            flops: matrices * 2.0 * f64::from(m) * f64::from(k) * f64::from(columns),
            median_us: products[products.len() / 2],
            shortest_us: products[0],
            convert_us: converts.get(converts.len() / 2).copied().unwrap_or(0.0),
        })
    }
}
