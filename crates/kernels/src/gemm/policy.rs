//! When products are computed in tiles, and in which: data by class of device.

use super::tile::narrow;
use super::{Matrix, Tile, matrix_of};
use crate::DeviceClass;
use zinc_vulkan::Capabilities;

/// Tuning of products in tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GemmPolicy {
    /// Fewest columns for which the fast policy takes tiles.
    pub from_columns: u32,
    /// What the device's time is worth, to choose between tiles.
    pub costs: Costs,
    /// Tiles on the device's own matrices.
    pub matrices: &'static [GemmShape],
    /// Tiles whose lanes decode their own weights, where the device's matrices lie so ([`super::lanes`]).
    pub lanes: &'static [GemmShape],
    /// Tiles where it has none.
    pub portable: &'static [GemmShape],
    /// What four matrices of results need of memory is asked for together: less waiting for more code.
    pub together: bool,
}

/// What tiles cost on a device: see [`super::cost`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Multiprocessors: what workgroups are spread over.
    pub units: u32,
    /// Bytes of shared memory of one.
    pub shared_memory: u32,
    /// 32-bit registers of one.
    pub registers: u32,
    /// Nanoseconds from the loads of a step to its products, barriers included, that a workgroup which is alone waits.
    pub latency: f64,
    /// Picoseconds of a multiprocessor for decoding a weight to shared memory.
    pub decode: f64,
    /// The same to the registers of a matrix.
    pub decode_lanes: f64,
    /// The same for a multiply-add.
    pub multiply: f64,
    /// The same for an element that a subgroup (or invocation) loads from shared memory.
    pub fragment: f64,
    /// The same for a byte from memory or the second-level cache.
    pub byte: f64,
}

/// A tile as a policy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmShape {
    /// Rows of a workgroup, both matrices' where there is a gate.
    pub rows: u32,
    /// Columns of a workgroup.
    pub columns: u32,
    /// Rows of a subgroup, or of an invocation in the portable variant; both matrices'.
    pub sub_rows: u32,
    /// Columns of it.
    pub sub_columns: u32,
    /// Elements of K in shared memory at a time.
    pub step: u32,
    /// Steps in shared memory, 1 or 2.
    pub buffers: u32,
    /// Subgroups that split the steps of a tile, as in [`Tile`](super::Tile).
    pub apart: u32,
}

impl GemmShape {
    /// A tile of so many rows and columns, and those of a subgroup or invocation.
    pub(super) const fn new(tile: (u32, u32), sub: (u32, u32), step: u32) -> GemmShape {
        let (rows, columns) = tile;
        GemmShape { rows, columns, sub_rows: sub.0, sub_columns: sub.1, step, buffers: 1, apart: 1 }
    }

    /// A tile whose steps are split by subgroups.
    pub(super) const fn apart(tile: (u32, u32), step: u32, apart: u32) -> GemmShape {
        GemmShape { apart, ..GemmShape::new(tile, tile, step) }
    }

    const fn of_lanes(tile: (u32, u32), sub: (u32, u32)) -> GemmShape {
        GemmShape { buffers: 2, ..GemmShape::new(tile, sub, 64) }
    }
}

/// Tiles of matrices for cards: for prompts a subgroup has 16 matrices of 16 × 16 sums, or fewer where that leaves the card idle; for a few rows of
/// decoding it has one or two, and longer steps keep more weights on the way.
const CARD: &[GemmShape] = &[
    GemmShape::new((128, 128), (64, 64), 64),
    GemmShape::new((64, 128), (32, 64), 64),
    GemmShape::new((128, 64), (64, 32), 64),
    GemmShape::new((64, 64), (32, 32), 64),
    GemmShape::new((32, 128), (32, 32), 64),
    GemmShape::new((32, 64), (32, 16), 64),
    GemmShape::new((128, 64), (32, 64), 128),
    GemmShape::new((64, 64), (32, 32), 128),
    GemmShape::new((128, 32), (32, 32), 128),
    GemmShape::new((64, 32), (16, 32), 128),
    GemmShape::new((64, 32), (16, 32), 64),
    GemmShape::new((32, 32), (16, 16), 64),
    GemmShape::new((128, 16), (32, 16), 128),
    GemmShape::new((64, 16), (16, 16), 128),
    GemmShape::new((64, 16), (16, 16), 64),
    GemmShape::apart((32, 16), 64, 4),
    GemmShape::apart((16, 16), 64, 8),
    GemmShape::apart((32, 8), 64, 4),
    GemmShape::apart((32, 8), 64, 8),
    GemmShape::apart((16, 8), 64, 8),
    GemmShape::apart((16, 8), 128, 4),
];

