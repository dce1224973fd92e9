//! The `k` largest elements of each row, in order (equal ones by lower index, NaN last), with maximum and log-sum-exp of the row.

use crate::launch::{Launch, refuse};
use crate::{DeviceClass, Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "top_k", bindings: 5, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    width: u32,
    stride: u32,
    k: u32,
    parts: u32,
    sum_parts: u32,
    last: u32,
}

/// The largest possible `k`.
pub const MAX_K: u32 = 256;

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The rows.
    pub logits: Mat<'a>,
    /// How many, 1 to [`MAX_K`].
    pub k: u32,
    /// [`scratch_bytes`].
    pub scratch: &'a Slice,
    /// Output: [`row_words`] u32 a row, which [`TopK::read`] understands.
    pub out: &'a Slice,
    /// Rows, at most 65,535.
    pub rows: u32,
}

/// What the kernel found in a row.
#[derive(Debug, Clone, PartialEq)]
pub struct TopK {
    /// The largest element that is no NaN; −∞ where there is none.
    pub max: f32,
    /// log Σ exp of the row without NaN.
    pub log_sum_exp: f32,
    /// Index and element; fewer than `k` where the row is shorter. NaN is given as −∞.
    pub candidates: Vec<(u32, f32)>,
}

/// u32 of a row's result.
pub fn row_words(k: u32) -> u32 {
    2 + 2 * k
}

impl TopK {
    /// A row's result from its [`row_words`] words.
    pub fn read(words: &[u32]) -> Option<TopK> {
        let [max, log_sum_exp, pairs @ ..] = words else { return None };
        let pair = |p: &[u32; 2]| (p[0] != u32::MAX).then_some((p[0], f32::from_bits(p[1])));
        let candidates = pairs.as_chunks().0.iter().map_while(pair).collect();
        Some(TopK { max: f32::from_bits(*max), log_sum_exp: f32::from_bits(*log_sum_exp), candidates })
    }
}

/// Candidates that a workgroup sorts, and its threads.
fn part(k: &Kernels) -> (u32, u32) {
    match k.policy().class {
        DeviceClass::Software => (1024, 64),
        _ => (1024, 512),
    }
}

/// Where the lists lie in scratch: two of them, taken in turn, and the sums; offset and bytes of each, and the end.
fn layout(part: u32, width: u32, k: u32, rows: u32) -> [u64; 4] {
    let list = |width: u32| {
        let parts = width.div_ceil(part);
        (u64::from(rows) * u64::from(parts) * u64::from(k) * 8, parts * k)
    };
    let (first, candidates) = list(width);
    let (second, _) = list(candidates);
    let sums = u64::from(rows) * u64::from(width.div_ceil(part)) * 8;
    [0, first, first + second, first + second + sums]
}

/// Bytes of scratch for rows of `width` columns.
pub fn scratch_bytes(kernels: &Kernels, width: u32, k: u32, rows: u32) -> u64 {
    layout(part(kernels).0, width, k, rows)[3]
}

/// Records the stages.
///
/// # Errors
/// A `k` outside 1 to [`MAX_K`], no columns, too many rows, buffers too short, what the device says.
pub fn record(kernels: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { logits, k, scratch, out, rows } = args;
    if !(1..=MAX_K).contains(&k) || logits.width == 0 || rows > 65_535 {
        return Ok(refuse(
            "top_k",
            format!("{k} of {} columns, {rows} rows; k is 1 to {MAX_K}", logits.width),
        )?);
    }
    let (part, threads) = part(kernels);
    let [a, b, sums, end] = layout(part, logits.width, k, rows);
    let lists = [scratch.slice(a, b - a)?, scratch.slice(b, sums - b)?];
    let sums = scratch.slice(sums, end - sums)?;
    let out = out.slice(0, u64::from(rows) * u64::from(row_words(k)) * 4)?;
    let rows_bytes = logits.bytes(rows)?;
    let sum_parts = logits.width.div_ceil(part);
    let mut width = logits.width;
    for stage in 0.. {
        let parts = width.div_ceil(part);
        let params =
            Params { width, stride: logits.stride, k, parts, sum_parts, last: u32::from(parts == 1) };
        // The first stage reads no list; it writes list 0, the next reads it and writes list 1, and so on.
        let (from, to) = (&lists[(stage + 1) % 2], &lists[stage % 2]);
        let sums = if stage == 0 { Binding::write(&sums) } else { Binding::read(&sums) };
        kernels.launch(
            rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("SOURCE", if stage == 0 { "row" } else { "lists" })],
                specialization: &[(0, kernels.threads(threads)), (1, part)],
                bindings: &[
                    Binding::read(&rows_bytes),
                    Binding::read(from),
                    Binding::write(to),
                    sums,
                    Binding::write(&out),
                ],
                params: bytemuck::bytes_of(&params),
                groups: [parts, rows, 1],
                label,
            },
        )?;
        if parts == 1 {
            break;
        }
        width = parts * k;
    }
    Ok(())
}
