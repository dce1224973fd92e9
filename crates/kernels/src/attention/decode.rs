//! Attention from the projections on, of rows that each are the last of a sequence: `qk_norm_rope_kv`, `attention` and the `sigmoid_gate` of its results,
//! where there is one, in one dispatch, with the bits of all one after the other.

use super::attention::{Args, Extent, pass, spread};
use super::policy::{AttentionPolicy, Shape, Split};
use crate::launch::{Launch, is_vec4, refuse};
use crate::rope::Rotation;
use crate::rope::qk_norm_rope_kv::HeadNorms;
use crate::{Error, Kernel, Kernels, Mat, RowInfo, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Access, Binding, Capabilities, Recorder, Slice};

const OP: &str = "decode_attention";

pub(super) const KERNEL: Kernel = Kernel { stem: OP, bindings: 13, params_bytes: size_of::<Params>() as u32 };

/// Packed, because the addresses leave 24 bytes.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    /// Of q, and of k << 16.
    strides_qk: u32,
    /// Of v, and of the output << 16.
    strides_vo: u32,
    max_pages: u32,
    window: u32,
    scale: f32,
    softcap: f32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct DecodeArgs<'a> {
    /// Attention, where `q` are the query heads as they come from the projection; each row is the only one of its sequence, and its position
    /// is not in the cache yet.
    pub attention: Args<'a>,
    /// Each query head of `q` is followed by its gate, as wide: the head's result is multiplied with the gate's sigmoid.
    pub gated: bool,
    /// Key heads.
    pub k: Mat<'a>,
    /// Value heads.
    pub v: Mat<'a>,
    /// Norms of the heads.
    pub norms: Option<HeadNorms<&'a Slice>>,
    /// How query and key heads turn.
    pub rotation: Rotation<'a>,
}

/// What happens to heads before and after attention.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// Pairs of a head that turn.
    pub pairs: u32,
    /// Query and key heads are normed.
    pub norms: bool,
    /// Value heads are normed.
    pub value_norms: bool,
    /// Results are gated.
    pub gated: bool,
}

/// Whether it can be done in one dispatch; `strides` are those of queries, keys, values and results.
///
/// # Errors
/// As [`Split::of`]; strides above 65,535; gates that are not as wide as results; norms of heads whose size is no power of two, which a compiler that knows
/// the size may divide by in another way.
pub fn supports(
    policy: &AttentionPolicy,
    subgroup_size: u32,
    caps: &Capabilities,
    shape: &Shape,
    around: Around,
    strides: [u32; 4],
) -> Result<(), Unsupported> {
    Split::of(policy, subgroup_size, caps, shape)?;
    crate::rope::supports(OP, shape.heads * shape.key_size, shape.key_size, around.pairs, 1)?;
    if strides.iter().any(|&s| s > 0xffff) {
        return refuse(OP, format!("rows of {strides:?} elements"));
    }
    let normed = [(around.norms, shape.key_size), (around.value_norms, shape.value_size)];
    if let Some((_, size)) = normed.iter().find(|(norms, size)| *norms && !size.is_power_of_two()) {
        return refuse(OP, format!("norms of heads of {size}"));
    }
    if around.gated && shape.key_size != shape.value_size {
        return refuse(OP, format!("gates of {} for heads of {}", shape.key_size, shape.value_size));
    }
    Ok(())
}

/// Records the kernel as the policy cuts it.
///
/// # Errors
/// As [`supports`]; widths that do not fit, scratch for less than a row, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &DecodeArgs<'_>) -> Result<(), Error> {
    let shape = args.attention.shape();
    let policy = &k.policy().attention;
    let split = Split::of(policy, k.subgroup_size(), k.caps(), &shape)?;
    record_split(k, rec, label, args, &spread(split, policy, &args.attention))
}

/// As [`record`], with a given cut.
pub(super) fn record_split(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &DecodeArgs<'_>,
    split: &Split,
) -> Result<(), Error> {
    let (a, policy, shape) = (&args.attention, &k.policy().attention, args.attention.shape());
    let (q, out, cache) = (a.q, a.out, &a.cache);
    cache.check(OP)?;
    let strides = [q.stride, args.k.stride, args.v.stride, out.stride];
    let around = Around {
        pairs: args.rotation.rotated_pairs,
        norms: args.norms.is_some(),
        value_norms: args.norms.is_some_and(|n| n.values),
        gated: args.gated,
    };
    supports(policy, k.subgroup_size(), k.caps(), &shape, around, strides)?;
    let heads = if args.gated { 2 * a.heads } else { a.heads };
    let widths = [heads * cache.key_size, shape.kv_heads * cache.key_size];
    let value_widths = [shape.kv_heads * cache.value_size, a.heads * cache.value_size];
    if [q.width, args.k.width] != widths || [args.v.width, out.width] != value_widths {
        let reason = format!("{:?} columns", [q, args.k, args.v, out].map(|m| m.width));
        return Ok(refuse(OP, reason)?);
    }
    let extent = Extent::of(split.key_block, a.max_keys, a.window);
    let pass = pass(a, split, &extent)?;
    for first in (0..a.rows).step_by(pass as usize) {
        record_rows(k, rec, label, args, (split, &extent), first, pass.min(a.rows - first))?;
    }
    Ok(())
}

fn record_rows(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &DecodeArgs<'_>,
    (split, extent): (&Split, &Extent),
    first: u32,
    rows: u32,
) -> Result<(), Error> {
    let (a, rotation) = (&args.attention, &args.rotation);
    let cache = &a.cache;
    let row_info = a.row_info.slice(u64::from(first) * RowInfo::BYTES, u64::from(rows) * RowInfo::BYTES)?;
    let params = Params {
        strides_qk: a.q.stride | args.k.stride << 16,
        strides_vo: args.v.stride | a.out.stride << 16,
        max_pages: cache.max_pages,
        window: a.window.unwrap_or(0),
        scale: a.scale,
        softcap: a.softcap.unwrap_or(0.0),
    };
    // The same loads as the separate norm's.
    let aligned = [a.q, args.k, args.v].iter().all(|m| m.is_vec4(a.rows))
        && args.norms.is_none_or(|n| is_vec4(n.q) && is_vec4(n.k));
    let [q, key, v] = [a.q.rows(first, rows)?, args.k.rows(first, rows)?, args.v.rows(first, rows)?];
    let mut specialization = split.specialization(&a.shape()).to_vec();
    specialization.extend([
        (1, u32::from(aligned)),
        (10, rotation.rotated_pairs),
        (11, rotation.pairing_number()),
        (12, u32::from(args.norms.is_some())),
        (13, args.norms.map_or(0.0f32, |n| n.eps).to_bits()),
        (14, u32::from(a.sinks.is_some())),
        (15, k.subgroup_size()),
        (17, u32::from(args.norms.is_some_and(|n| n.values))),
        (18, u32::from(args.gated)),
    ]);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &specialization,
            bindings: &[
                Binding::read(&q),
                Binding::read(&key),
                Binding::read(&v),
                Binding::read(args.norms.map_or(&q, |n| n.q)),
                Binding::read(args.norms.map_or(&q, |n| n.k)),
                Binding::read(rotation.table),
                Binding { slice: cache.k, access: Access::ReadWrite },
                Binding { slice: cache.v, access: Access::ReadWrite },
                Binding::read(&row_info),
                Binding::read(cache.pages),
                Binding::read(a.sinks.unwrap_or(&row_info)),
                Binding { slice: a.scratch, access: Access::ReadWrite },
                Binding::write(&a.out.rows(first, rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [extent.groups(split), cache.kv_heads * split.splits, rows],
            label,
        },
    )
}
