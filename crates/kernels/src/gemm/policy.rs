//! When products are computed in tiles, and in which: data by class of device.

use super::Matrix;
use crate::DeviceClass;

/// Tuning of products in tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmPolicy {
    /// Fewest columns for which the fast policy takes tiles.
    pub from_columns: u32,
    /// Workgroups that the device runs side by side.
    pub workgroups: u32,
    /// Tiles on the device's own matrices.
    pub matrices: &'static [GemmShape],
    /// Tiles where it has none.
    pub portable: &'static [GemmShape],
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
    /// Steps in shared memory, 1 or 2.
    pub buffers: u32,
    /// Its speed on a busy device, relative to the others of the list.
    pub rate: u32,
}

impl GemmShape {
    const fn new(tile: (u32, u32), sub: (u32, u32), buffers: u32, rate: u32) -> GemmShape {
        GemmShape { rows: tile.0, columns: tile.1, sub_rows: sub.0, sub_columns: sub.1, buffers, rate }
    }
}

/// Tiles of matrices for cards: a subgroup has 16 matrices of 16 × 16 sums, or fewer where that leaves the card idle.
const CARD: &[GemmShape] = &[
    GemmShape::new((128, 128), (64, 64), 1, 100),
    GemmShape::new((64, 128), (32, 64), 1, 85),
    GemmShape::new((128, 64), (64, 32), 1, 85),
    GemmShape::new((64, 64), (32, 32), 1, 70),
    GemmShape::new((32, 128), (32, 32), 1, 60),
    GemmShape::new((32, 64), (32, 16), 1, 50),
    GemmShape::new((64, 32), (32, 16), 1, 50),
    GemmShape::new((32, 32), (16, 16), 1, 35),
    GemmShape::new((64, 16), (16, 16), 1, 30),
];

/// Tiles of invocations: 4 × 4 sums each, or 8 × 4.
const PLAIN: &[GemmShape] = &[
    GemmShape::new((64, 64), (8, 4), 1, 100),
    GemmShape::new((32, 64), (4, 4), 1, 80),
    GemmShape::new((64, 16), (4, 4), 1, 60),
];

/// Short code for software drivers, which take seconds to compile an unrolled tile.
const SMALL: &[GemmShape] = &[GemmShape::new((16, 16), (16, 16), 1, 100)];
/// The same of invocations.
const SMALL_PLAIN: &[GemmShape] = &[GemmShape::new((16, 32), (4, 4), 1, 100)];

impl GemmPolicy {
    /// Tiles for who multiplies.
    pub(super) fn shapes(&self, matrix: Matrix) -> &'static [GemmShape] {
        if matrix == Matrix::Portable { self.portable } else { self.matrices }
    }

    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> GemmPolicy {
        match class {
            DeviceClass::Nvidia => {
                GemmPolicy { from_columns: 12, workgroups: 132, matrices: CARD, portable: PLAIN }
            }
            DeviceClass::Amd => {
                GemmPolicy { from_columns: 33, workgroups: 64, matrices: CARD, portable: PLAIN }
            }
            DeviceClass::Other => {
                GemmPolicy { from_columns: 33, workgroups: 32, matrices: CARD, portable: PLAIN }
            }
            DeviceClass::Software => {
                GemmPolicy { from_columns: 17, workgroups: 2, matrices: SMALL, portable: SMALL_PLAIN }
            }
        }
    }
}
