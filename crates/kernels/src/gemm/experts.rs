//! Products of slots with the matrices of the experts that rows have chosen.
//!
//! # Budget
//!
//! Qwen3.5-35B-A3B takes 8 of 256 experts, of 3 matrices of 512 × 2,048. 2,048 rows are 16,384 slots, 64 an expert in the mean: 1.03 · 10¹¹
//! multiplications and additions a layer, 0.41 ms at 250 TFLOP/s. All its experts' weights in Q4_K are 453 MB, 0.1 ms; rows in f16 8 MB, which the cache
//! holds however often they are gathered; activations in f32 and f16 and results 34, 17 and 134 MB.
//!
//! An expert of n slots has ⌈n / C⌉ tiles of C columns, half a tile of them empty in the mean; each decodes the expert's weights again. Decoding all of a
//! layer's takes 8.1 · 10⁸ elements at 5 instructions, 0.14 ms of an H200's 3 · 10¹³ a second. So with 64 slots an expert tiles of 128 columns
//! multiply 1.7 times of what is asked for and decode once, those of 64 1.5 times and 1.5 times, those of 32 1.25 and 2.5 times, at a rate that falls
//! with the tile: 64 it is, with as many rows as there are tiles for.

use super::gemm_op::{Operands, Params, specialization};
use super::{Packed, Tile, cost};
use crate::gemv::{ExpertArgs, ProductClass, Weights, check_experts};
use crate::launch::refuse;
use crate::moe::Grouping;
use crate::product::Chooser;
use crate::{Error, Kernels, Unsupported};
use zinc_vulkan::Recorder;

/// Tiles of an expert in the mean: half of the last one is empty.
fn tiles(slots: u32, columns: u32) -> f64 {
    (f64::from(slots) / f64::from(columns) + 0.5).max(1.0)
}

/// How slots are grouped for these products: in the width that costs the device least by the policy's figures.
///
/// # Errors
/// [`Unsupported`] where not all of them can be computed in tiles.
pub fn group(
    by: &Chooser<'_>,
    classes: &[ProductClass],
    experts: u32,
    top_k: u32,
    rows: u32,
) -> Result<Grouping, Unsupported> {
    let mean = (rows * top_k).div_ceil(experts);
    // What a row of an expert's matrix costs a busy device in tiles of some width.
    let cost = |columns: u32| {
        let of_class = |class: &ProductClass| {
            let wide = by.policy.gemm.tiles(by.caps, class.gated).filter(|t| t.columns == columns);
            let of_row = |tile: Tile| cost::step(by.policy, class, &tile) / f64::from(tile.rows * tile.step);
            wide.map(of_row).fold(f64::INFINITY, f64::min)
        };
        tiles(mean, columns) * classes.iter().map(of_class).sum::<f64>()
    };
    let all = |columns: u32| -> Result<Grouping, Unsupported> {
        let grouping = Grouping::tiled(columns, experts, top_k, rows)?;
        classes.iter().try_for_each(|class| select_experts(by, class, &grouping).map(drop))?;
        Ok(grouping)
    };
    let mut widths: Vec<u32> =
        by.policy.gemm.tiles(by.caps, false).filter(|t| t.apart == 1).map(|tile| tile.columns).collect();
    widths.sort_unstable();
    widths.dedup();
    widths.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)));
    let mut refused = Unsupported { op: "expert_linear", format: None, reason: "no tiles at all".into() };
    for columns in widths {
        match all(columns) {
            Ok(grouping) => return Ok(grouping),
            Err(e) => refused = e,
        }
    }
    Err(refused)
}

