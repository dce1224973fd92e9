//! The gated delta rule in chunks of rows: most of it becomes products of small matrices, and only chunks depend on each other.
//!
//! [`record`] is two dispatches, and a third for short parts where a step can have several: what of a chunk does not depend on the states
//! (`delta_prepare.comp`, all chunks at once), then chunk after chunk (`delta_chunks.comp`). The sums have another order than
//! [`delta_net`](super::delta_net)'s, so it is for the fast policy.

use super::delta_net::{self, Args, Shape};
use super::{Parts, Run};
use crate::launch::{Launch, groups_over, refuse, threads};
use crate::{DeviceClass, Error, Kernel, Kernels, Policy, Precision};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Capabilities, Recorder, Slice};

pub(super) const PREPARE: Kernel =
    Kernel { stem: "delta_prepare", bindings: 10, params_bytes: size_of::<Params>() as u32 };
pub(super) const KERNEL: Kernel =
    Kernel { stem: "delta_chunks", bindings: 5, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    parts: u32,
    most: u32,
}

/// Rows of a chunk.
pub const CHUNK: u32 = 64;
/// Heads have a multiple of so many keys and of values.
const PART: u32 = 32;
/// Most keys and values of a head together: what fits in shared memory.
const WIDTH: u32 = 256;

/// How both kernels use shared memory. It does not change sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Rows of a factor that the first half has in shared memory.
    pub stage: u32,
    /// Values of a workgroup of the second half.
    pub slice: u32,
}

impl Cut {
    /// All that there are for heads on a device, what is taken first: the larger.
    pub fn all(k: &Kernels, shape: &Shape) -> Vec<Cut> {
        cuts(k.policy(), k.caps(), shape)
    }

    /// Bytes of the kernel that needs more.
    fn shared_bytes(self, shape: &Shape) -> u32 {
        let stage =
            (2 * CHUNK * (self.stage / 2 + 1)).max(self.stage * (shape.key_size + shape.value_size) / 4);
        let prepare = CHUNK * (CHUNK / 4 + 1) + stage + 5 * CHUNK / 4;
        let chunks = (shape.key_size + CHUNK) * self.slice / 4 + (2 * CHUNK * 9).max(8 * shape.key_size);
        16 * prepare.max(chunks)
    }
}

/// Tuning of the scan of a delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanPolicy {
    /// Fewest rows of a part that are done in chunks, where the order of sums may differ.
    pub chunked_rows: u32,
}

impl ScanPolicy {
    /// The policy of a class of devices.
    pub fn of(class: DeviceClass) -> ScanPolicy {
        let chunked_rows = match class {
            // An H200 takes 60 us for 128 rows one by one and 64 in chunks, 227 and 190 for 512 (bench/results/2026-11-30-h200-scan.txt).
            DeviceClass::Nvidia => 192,
            // Its compiler leaves 3 waves of the kernels of chunks, 6 of the one of rows (docs/rdna4.md).
            DeviceClass::Amd => u32::MAX,
            DeviceClass::Other | DeviceClass::Software => 96,
        };
        ScanPolicy { chunked_rows }
    }
}

/// Whether a step of so many rows does its long parts in chunks.
pub fn supports(
    policy: &Policy,
    precision: Precision,
    caps: &Capabilities,
    shape: &Shape,
    rows: u32,
) -> bool {
    precision == Precision::Fast && rows >= policy.scan.chunked_rows && !cuts(policy, caps, shape).is_empty()
}

/// How the kernels can be cut, where there are any for the heads.
fn cuts(policy: &Policy, caps: &Capabilities, shape: &Shape) -> Vec<Cut> {
    let &Shape { key_size, value_size, .. } = shape;
    let sizes = [key_size, value_size];
    let whole = sizes.iter().all(|&n| n > 0 && n.is_multiple_of(PART))
        && key_size + value_size <= WIDTH
        && delta_net::select(policy.subgroup_size, shape).is_ok();
    let invocations = threads(caps, policy.subgroup_size, WIDTH);
    let enough = invocations.is_power_of_two() && (CHUNK..=WIDTH).contains(&invocations);
    let fits = |cut: &Cut| whole && enough && cut.shared_bytes(shape) <= caps.limits.shared_memory;
    [Cut { stage: 16, slice: 32 }, Cut { stage: 8, slice: 16 }].into_iter().filter(fits).collect()
}

