//! `softmax(scale · q·k, soft-capped, causal, within the window) · v`.

use super::policy::{AttentionPolicy, Shape, Split, Variant, select};
use super::{lanes, matrix, tiled};
use crate::kv::KvCache;
use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels, Mat, Precision, RowInfo, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Access, Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "attention", bindings: 8, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    q_stride: u32,
    out_stride: u32,
    max_pages: u32,
    window: u32,
    scale: f32,
    softcap: f32,
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
    /// [`COUNTER_BYTES`] that are 0 whenever no kernel runs, then [`scratch_bytes`] for all rows, or for some: then they are computed in several
    /// passes. Tiles need none.
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

/// Bytes at the start of scratch that count workgroups. Kernels leave them 0, as they were before.
pub const COUNTER_BYTES: u64 = 1 << 20;

/// Blocks of a span (`SPAN` of the shaders).
const SPAN: u32 = 8;

/// Elements of a part after its values: exponent, sum, padding.
const PART_EXTRA: u32 = 4;

/// The blocks and spans of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The most blocks that a row sees.
    pub blocks: u32,
    /// The most spans that they lie in.
    spans: u32,
}

impl Extent {
    pub(super) fn of(key_block: u32, max_keys: u32, window: Option<u32>) -> Extent {
        let all = max_keys.max(1).div_ceil(key_block);
        let blocks = window.map_or(all, |w| all.min((w.max(1) - 1).div_ceil(key_block) + 1));
        Extent { blocks, spans: (blocks + SPAN - 2) / SPAN + 1 }
    }

    /// Workgroups of a row for each share of its heads.
    pub(super) fn groups(&self, split: &Split) -> u32 {
        if split.whole_spans { self.spans } else { self.blocks }
    }

    /// Bytes of a row's parts.
    fn row_bytes(&self, shape: &Shape) -> u64 {
        let parts = u64::from(shape.heads) * u64::from(self.blocks + self.spans);
        parts * u64::from(shape.value_size + PART_EXTRA) * 4
    }

    /// Bytes of a row's counters, where so many workgroups side by side share its heads.
    fn counter_bytes(&self, workgroups: u32) -> u64 {
        u64::from(workgroups) * u64::from(1 + self.spans) * 4
    }
}

/// Scratch bytes that a row needs where it is computed for itself, behind [`COUNTER_BYTES`]; `rows` rows at once need `rows` times as much.
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
    Ok(Extent::of(split.key_block, max_keys, window).row_bytes(shape))
}

/// Records the kernels of the variant that the policy chooses.
///
/// # Errors
/// Shapes without a variant, widths that do not fit, scratch for less than a row, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let policy = &k.policy().attention;
    let variant = select(policy, args.precision, k.subgroup_size(), k.caps(), &args.shape(), args.run)?;
    match variant {
        Variant::Split(split) => {
            record_variant(k, rec, label, args, &Variant::Split(spread(split, policy, args)))
        }
        variant => record_variant(k, rec, label, args, &variant),
    }
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
        Variant::Lanes(tile) => lanes::record(k, rec, label, args, tile),
    }
}

impl Args<'_> {
    pub(super) fn shape(&self) -> Shape {
        let cache = &self.cache;
        let (key_size, value_size) = (cache.key_size, cache.value_size);
        Shape { heads: self.heads, kv_heads: cache.kv_heads, key_size, value_size }
    }
}

/// A cut for as many blocks as rows and keys have. Where there are more than keep the device busy, a workgroup takes a span of them; where there are few,
/// it takes half the heads.
pub(super) fn spread(split: Split, policy: &AttentionPolicy, args: &Args<'_>) -> Split {
    let extent = Extent::of(split.key_block, args.max_keys, args.window);
    let groups = u64::from(extent.blocks * args.cache.kv_heads * split.splits) * u64::from(args.rows);
    if groups > u64::from(policy.busy_groups) {
        return Split { whole_spans: split.value_part == args.cache.value_size, ..split };
    }
    if groups > u64::from(policy.busy_groups / 4) || split.heads == 1 {
        return split;
    }
    let (heads, splits) = args.shape().shares(split.heads.div_ceil(2));
    Split { heads, splits, ..split }
}

/// How many rows are computed at once.
pub(super) fn pass(args: &Args<'_>, split: &Split, extent: &Extent) -> Result<u32, Unsupported> {
    let workgroups = args.cache.kv_heads * split.splits;
    let row_bytes = extent.row_bytes(&args.shape());
    // Elements of scratch are numbered in 32 bits, four at a time.
    let parts =
        args.scratch.len().saturating_sub(COUNTER_BYTES).min(u64::from(u32::MAX) * 16 - COUNTER_BYTES);
    let pass = (parts / row_bytes).min(COUNTER_BYTES / extent.counter_bytes(workgroups)).min(65_535) as u32;
    if pass == 0 || !args.scratch.address().is_multiple_of(16) {
        let len = args.scratch.len();
        return refuse(
            "attention",
            format!(
                "{len} bytes of scratch, a row needs {row_bytes} behind {COUNTER_BYTES} at a multiple of 16"
            ),
        );
    }
    Ok(pass)
}

fn record_split(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    split: &Split,
) -> Result<(), Error> {
    let extent = Extent::of(split.key_block, args.max_keys, args.window);
    let pass = pass(args, split, &extent)?;
    for first in (0..args.rows).step_by(pass as usize) {
        record_rows(k, rec, label, args, (split, &extent), first, pass.min(args.rows - first))?;
    }
    Ok(())
}

/// Rows `first .. first + rows`, for which there is scratch.
fn record_rows(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    (split, extent): (&Split, &Extent),
    first: u32,
    rows: u32,
) -> Result<(), Error> {
    let cache = &args.cache;
    let row_info =
        args.row_info.slice(u64::from(first) * RowInfo::BYTES, u64::from(rows) * RowInfo::BYTES)?;
    let params = Params {
        q_stride: args.q.stride,
        out_stride: args.out.stride,
        max_pages: cache.max_pages,
        window: args.window.unwrap_or(0),
        scale: args.scale,
        softcap: args.softcap.unwrap_or(0.0),
        has_sinks: u32::from(args.sinks.is_some()),
    };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &split.specialization(&args.shape()),
            bindings: &[
                Binding::read(&args.q.rows(first, rows)?),
                Binding::read(cache.k),
                Binding::read(cache.v),
                Binding::read(&row_info),
                Binding::read(cache.pages),
                Binding::read(args.sinks.unwrap_or(&row_info)),
                Binding { slice: args.scratch, access: Access::ReadWrite },
                Binding::write(&args.out.rows(first, rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [extent.groups(split), cache.kv_heads * split.splits, rows],
            label,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::{Extent, SPAN};

    #[test]
    fn a_window_touches_as_many_blocks_as_its_worst_position() {
        for key_block in [16, 32, 64] {
            for window in 1..200u32 {
                let worst = (0..1000u32)
                    .map(|i| i / key_block - (i + 1).saturating_sub(window) / key_block + 1)
                    .max()
                    .unwrap_or(0);
                let extent = Extent::of(key_block, 1000, Some(window));
                assert_eq!(extent.blocks, worst, "{key_block} {window}");
                let spans = (0..SPAN).map(|first| (first + worst - 1) / SPAN + 1).max();
                assert_eq!(Some(extent.spans), spans, "{key_block} {window}");
            }
            assert_eq!(Extent::of(key_block, key_block + 1, None).blocks, 2);
        }
    }
}