/// The tile for a product of slots that are grouped so.
///
/// # Errors
/// As [`select`](super::select), and where no tile is as wide as the groups.
pub fn select_experts(by: &Chooser<'_>, class: &ProductClass, g: &Grouping) -> Result<Tile, Unsupported> {
    let &ProductClass { format, m, k, gated } = class;
    let fail = |reason: String| Err(Unsupported { op: "expert_linear", format: Some(format.name), reason });
    if m == 0 || k == 0 || !(k as usize).is_multiple_of(format.block_elems) {
        return fail(format!("a product of {m}×{k}"));
    }
    let groups = tiles(g.mean(), g.columns()) * f64::from(g.used());
    let cost = |tile: &Tile| {
        cost::of_groups(by.policy, class, tile, (groups * f64::from(m.div_ceil(tile.rows))) as u64)
    };
    let tiles = by.policy.gemm.tiles(by.caps, gated).filter(|t| t.columns == g.columns() && t.apart == 1);
    let fits = |tile: &Tile| {
        tile.check_experts(by.caps, by.policy.subgroup_size, format, gated).is_ok() && tile.steps(k).is_some()
    };
    match tiles.filter(fits).min_by(|a, b| cost(a).total_cmp(&cost(b))) {
        Some(tile) => Ok(tile),
        None => fail(format!("no tile of {} columns fits this device", g.columns())),
    }
}

/// Whether a tile that was measured is one of a product of slots that are grouped so.
pub fn fits_experts(by: &Chooser<'_>, class: &ProductClass, g: &Grouping, tile: &Tile) -> bool {
    by.policy.gemm.tiles(by.caps, class.gated).any(|t| t.matrix == tile.matrix)
        && g.is_packed()
        && (tile.columns, tile.parts, tile.apart) == (g.columns(), 1, 1)
        && tile.check_experts(by.caps, by.policy.subgroup_size, class.format, class.gated).is_ok()
        && tile.steps(class.k).is_some()
}

/// Records a product of slots. Its x is what [`convert`](super::convert) made of the rows, or of their parts.
///
/// # Errors
/// [`Unsupported`] where shapes do not belong together or the tile does not fit the device; else what the recorder says.
pub fn record_experts(
    kernels: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &ExpertArgs<'_>,
    tile: &Tile,
) -> Result<(), Error> {
    let (g, Weights { format, k, .. }, m) = (args.grouping, args.weights, args.m());
    let class = ProductClass { format, m, k, gated: args.up.is_some() };
    if let Err(reason) = tile.check_experts(kernels.caps(), kernels.subgroup_size(), format, class.gated) {
        return Err(Unsupported { op: "expert_linear", format: Some(format.name), reason }.into());
    }
    let packed = Packed::within(args.x, g.rows, k)?;
    check_experts(args, [g.rows, g.pairs()].contains(&packed.rows) && g.is_packed(), tile.columns)?;
    let (x, scales) = packed.parts()?;
    if !x.address().is_multiple_of(16) {
        return Ok(refuse("expert_linear", "packed rows that do not begin at a multiple of 16 bytes")?);
    }
    let (weight, up) = args.matrices()?;
    let (bias, up_bias) = args.bias_slices()?;
    let pitch = Packed::pitch(k) / 8;
    let apart = packed.rows != g.rows;
    let params = Params {
        m,
        k,
        row_bytes: format.device_row_bytes(k as usize) as u32,
        x_stride: if apart { g.top_k * pitch } else { pitch },
        columns: g.pairs(),
        residual_stride: 0,
        result_stride: args.out.stride,
        slots: g.top_k,
        x_step: if apart { pitch } else { 0 },
        expert_bytes: args.expert_bytes()?,
        choice_at: g.pairs_at(),
        x_pitch: pitch,
    };
    let gate = args.up.map(|(gate, _)| gate);
    let mut specialization = specialization(kernels, tile, bias.is_some(), false, gate);
    specialization.extend([(16, 2), (17, tile.columns)]);
    let lists = Some(args.lists.slice(0, g.list_bytes())?);
    let out = args.out.bytes(g.rows)?;
    let operands = Operands { weight, up, x, scales, bias, second: up_bias, lists, out, split: None };
    let groups = [1, m.div_ceil(tile.rows), g.batches()];
    operands.launch(kernels, rec, label, (format, tile), &specialization, (&params, groups))
}