/// Rows of the longest part that is left to the scan of single rows, in a step of so many parts: none where there is one
/// sequence.
fn most(policy: &Policy, parts: u32) -> u32 {
    // One sequence, and rows that only fill up the step.
    if parts <= 2 { 0 } else { policy.scan.chunked_rows - 1 }
}

/// Chunks that parts of more than `most` rows can have in a step.
pub(super) fn chunks(parts: u32, most: u32, rows: u32) -> u32 {
    rows / CHUNK + parts.min(rows / (most + 1))
}

/// Bytes that [`record`] needs beside its operands, however many parts a step of so many rows has.
pub fn work_bytes(policy: &Policy, shape: &Shape, rows: u32) -> u64 {
    let several = chunks(u32::MAX, most(policy, u32::MAX), rows);
    bytes(shape, chunks(2, most(policy, 2), rows).max(several))
}

/// What the first half leaves to the second.
pub(super) fn bytes(shape: &Shape, chunks: u32) -> u64 {
    let floats = CHUNK * (2 * shape.key_size + shape.value_size) + CHUNK + 4;
    4 * u64::from(floats) * u64::from(shape.heads) * u64::from(chunks)
}

/// Records the scan in memory of [`work_bytes`].
///
/// # Errors
/// Widths that do not fit, a norm, buffers too short, what the device says.
pub fn record(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    work: &Slice,
) -> Result<(), Error> {
    let Some(&cut) = Cut::all(k, &args.shape).first() else {
        return Ok(refuse("delta_net", format!("{:?} in chunks", args.shape))?);
    };
    record_above(k, rec, label, args, work, most(k.policy(), args.parts.count), cut)
}

/// As [`record`], parts of more than `most` rows in chunks; with 0 all, and those that only fill up the step.
pub(super) fn record_above(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    work: &Slice,
    most: u32,
    cut: Cut,
) -> Result<(), Error> {
    in_chunks(k, rec, label, args, work, most, cut)?;
    if most > 0 {
        delta_net::record_cut(k, rec, label, args, delta_net::Cut::of(k, &args.shape)?, most)?;
    }
    Ok(())
}

/// The parts of more than `most` rows.
fn in_chunks(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    work: &Slice,
    most: u32,
    Cut { stage, slice }: Cut,
) -> Result<(), Error> {
    let (shape, rows) = (&args.shape, args.rows);
    let Parts { runs, count: parts, .. } = args.parts;
    if args.norm.is_some() {
        return Ok(refuse("delta_net", "heads are not normed in chunks")?);
    }
    let (alpha, beta, gate_part) = args.checked_gates()?;
    let (q, keys, v) = (args.q.bytes(rows)?, args.k.bytes(rows)?, args.v.bytes(rows)?);
    let (out, runs) = (args.out.bytes(rows)?, runs.slice(0, u64::from(parts) * Run::BYTES)?);
    let chunks = chunks(parts, most, rows);
    let work = work.slice(0, bytes(shape, chunks))?;
    let aligned = [args.q, args.k, args.v, args.out].iter().all(|m| m.is_vec4(rows));
    let params = Params { parts, most };
    let common = [
        (1, u32::from(aligned)),
        (2, shape.key_size),
        (3, shape.value_size),
        (4, shape.heads),
        (5, shape.key_heads),
        (6, u32::from(shape.grouped)),
        (7, args.k.stride),
        (8, args.out.stride),
    ];
    let own = [
        (9, args.q.stride),
        (10, args.v.stride),
        (11, alpha.stride),
        (12, beta.stride),
        (13, gate_part),
        (14, stage),
        (0, k.threads(WIDTH)),
    ];
    let groups = |items: u32| groups_over("delta_net", u64::from(items) * u64::from(shape.heads), 1);
    k.launch(
        rec,
        &Launch {
            kernel: &PREPARE,
            variant: &[],
            specialization: &[&common[..], &own].concat(),
            bindings: &[
                Binding::read(&q),
                Binding::read(&keys),
                Binding::read(&v),
                Binding::read(&alpha.bytes(rows)?),
                Binding::read(&beta.bytes(rows)?),
                Binding::read(args.dt_bias),
                Binding::read(args.a),
                Binding::read(&runs),
                Binding::read_write(&work),
                Binding::write(&out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups(chunks)?,
            label,
        },
    )?;
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[&common[..], &[(9, slice), (0, k.threads(8 * slice))]].concat(),
            bindings: &[
                Binding::read(&keys),
                Binding::read_write(args.state),
                Binding::read(&runs),
                Binding::read(&work),
                Binding::read_write(&out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups(parts * (shape.value_size / slice))?,
            label,
        },
    )
}
