//! Measuring products of experts with rows that choose at random.

use super::{Grouping, pack};
use crate::gemm::{self, ConvertArgs, Packed, convert};
use crate::gemv::{ExpertArgs, Gate, ProductClass, Up, Weights};
use crate::product::{Chooser, Product, group, record_experts, select_experts};
use crate::rounds::{fill, rounds};
use crate::{Error, Kernels, Mat, Precision, Unsupported, dot};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zinc_testkit::Rng;
use zinc_vulkan::{Commands, MemoryKind, RecorderOptions, Slice};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchShape {
    /// The product of an expert.
    pub class: ProductClass,
    /// Experts to choose from.
    pub experts: u32,
    /// Experts that a row uses.
    pub top_k: u32,
    /// Rows.
    pub rows: u32,
    /// Each slot has an input of its own, as the matrices behind an activation have.
    pub parts: bool,
}

/// A way to compute a product: how slots are grouped, and the kernel.
pub type Way = (Grouping, Product);

/// Times of a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchTiming {
    /// Products and sums.
    pub flops: f64,
    /// Bytes of the experts that the rows use.
    pub bytes: f64,
    /// Median time of the product.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
    /// Median time of the packing, which a layer's products share.
    pub pack_us: f64,
    /// Median time of the conversion of x.
    pub convert_us: f64,
}

/// The operands of a product of experts. Rows choose anew each time, so that the experts of few rows are in no cache.
pub struct Bench<'a> {
    kernels: &'a Kernels,
    shape: BenchShape,
    weights: [Slice; 2],
    x: Slice,
    packed: Slice,
    lists: Slice,
    choices: Vec<Slice>,
    /// Different experts of a choice in the mean.
    used: f64,
    out: Slice,
}

/// Choices that take turns.
const CHOICES: u32 = 24;

