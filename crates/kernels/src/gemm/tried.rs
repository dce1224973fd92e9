//! Tiles that are worth measuring.

use super::policy::GemmShape;
use super::tile::{in_parts, narrow};
use super::{Matrix, Tile, cost, fits_experts, matrix_of};
use crate::gemv::ProductClass;
use crate::moe::Grouping;
use crate::product::Chooser;
use crate::{DeviceClass, Policy};
use zinc_vulkan::Capabilities;

/// Rows and columns of a workgroup and of a subgroup, on matrices.
const MATRICES: [((u32, u32), (u32, u32)); 21] = [
    ((128, 256), (64, 64)),
    ((256, 128), (64, 64)),
    ((128, 128), (64, 64)),
    ((128, 128), (64, 32)),
    ((64, 256), (64, 64)),
    ((64, 128), (32, 64)),
    ((64, 128), (64, 32)),
    ((256, 64), (64, 64)),
    ((128, 64), (64, 32)),
    ((128, 64), (32, 64)),
    ((64, 64), (32, 32)),
    ((32, 128), (32, 32)),
    ((32, 64), (32, 16)),
    ((128, 32), (32, 32)),
    ((64, 32), (32, 16)),
    ((64, 32), (16, 32)),
    ((32, 32), (16, 16)),
    ((256, 16), (32, 16)),
    ((128, 16), (32, 16)),
    ((128, 16), (16, 16)),
    ((64, 16), (16, 16)),
];

/// Rows and columns of a tile whose steps are split by subgroups.
const APART: [(u32, u32); 5] = [(16, 8), (32, 8), (64, 8), (16, 16), (32, 16)];

/// The same of invocations.
const PORTABLE: [((u32, u32), (u32, u32)); 6] = [
    ((64, 64), (8, 4)),
    ((64, 64), (8, 8)),
    ((64, 64), (4, 4)),
    ((32, 64), (4, 4)),
    ((64, 32), (4, 4)),
    ((64, 16), (4, 4)),
];

/// Workgroups for each multiprocessor that parts of K are tried for.
const CROWDS: [u64; 5] = [1, 2, 4, 8, 16];

/// The tiles worth measuring for a product with `columns` columns that fit the device: on its matrices where it has any, else the portable ones.
pub fn candidates(policy: &Policy, caps: &Capabilities, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let matrix = matrix_of(caps);
    let list = if matrix == Matrix::Portable { PORTABLE.as_slice() } else { &MATRICES };
    // Long steps are for tiles of few results, which wait for memory.
    let steps = |columns: u32| [64, 128, 256].into_iter().filter(move |&step| step == 64 || columns <= 64);
    let tiles = list.iter().flat_map(|&(tile, sub)| {
        steps(tile.1).map(move |step| Tile::of(&GemmShape::new(tile, sub, step), matrix, class.gated))
    });
    let apart = APART.iter().filter(|_| matrix != Matrix::Portable).flat_map(|&tile| {
        let matrix = narrow(caps, matrix, tile.1);
        let of = move |step, n| Tile::of(&GemmShape::apart(tile, step, n), matrix, class.gated);
        [64, 128, 256].into_iter().flat_map(move |step| [2, 4, 8].map(|n| of(step, n)))
    });
    let tiles = tiles.chain(policy.gemm.tiles(caps, class.gated).filter(|t| t.matrix == Matrix::Lanes));
    // Neither mostly empty nor decoding the weights too often.
    let sensible = |t: &Tile| {
        t.columns < 2 * columns.next_multiple_of(16)
            && columns.div_ceil(t.columns) <= if t.columns < 64 { 4 } else { 32 }
            && (t.step == 64 || columns <= 64)
    };
    let fits = |t: &Tile| {
        t.check(caps, policy.subgroup_size, class.format, class.gated).is_ok() && t.steps(class.k).is_some()
    };
    tiles
        .chain(apart)
        .filter(sensible)
        .filter(fits)
        .flat_map(|tile| crowds(policy, tile, class, columns))
        .collect()
}

/// As many of [`candidates`], those that take least time by the policy's figures.
pub fn likely(
    policy: &Policy,
    caps: &Capabilities,
    class: &ProductClass,
    columns: u32,
    count: usize,
) -> Vec<Tile> {
    let mut all = candidates(policy, caps, class, columns);
    all.sort_by(|a, b| {
        let cost = |tile| cost::nanoseconds(policy, class, columns, tile);
        cost(a).total_cmp(&cost(b))
    });
    all.truncate(count);
    all
}

/// The tiles worth measuring for slots of experts that are grouped so: as wide as the groups.
pub fn expert_tiles(by: &Chooser<'_>, class: &ProductClass, g: &Grouping) -> Vec<Tile> {
    let matrix = matrix_of(by.caps);
    // A software driver takes longer to compile them than to run the policy's.
    let list = match by.policy.class {
        DeviceClass::Software => &[],
        _ if matrix == Matrix::Portable => PORTABLE.as_slice(),
        _ => &MATRICES,
    };
    let wide = list.iter().filter(|(tile, _)| tile.1 == g.columns());
    let tried = wide.flat_map(|&(tile, sub)| [64, 128].map(|step| GemmShape::new(tile, sub, step)));
    let tried = tried.map(|shape| Tile::of(&shape, matrix, class.gated));
    let mut tiles: Vec<Tile> = Vec::new();
    for tile in by.policy.gemm.tiles(by.caps, class.gated).chain(tried) {
        if fits_experts(by, class, g, &tile) && !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Whether a tile that was measured is one of a product.
pub fn fits(caps: &Capabilities, policy: &Policy, class: &ProductClass, columns: u32, tile: &Tile) -> bool {
    (tile.matrix == narrow(caps, matrix_of(caps), tile.columns)
        || policy.gemm.tiles(caps, class.gated).any(|t| t.matrix == tile.matrix))
        && tile.check(caps, policy.subgroup_size, class.format, class.gated).is_ok()
        && tile.steps(class.k).is_some()
        && in_parts(Tile { parts: 1, ..*tile }, class, columns).any(|t| t == *tile)
}

/// A tile in the parts that give the device about so many workgroups each.
fn crowds(policy: &Policy, tile: Tile, class: &ProductClass, columns: u32) -> Vec<Tile> {
    let all: Vec<Tile> = in_parts(tile, class, columns).collect();
    let tiles = tile.tiles(class.m, columns);
    let mut found: Vec<Tile> = Vec::new();
    for crowd in CROWDS {
        let wanted = crowd * u64::from(policy.gemm.costs.units);
        let nearest = all.iter().min_by_key(|t| (tiles * u64::from(t.parts)).abs_diff(wanted));
        found.extend(nearest.filter(|t| !found.contains(t)));
    }
    found
}
