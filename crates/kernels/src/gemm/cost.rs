//! What a product costs in a tile: the time of the multiprocessor that has the most workgroups.
//!
//! Workgroups are spread over the device's multiprocessors, which run as many at a time as their registers, shared memory and invocations allow. A
//! workgroup that is alone waits in every step for its loads and barriers, however little it multiplies, and so do a few of them beside each
//! other, at the same time; many keep the multiprocessor busy, and their work adds up. So a round of c workgroups takes the longer of c times the
//! work of one, and the time of one that is alone. More parts of K mean more workgroups of fewer steps, and sums to write and read again.

use super::policy::Costs;
use super::{Matrix, Tile};
use crate::Policy;
use crate::gemv::ProductClass;

/// Invocations of a multiprocessor.
const INVOCATIONS: u32 = 1536;
/// Registers of an invocation beside sums, fragments and what is on the way to shared memory.
const OWN_REGISTERS: u32 = 48;
/// More of them where lanes decode: codes of this step and the next, scales, addresses of rows.
const LANES_REGISTERS: u32 = 48;
/// Waits of a split tile: for its sums to be written, for the counter, for the sums of all parts.
const SPLIT_WAITS: f64 = 3.0;

/// Nanoseconds of a product with so many columns, by the policy's figures.
pub(super) fn nanoseconds(policy: &Policy, class: &ProductClass, columns: u32, tile: &Tile) -> f64 {
    of_groups(policy, class, tile, tile.tiles(class.m, columns) * u64::from(tile.parts))
}

/// The same, of so many workgroups.
pub(super) fn of_groups(policy: &Policy, class: &ProductClass, tile: &Tile, groups: u64) -> f64 {
    let costs = &policy.gemm.costs;
    let of_unit = groups.div_ceil(u64::from(costs.units));
    let at_once = u64::from(resident(policy, class.gated, tile));
    let busy = step(policy, class, tile);
    // Half of a lone workgroup's work overlaps with its waiting.
    let alone = costs.latency + busy / 2.0;
    let steps = f64::from(class.k.div_ceil(tile.step).div_ceil(tile.parts * tile.apart));
    // The first step, and the way out of the last one: sums of four bytes, twice for each part where there are parts.
    let (waits, sums) = if tile.parts > 1 { (2.0 + SPLIT_WAITS, 4.0) } else { (2.0, 1.0) };
    // The first subgroup waits for the others and adds up their sums.
    let waits = if tile.apart > 1 { waits + 1.0 } else { waits };
    let results = matrices(class) * f64::from(tile.rows * tile.columns) * 4.0 * sums * costs.byte / 1e3;
    let round = |groups: u64| match groups as f64 {
        0.0 => 0.0,
        groups => (groups * busy).max(alone) * steps + groups * results + waits * costs.latency,
    };
    (of_unit / at_once) as f64 * round(at_once) + round(of_unit % at_once)
}

/// Nanoseconds of a busy multiprocessor for a step of a workgroup, or one of each subgroup where they split the steps.
pub(super) fn step(policy: &Policy, class: &ProductClass, tile: &Tile) -> f64 {
    let costs = &policy.gemm.costs;
    let rows = matrices(class) * f64::from(tile.rows);
    let columns = f64::from(tile.columns);
    let unit = matrices(class) * f64::from(tile.sub_rows) + f64::from(tile.sub_columns);
    let (decode, unit) = match tile.matrix {
        Matrix::Lanes => (costs.decode_lanes, f64::from(tile.sub_columns)),
        _ => (costs.decode, unit),
    };
    let fragments = f64::from(tile.units()) * unit;
    let compute = rows * decode + rows * columns * costs.multiply + fragments * costs.fragment;
    let weight = class.format.block_bytes as f64 / class.format.block_elems as f64;
    let bytes = (rows * weight + 2.0 * columns) * costs.byte;
    compute.max(bytes) * f64::from(tile.step * tile.apart) / 1e3
}

fn matrices(class: &ProductClass) -> f64 {
    if class.gated { 2.0 } else { 1.0 }
}

/// Workgroups that a multiprocessor runs at a time.
fn resident(policy: &Policy, gated: bool, tile: &Tile) -> u32 {
    let Costs { shared_memory, registers, .. } = policy.gemm.costs;
    let matrices = if gated { 2 } else { 1 };
    let lanes = policy.subgroup_size.max(1);
    let threads = tile.threads(lanes);
    let sums = matrices * tile.sub_rows * tile.sub_columns;
    let (sums, fragments) = match tile.matrix {
        Matrix::Portable => (sums, 4 * (matrices * tile.sub_rows + 1)),
        _ => {
            let [m, n, k] = tile.matrix.dimensions();
            let (rows, columns) = (matrices * tile.sub_rows / m.max(1), tile.sub_columns / n.max(1));
            (sums / lanes, (rows.max(columns) + 1) * m.max(n) * k / 2 / lanes)
        }
    };
    // Codes and scales of 64 weights take about 10 registers, 8 elements of x 4.
    let staged = (matrices * tile.rows * tile.step / 64).div_ceil(threads) * 10
        + (tile.columns * tile.step / 8).div_ceil(threads) * 4;
    let own = OWN_REGISTERS + if tile.matrix == Matrix::Lanes { LANES_REGISTERS } else { 0 };
    let each = (sums + fragments + staged + own).min(255).next_multiple_of(8) * threads;
    let shared = tile.shared_bytes(gated) + 1024;
    (registers / each).min(shared_memory / shared).min(INVOCATIONS / threads).max(1)
}
