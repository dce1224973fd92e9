//! All that happens between the q, k, v products and attention, in one dispatch: query heads are taken from between their gates and normed
//! (where there are any), turned and written; key heads are normed, turned and stored in the cache; value heads are stored in the cache, and normed
//! before that where a model norms them.
//!
//! Bit-identical to `slice`, `rms_norm` by head, `rope` and `kv_write` one after another.

use super::Rotation;
use crate::kv::KvCache;
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::{Error, Kernel, Kernels, Mat, RowInfo};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

const OP: &str = "qk_norm_rope_kv";

pub(super) const KERNEL: Kernel = Kernel { stem: OP, bindings: 11, params_bytes: size_of::<Params>() as u32 };

/// Packed, because the addresses leave 40 bytes.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    q_stride: u32,
    k_stride: u32,
    v_stride: u32,
    out_stride: u32,
    /// Query heads, KV heads << 16.
    heads: u32,
    /// Key size, value size << 16.
    sizes: u32,
    /// Rotated pairs, pairing << 16, norms << 17, gates << 18, norms of values << 19.
    rotation: u32,
    max_pages: u32,
    eps: f32,
}

/// The head norms. A weight is a `W`: the compiler's name, or memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadNorms<W> {
    /// `key_size` f32 elements for the query heads.
    pub q: W,
    /// `key_size` f32 elements for the key heads.
    pub k: W,
    /// Whether value heads are normed too, without weights.
    pub values: bool,
    /// Added to the mean of squares.
    pub eps: f32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Query heads, `heads · key_size` columns, or twice as many where gates lie between them.
    pub q: Mat<'a>,
    /// Each query head is followed by its gate, as wide.
    pub gated: bool,
    /// Key heads.
    pub k: Mat<'a>,
    /// Value heads.
    pub v: Mat<'a>,
    /// Norms of the heads.
    pub norms: Option<HeadNorms<&'a Slice>>,
    /// How query and key heads turn.
    pub rotation: Rotation<'a>,
    /// Where keys and values go.
    pub cache: KvCache<'a>,
    /// A [`RowInfo`] a row.
    pub row_info: &'a Slice,
    /// Output: the query heads.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the operation.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let (cache, rows, size) = (&args.cache, args.rows, args.cache.key_size);
    cache.check(OP)?;
    args.rotation.check(OP, args.out.width, size, rows)?;
    let heads = args.out.width / size;
    let fits = u64::from(args.out.width) * if args.gated { 2 } else { 1 } == u64::from(args.q.width)
        && args.k.width == cache.kv_heads * size
        && args.v.width == cache.kv_heads * cache.value_size
        && cache.kv_heads <= 0xffff;
    if !fits {
        let [q, k, v, out] = [args.q, args.k, args.v, args.out].map(|m| m.width);
        let reason = format!("{q}, {k} and {v} columns to {out}, {} KV heads of {size}", cache.kv_heads);
        return Ok(refuse(OP, reason)?);
    }
    let params = Params {
        rows,
        q_stride: args.q.stride,
        k_stride: args.k.stride,
        v_stride: args.v.stride,
        out_stride: args.out.stride,
        heads: heads | cache.kv_heads << 16,
        sizes: size | cache.value_size << 16,
        rotation: args.rotation.rotated_pairs
            | args.rotation.pairing_number() << 16
            | u32::from(args.norms.is_some()) << 17
            | u32::from(args.gated) << 18
            | u32::from(args.norms.is_some_and(|n| n.values)) << 19,
        max_pages: cache.max_pages,
        eps: args.norms.map_or(0.0, |n| n.eps),
    };
    // The same loads as the separate norm's.
    let aligned = args.q.is_vec4(rows)
        && args.k.is_vec4(rows)
        && args.v.is_vec4(rows)
        && args.norms.is_none_or(|n| is_vec4(n.q) && is_vec4(n.k));
    let [q, key, v, out] =
        [args.q.bytes(rows)?, args.k.bytes(rows)?, args.v.bytes(rows)?, args.out.bytes(rows)?];
    let threads = k.threads(128);
    let teams = u64::from(rows) * u64::from(heads + 2 * cache.kv_heads);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("KV", cache.kind.name())],
            specialization: &[(0, threads), (1, u32::from(aligned))],
            bindings: &[
                Binding::read(&q),
                Binding::read(&key),
                Binding::read(&v),
                Binding::read(args.norms.map_or(&q, |n| n.q)),
                Binding::read(args.norms.map_or(&q, |n| n.k)),
                Binding::read(args.rotation.table),
                Binding::read(&args.row_info.slice(0, u64::from(rows) * RowInfo::BYTES)?),
                Binding::read(cache.pages),
                Binding::write(cache.k),
                Binding::write(cache.v),
                Binding::write(&out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over(OP, teams, threads / k.subgroup_size())?,
            label,
        },
    )
}
