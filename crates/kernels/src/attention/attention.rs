//! `softmax(scale · q·k, soft-capped, causal, within the window) · v`.

use super::policy::{Shape, Split, Variant, select};
use super::{matrix, tiled};
use crate::kv::KvCache;
use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels, Mat, Precision, RowInfo, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "attention", bindings: 6, params_bytes: size_of::<Params>() as u32 };
pub(super) const COMBINE: Kernel =
    Kernel { stem: "attention_combine", bindings: 4, params_bytes: size_of::<CombineParams>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    q_stride: u32,
    kv_heads: u32,
    group: u32,
    max_pages: u32,
    max_blocks: u32,
    window: u32,
    scale: f32,
    softcap: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineParams {
    heads: u32,
    max_blocks: u32,
    window: u32,
    out_stride: u32,
    has_sinks: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Query heads, `heads · key_size` columns.
    pub q: Mat<'a>,
    /// Keys and values; those of the rows themselves are in it already.
    pub cache: KvCache<'a>,
    /// Query heads; head h reads KV head h / (heads / kv_heads).
    pub heads: u32,
    /// Factor of the scores.
    pub scale: f32,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Key j is visible to position i iff i − j < window.
    pub window: Option<u32>,
    /// A logit a query head (f32) that takes part in maximum and denominator.
    pub sinks: Option<&'a Slice>,
    /// A [`RowInfo`] a row.
    pub row_info: &'a Slice,
    /// Every row's position is below this, now and whenever the commands are submitted again.
    pub max_keys: u32,
    /// [`scratch_bytes`] for all rows, or for some: then they are computed in several passes. Tiles need none.
    pub scratch: &'a Slice,
    /// Output, `heads · value_size` columns.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
    /// How many rows of a sequence lie side by side, about. Does not change exact results.
    pub run: u32,
    /// Which arithmetic is allowed.
    pub precision: Precision,
}

/// Values of a block's result, then maximum, sum and padding (`PART_EXTRA` of the shaders).
const PART_EXTRA: u32 = 4;

/// The most blocks that a row sees.
fn max_blocks(key_block: u32, max_keys: u32, window: Option<u32>) -> u32 {
    let all = max_keys.max(1).div_ceil(key_block);
    window.map_or(all, |w| all.min((w.max(1) - 1).div_ceil(key_block) + 1))
}

/// Scratch bytes that a row needs where it is computed for itself; `rows` rows at once need `rows` times as much.
///
/// # Errors
/// As [`select`].
pub fn scratch_bytes(
    k: &Kernels,
    shape: &Shape,
    max_keys: u32,
    window: Option<u32>,
) -> Result<u64, Unsupported> {
    let split = Split::of(&k.policy().attention, k.subgroup_size(), k.caps(), shape)?;
    Ok(row_bytes(shape, max_blocks(split.key_block, max_keys, window)))
}

/// Scratch of a row that sees at most so many blocks.
fn row_bytes(shape: &Shape, max_blocks: u32) -> u64 {
    u64::from(shape.heads) * u64::from(max_blocks) * u64::from(shape.value_size + PART_EXTRA) * 4
}

/// Records the kernels of the variant that the policy chooses.
///
/// # Errors
/// Shapes without a variant, widths that do not fit, scratch for less than a row, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let policy = &k.policy().attention;
    let variant = select(policy, args.precision, k.subgroup_size(), k.caps(), &args.shape(), args.run)?;
    record_variant(k, rec, label, args, &variant)
}

/// As [`record`], with a given variant.
pub(super) fn record_variant(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    variant: &Variant,
) -> Result<(), Error> {
    let (cache, heads) = (&args.cache, args.heads);
    cache.check("attention")?;
    if args.q.width != heads * cache.key_size || args.out.width != heads * cache.value_size {
        let reason = format!("{heads} heads of {} and {} columns", args.q.width, args.out.width);
        return Ok(refuse("attention", reason)?);
    }
    match variant {
        Variant::Split(split) => record_split(k, rec, label, args, split),
        Variant::Tiled(tile) => tiled::record(k, rec, label, args, tile),
        Variant::Matrix(tile) => matrix::record(k, rec, label, args, tile),
    }
}