/// Tiles whose subgroups have 32 rows and all columns.
const LANES: &[GemmShape] = &[
    GemmShape::of_lanes((128, 128), (32, 128)),
    GemmShape::of_lanes((128, 64), (32, 64)),
    GemmShape::of_lanes((64, 128), (32, 128)),
];

/// Tiles of invocations: 4 × 4 sums each, or 8 × 4.
const PLAIN: &[GemmShape] = &[
    GemmShape::new((64, 64), (8, 4), 64),
    GemmShape::new((32, 64), (4, 4), 64),
    GemmShape::new((64, 16), (4, 4), 64),
];

/// Short code for software drivers, which take seconds to compile an unrolled tile.
const SMALL: &[GemmShape] = &[GemmShape::new((16, 16), (16, 16), 64)];
/// The same of invocations.
const SMALL_PLAIN: &[GemmShape] = &[GemmShape::new((16, 32), (4, 4), 64)];

/// Of an H200. Steps of a workgroup that is alone on its multiprocessor take 750 ns with 16 × 16 results a subgroup and 1,260 with 64 × 64
/// (bench/results/2026-11-30-h200-gemm-tiles.txt). Products and fragments are fitted to a sweep of tiles and parts over the products of an 8B model:
/// what is chosen takes 4 % more than the best, in the mean (bench/results/2026-11-30-h200-gemm-parts.txt).
const H200: Costs = Costs {
    units: 132,
    shared_memory: 228 << 10,
    registers: 65_536,
    latency: 700.0,
    decode: 22.0,
    decode_lanes: 8.0,
    multiply: 0.38,
    fragment: 6.0,
    byte: 27.0,
};

impl GemmPolicy {
    /// The tiles to choose from on a device.
    pub(super) fn tiles(&self, caps: &Capabilities, gated: bool) -> impl Iterator<Item = Tile> {
        let matrix = matrix_of(caps);
        let (plain, lanes) = match matrix {
            Matrix::Portable => (self.portable, [].as_slice()),
            _ => (self.matrices, self.lanes),
        };
        let plain =
            plain.iter().map(move |shape| Tile::of(shape, narrow(caps, matrix, shape.columns), gated));
        plain.chain(lanes.iter().map(move |shape| Tile::of(shape, Matrix::Lanes, gated)))
    }

    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> GemmPolicy {
        let card = GemmPolicy {
            from_columns: 33,
            costs: H200,
            matrices: CARD,
            lanes: &[],
            portable: PLAIN,
            together: true,
        };
        match class {
            // 12,288 × 4,096 in Q4_K: integer dots take 27 µs for 4 columns and 50 for 8, tiles about 30 for any up to 16
            // (bench/results/2026-11-30-h200-gemm.json, …-dot-columns.txt).
            DeviceClass::Nvidia => GemmPolicy { from_columns: 5, lanes: LANES, ..card },
            // Its instruction cache holds 32 KiB.
            DeviceClass::Amd => GemmPolicy {
                costs: Costs { units: 64, shared_memory: 64 << 10, ..H200 },
                together: false,
                ..card
            },
            DeviceClass::Other => {
                GemmPolicy { costs: Costs { units: 32, shared_memory: 64 << 10, ..H200 }, ..card }
            }
            DeviceClass::Software => GemmPolicy {
                from_columns: 17,
                costs: Costs { units: 2, latency: 0.0, ..H200 },
                matrices: SMALL,
                portable: SMALL_PLAIN,
                ..card
            },
        }
    }
}