impl<'a> Bench<'a> {
    /// Operands in device memory.
    ///
    /// # Errors
    /// [`Unsupported`] for numbers that `pack` cannot handle, else what the device says.
    pub fn new(kernels: &'a Kernels, shape: BenchShape) -> Result<Bench<'a>, Error> {
        let BenchShape { class: ProductClass { format, m, k, gated }, experts, top_k, rows, parts } = shape;
        Grouping::of(kernels.policy(), experts, top_k, rows)?;
        let device = kernels.device();
        let alloc = |bytes: u64, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, bytes, label)?.all());
        let all = u64::from(experts) * u64::from(m) * format.device_row_bytes(k as usize) as u64;
        let first = alloc(all, "bench experts")?;
        let second = if gated { alloc(all, "bench experts")? } else { first.clone() };
        let in_rows = if parts { rows * top_k } else { rows };
        let x = alloc(4 * u64::from(k) * u64::from(in_rows), "bench x")?;
        let packed = alloc(Packed::bytes_for(in_rows, k), "bench packed")?;
        let slots = u64::from(rows) * u64::from(top_k);
        // A tile of four u32 for each slot at most, and its number.
        let lists = alloc(16 + 20 * slots, "bench lists")?;
        let out = alloc(4 * slots * u64::from(m), "bench out")?;
        fill(device, [&first, &second, &x])?;
        let mut rng = Rng::new(7);
        let (mut choices, mut used) = (Vec::new(), 0);
        for _ in 0..if rows > 64 { 3 } else { CHOICES } {
            let mut seen = vec![false; experts as usize];
            let mut data: Vec<f32> = Vec::new();
            let mut order: Vec<u32> = (0..experts).collect();
            for _ in 0..rows {
                for slot in 0..top_k as usize {
                    let other = slot + rng.below(order.len() - slot);
                    order.swap(slot, other);
                    seen[order[slot] as usize] = true;
                    data.push(order[slot] as f32);
                }
                data.extend((0..top_k).map(|_| 1.0 / top_k as f32));
            }
            used += seen.iter().filter(|&&s| s).count();
            let slice = alloc(4 * data.len() as u64, "bench choice")?;
            device.upload(&slice, bytemuck::cast_slice(&data))?;
            choices.push(slice);
        }
        let used = used as f64 / choices.len() as f64;
        Ok(Bench { kernels, shape, weights: [first, second], x, packed, lists, choices, used, out })
    }

    /// The ways that are worth measuring: the policy's own, and with `sweep` the exact one and others of the fast families.
    ///
    /// # Errors
    /// [`Unsupported`] where the policy has no way.
    pub fn ways(&self, by: &Chooser<'_>, sweep: bool) -> Result<Vec<Way>, Unsupported> {
        let BenchShape { class, experts, top_k, rows, .. } = self.shape;
        let own = |by: &Chooser<'_>| -> Result<Way, Unsupported> {
            let grouping = group(by, &[class], experts, top_k, rows)?;
            Ok((grouping, select_experts(by, &class, &grouping)?))
        };
        let mut ways = vec![own(by)?];
        if !sweep {
            return Ok(ways);
        }
        ways.extend(own(&Chooser { precision: Precision::Exact, ..*by }));
        let mean = ways[0].0.mean();
        for columns in [1, 2, 4, 8].into_iter().filter(|&c| c <= 2 * mean && by.caps.features.integer_dot) {
            let grouping = match rows {
                1 => Grouping::of(by.policy, experts, top_k, rows)?,
                _ => Grouping::tiled(columns, experts, top_k, rows)?,
            };
            if grouping.columns() == columns
                && dot::select_experts(by.caps, by.policy, &class, &grouping).is_ok()
            {
                let tiles = dot::candidates(by.policy, &class, columns);
                ways.extend(tiles.into_iter().map(|t| (grouping, Product::Dot(t))));
            }
        }
        if mean >= 4 {
            for tile in gemm::candidates(by.policy, by.caps, &class, 2 * mean) {
                ways.push((Grouping::tiled(tile.columns, experts, top_k, rows)?, Product::Gemm(tile)));
            }
        }
        let mut known = Vec::new();
        ways.retain(|way| {
            !known.contains(way) && {
                known.push(*way);
                true
            }
        });
        Ok(ways)
    }

    /// Makes the pipelines of ways, several at a time: a driver may take a second for one. What does not compile is told when it is measured.
    pub fn prepare(&self, ways: &[Way]) {
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(ways.len());
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    while let Some(way) = ways.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let _ = self.commands(*way);
                    }
                });
            }
        });
    }

    /// For each choice the packing, the conversion of x, the product, as far as they are needed.
    fn commands(&self, (grouping, product): Way) -> Result<Commands, Error> {
        let &Bench { kernels, shape: BenchShape { class, top_k, parts, .. }, .. } = self;
        let ProductClass { format, m, k, gated } = class;
        let options =
            RecorderOptions { label: "bench experts".into(), timestamps: true, ..Default::default() };
        let mut rec = kernels.device().recorder(&options)?;
        let inputs = if parts { top_k } else { 1 };
        for choice in &self.choices {
            let choice = Mat::dense(choice, 2 * top_k);
            if grouping.is_packed() {
                pack::record(
                    kernels,
                    &mut rec,
                    "pack",
                    &pack::Args { choice, grouping, lists: &self.lists },
                )?;
            }
            let mut x = Mat::dense(&self.x, inputs * k);
            if matches!(product, Product::Gemm(_)) {
                let packed = Mat::dense(&self.packed, inputs * Packed::width(k));
                let out = Packed::within(packed, grouping.rows, k)?;
                convert(kernels, &mut rec, "convert", &ConvertArgs { x, out })?;
                x = packed;
            }
            let args = ExpertArgs {
                weights: Weights { slice: &self.weights[0], format, m, k },
                up: gated.then_some((Gate::SwiGlu, Up::Apart(&self.weights[1]))),
                biases: None,
                x,
                grouping,
                choice,
                lists: &self.lists,
                out: Mat::dense(&self.out, top_k * m),
            };
            record_experts(kernels, &mut rec, "experts", &args, product)?;
        }
        Ok(rec.finish()?)
    }

    /// Times a way: `repeats` rounds over all choices, after work of `warm_up`.
    ///
    /// # Errors
    /// [`Unsupported`] for a way that is none for the product, else what the device says.
    pub fn time(&self, way: Way, repeats: u32, warm_up: Duration) -> Result<BenchTiming, Error> {
        let commands = self.commands(way)?;
        let (packs, converts) = (way.0.is_packed(), matches!(way.1, Product::Gemm(_)));
        let each = 1 + usize::from(packs) + usize::from(converts);
        let mut times: [Vec<f64>; 3] = Default::default();
        for round in rounds(self.kernels.device(), &commands, warm_up, repeats)? {
            if round.dispatches.is_empty() {
                // By the wall clock where there are no timestamps, with all that comes before.
                times[2].push(round.wall / self.choices.len() as f64);
            }
            for dispatches in round.dispatches.chunks_exact(each) {
                times[2].push(dispatches[each - 1]);
                times[1].extend(converts.then(|| dispatches[each - 2]));
                times[0].extend(packs.then_some(dispatches[0]));
            }
        }
        times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
        let median = |t: &[f64]| t.get(t.len() / 2).copied().unwrap_or(0.0);
        let ProductClass { format, m, k, gated } = self.shape.class;
        let matrices = if gated { 2.0 } else { 1.0 };
        let row_bytes = format.device_row_bytes(k as usize) as f64;
        Ok(BenchTiming {
            flops: matrices * 2.0 * f64::from(m) * f64::from(k) * f64::from(way.0.pairs()),
            bytes: matrices * self.used * f64::from(m) * row_bytes,
            median_us: median(&times[2]),
            shortest_us: times[2].first().copied().unwrap_or(0.0),
            pack_us: median(&times[0]),
            convert_us: median(&times[1]),
        })
    }
}

impl BenchTiming {
    /// TFLOP/s at the median.
    pub fn tflops(&self) -> f64 {
        self.flops / self.median_us / 1e6
    }

    /// Bytes of the used experts over the median time, in GB/s.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes / self.median_us / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemv::Cut;
    use zinc_quant::by_name;

    #[test]
    fn every_family_has_times() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let class = ProductClass { format: by_name("Q8_0").unwrap(), m: 8, k: 64, gated: true };
        let by = Chooser {
            caps: kernels.caps(),
            policy: kernels.policy(),
            precision: Precision::Fast,
            cut: &Cut::Policy,
        };
        for (rows, parts, family) in [(1, false, "dot"), (5, true, "dot"), (40, true, "gemm")] {
            let shape = BenchShape { class, experts: 4, top_k: 2, rows, parts };
            let bench = Bench::new(&kernels, shape).unwrap();
            let ways = bench.ways(&by, false).unwrap();
            assert_eq!(ways.iter().map(|w| w.1.family()).collect::<Vec<_>>(), [family]);
            let timing = bench.time(ways[0], 1, Duration::ZERO).unwrap();
            assert!(timing.median_us > 0.0 && timing.bytes > 0.0 && timing.flops > 0.0, "{timing:?}");
            assert!(bench.ways(&by, true).unwrap().len() > 5);
        }
    }
}