impl Args<'_> {
    pub(super) fn shape(&self) -> Shape {
        let cache = &self.cache;
        let (key_size, value_size) = (cache.key_size, cache.value_size);
        Shape { heads: self.heads, kv_heads: cache.kv_heads, key_size, value_size }
    }
}

fn record_split(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    split: &Split,
) -> Result<(), Error> {
    let row_bytes = row_bytes(&args.shape(), max_blocks(split.key_block, args.max_keys, args.window));
    // Elements of scratch are numbered in 32 bits.
    let pass = (args.scratch.len().min(u64::from(u32::MAX) * 4) / row_bytes).min(65_535) as u32;
    if pass == 0 || !args.scratch.address().is_multiple_of(16) {
        let reason =
            format!("{} bytes of scratch, a row needs {row_bytes} at a multiple of 16", args.scratch.len());
        return Ok(refuse("attention", reason)?);
    }
    for first in (0..args.rows).step_by(pass as usize) {
        record_rows(k, rec, label, args, split, first, pass.min(args.rows - first))?;
    }
    Ok(())
}

/// Rows `first .. first + rows`, for which there is scratch.
fn record_rows(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    variant: &Split,
    first: u32,
    rows: u32,
) -> Result<(), Error> {
    let cache = &args.cache;
    let max_blocks = max_blocks(variant.key_block, args.max_keys, args.window);
    let window = args.window.unwrap_or(0);
    let row_info =
        args.row_info.slice(u64::from(first) * RowInfo::BYTES, u64::from(rows) * RowInfo::BYTES)?;
    let params = Params {
        q_stride: args.q.stride,
        kv_heads: cache.kv_heads,
        group: args.shape().group(),
        max_pages: cache.max_pages,
        max_blocks,
        window,
        scale: args.scale,
        softcap: args.softcap.unwrap_or(0.0),
    };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &[
                (0, variant.threads),
                (1, cache.key_size),
                (2, cache.value_size),
                (3, variant.heads),
                (4, variant.key_block),
                (5, variant.value_part),
            ],
            bindings: &[
                Binding::read(&args.q.rows(first, rows)?),
                Binding::read(cache.k),
                Binding::read(cache.v),
                Binding::read(&row_info),
                Binding::read(cache.pages),
                Binding::write(args.scratch),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [max_blocks, cache.kv_heads * variant.splits, rows],
            label,
        },
    )?;
    let params = CombineParams {
        heads: args.heads,
        max_blocks,
        window,
        out_stride: args.out.stride,
        has_sinks: u32::from(args.sinks.is_some()),
    };
    k.launch(
        rec,
        &Launch {
            kernel: &COMBINE,
            variant: &[],
            specialization: &[(0, variant.combine_threads), (1, cache.value_size), (2, variant.key_block)],
            bindings: &[
                Binding::read(args.scratch),
                Binding::read(&row_info),
                Binding::read(args.sinks.unwrap_or(&row_info)),
                Binding::write(&args.out.rows(first, rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [args.heads, rows, 1],
            label,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::max_blocks;

    #[test]
    fn a_window_touches_as_many_blocks_as_its_worst_position() {
        for key_block in [16, 32, 64] {
            for window in 1..200u32 {
                let worst = (0..1000u32)
                    .map(|i| i / key_block - (i + 1).saturating_sub(window) / key_block + 1)
                    .max()
                    .unwrap_or(0);
                assert_eq!(max_blocks(key_block, 1000, Some(window)), worst, "{key_block} {window}");
            }
            assert_eq!(max_blocks(key_block, key_block + 1, None), 2);
        }
    }
}
