//! The gated delta rule over a sequence's rows, with the state in registers from the first row to the last.

use super::{Parts, Run};
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::norm::SUBGROUP_COLUMNS;
use crate::{DeviceClass, Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "delta_net", bindings: 14, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    parts: u32,
    eps: f32,
    most: u32,
}

/// Heads of a delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Value heads.
    pub heads: u32,
    /// Key heads, of which `heads` is a multiple.
    pub key_heads: u32,
    /// Elements of a key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
    /// Value head h has key head h / (heads / key_heads), else h mod key_heads.
    pub grouped: bool,
}

/// Where the heads' decays and rates come from. Columns are an `M`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gates<M> {
    /// A column a value head.
    Apart {
        /// Of the decay.
        alpha: M,
        /// Of the rate.
        beta: M,
    },
    /// In turn `part` columns of the rates and as many of the decays.
    Mixed {
        /// Two columns a value head.
        both: M,
        /// Value heads of a part.
        part: u32,
    },
}

/// The RMS norm of each value head, and what gates it: SwiGLU's first operand. Columns are an `M`, vectors of weights a `V`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm<M, V> {
    /// As many elements as a value head.
    pub weight: V,
    /// Added to the mean of squares.
    pub eps: f32,
    /// As wide as the output.
    pub gate: M,
    /// What is normed and gated; as wide as the output, which is stored too.
    pub out: M,
}

/// Whether the scan of parts of one row can norm their heads in groups of `group` columns.
pub fn norms(shape: &Shape, group: u32) -> bool {
    group == shape.value_size && group.is_multiple_of(4) && group <= SUBGROUP_COLUMNS
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Query heads, `key_heads · key_size` columns.
    pub q: Mat<'a>,
    /// Key heads, as many columns.
    pub k: Mat<'a>,
    /// Value heads, `heads · value_size` columns.
    pub v: Mat<'a>,
    /// A column a value head each.
    pub gates: Gates<Mat<'a>>,
    /// f32 a value head.
    pub dt_bias: &'a Slice,
    /// f32 a value head.
    pub a: &'a Slice,
    /// Heads.
    pub shape: Shape,
    /// The slots' states.
    pub state: &'a Slice,
    /// The parts of the step.
    pub parts: Parts<'a>,
    /// Where each part has one row at most, and [`norms`] says so: with the bits of `gated_rms_norm`.
    pub norm: Option<Norm<Mat<'a>, &'a Slice>>,
    /// Output, as wide as `v`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

impl<'a> Args<'a> {
    /// The columns from the first alpha and from the first beta on, and how many come in turn, where all widths fit.
    pub(super) fn checked_gates(&self) -> Result<(Mat<'a>, Mat<'a>, u32), Unsupported> {
        let shape = &self.shape;
        let (keys, values) = (shape.key_heads * shape.key_size, shape.heads * shape.value_size);
        let (alpha, beta, part) = match self.gates {
            Gates::Apart { alpha, beta } => (alpha, beta, shape.heads),
            Gates::Mixed { both, part }
                if part > 0 && shape.heads.is_multiple_of(part) && both.width > part =>
            {
                let width = both.width - part;
                (Mat { offset: both.offset + part, width, ..both }, Mat { width, ..both }, part)
            }
            Gates::Mixed { both, part } => {
                return refuse("delta_net", format!("{} gates by {part} for {shape:?}", both.width));
            }
        };
        let gates = if part == shape.heads { shape.heads } else { 2 * shape.heads - part };
        let widths = [self.q.width, self.k.width, self.v.width, self.out.width, alpha.width, beta.width];
        if widths != [keys, keys, values, values, gates, gates] {
            return refuse("delta_net", format!("columns {widths:?} for {shape:?}"));
        }
        Ok((alpha, beta, part))
    }
}

/// How a head's states are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Lanes that split the keys of a value: they decide the order of sums.
    pub lanes: u32,
    /// Values of a team of lanes.
    pub columns: u32,
    /// Invocations of a workgroup.
    pub threads: u32,
}

/// Lanes that split the keys of a value, where a subgroup has as many.
const LANES: u32 = 8;
/// Most elements of a key head: a lane holds its part of two values' keys.
const KEY_SIZE: u32 = 256;

impl Cut {
    /// The one that is taken. The order of sums depends on heads and device alone.
    ///
    /// # Errors
    /// As [`select`].
    pub fn of(k: &Kernels, shape: &Shape) -> Result<Cut, Unsupported> {
        let threads = k.threads(if k.policy().class == DeviceClass::Software { 16 } else { 128 });
        Ok(Cut { lanes: select(k.subgroup_size(), shape)?, columns: 2, threads })
    }

    /// All that there are for a shape.
    pub fn all(k: &Kernels, shape: &Shape) -> Vec<Cut> {
        let powers = |most: u32| (0..).map(|i| 1 << i).take_while(move |&n| n <= most);
        let most = k.subgroup_size().min(1 << (shape.key_size / 4).trailing_zeros());
        let mut all = vec![];
        for (lanes, columns) in powers(most).flat_map(|l| powers(4).map(move |c| (l, c))) {
            // What a lane holds of the states.
            if shape.key_size / lanes * columns <= 128 {
                let threads = [32, 64, 128, 256].map(|t| k.threads(t));
                all.extend(threads.map(|threads| Cut { lanes, columns, threads }));
            }
        }
        all.dedup();
        all
    }
}

/// Lanes of a team. They decide the order of sums, so they depend on heads and device alone.
///
/// # Errors
/// [`Unsupported`] where key heads are no multiple of 4 elements, or longer than 256, or value heads no multiple of key heads.
pub fn select(subgroup_size: u32, shape: &Shape) -> Result<u32, Unsupported> {
    let &Shape { heads, key_heads, key_size, value_size, .. } = shape;
    let whole = heads > 0 && key_heads > 0 && value_size > 0 && heads.is_multiple_of(key_heads);
    let quads = key_size / 4;
    let state = u64::from(heads) * u64::from(value_size) * u64::from(key_size) * 4;
    if !whole || quads == 0 || !key_size.is_multiple_of(4) || key_size > KEY_SIZE || state > 1 << 31 {
        let heads = format!("{heads} heads of {value_size} values, {key_heads} key heads of {key_size}");
        return refuse("delta_net", format!("{heads}; keys must be a multiple of 4, at most {KEY_SIZE}"));
    }
    let most = LANES.min(subgroup_size);
    Ok(most.min(1 << quads.trailing_zeros()))
}

/// Records the scan.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    record_cut(k, rec, label, args, Cut::of(k, &args.shape)?, u32::MAX)
}

/// As [`record`], shared out otherwise, and only for parts of at most `most` rows.
pub(super) fn record_cut(
    k: &Kernels,
    rec: &mut Recorder,
    label: &str,
    args: &Args<'_>,
    Cut { lanes, columns, threads }: Cut,
    most: u32,
) -> Result<(), Error> {
    let (shape, rows) = (&args.shape, args.rows);
    let values = shape.heads * shape.value_size;
    let (alpha, beta, gate_part) = args.checked_gates()?;
    let slices = shape.value_size.div_ceil(threads / lanes * columns);
    let mut aligned = args.q.is_vec4(rows) && args.k.is_vec4(rows);
    if let Some(n) = args.norm {
        if !norms(shape, shape.value_size)
            || [n.gate.width, n.out.width] != [values, values]
            || rows > args.parts.count
        {
            return Ok(refuse("delta_net", format!("norms of {rows} rows for {shape:?}"))?);
        }
        aligned &= [args.out, n.gate, n.out].iter().all(|m| m.is_vec4(rows)) && is_vec4(n.weight);
    }
    let (q, out) = (args.q.bytes(rows)?, args.out.bytes(rows)?);
    let norm =
        args.norm.map(|n| Ok::<_, Error>((n.weight, n.gate.bytes(rows)?, n.out.bytes(rows)?))).transpose()?;
    let done = args.norm.map(|_| k.counters(args.parts.count * shape.heads)).transpose()?;
    let params = Params { parts: args.parts.count, eps: args.norm.map_or(0.0, |n| n.eps), most };
    let groups = u64::from(args.parts.count) * u64::from(shape.heads) * u64::from(slices);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[
                (0, threads),
                (1, u32::from(aligned)),
                (2, shape.key_size),
                (3, lanes),
                (4, columns),
                (5, u32::from(shape.grouped)),
                (6, shape.heads),
                (7, shape.key_heads),
                (8, shape.value_size),
                (9, slices),
                (10, gate_part),
                (11, args.q.stride),
                (12, args.k.stride),
                (13, args.v.stride),
                (14, alpha.stride),
                (15, beta.stride),
                (16, args.out.stride),
                (17, u32::from(norm.is_some())),
                (18, args.norm.map_or(0, |n| n.gate.stride)),
                (19, args.norm.map_or(0, |n| n.out.stride)),
            ],
            bindings: &[
                Binding::read(&q),
                Binding::read(&args.k.bytes(rows)?),
                Binding::read(&args.v.bytes(rows)?),
                Binding::read(&alpha.bytes(rows)?),
                Binding::read(&beta.bytes(rows)?),
                Binding::read(args.dt_bias),
                Binding::read(args.a),
                Binding::read_write(args.state),
                Binding::read(&args.parts.runs.slice(0, u64::from(args.parts.count) * Run::BYTES)?),
                Binding::read_write(&out),
                norm.as_ref().map_or(Binding::read(&q), |n| Binding::read(n.0)),
                norm.as_ref().map_or(Binding::read(&q), |n| Binding::read(&n.1)),
                norm.as_ref().map_or(Binding::read(&q), |n| Binding::write(&n.2)),
                done.as_ref().map_or(Binding::read(&q), Binding::read_write),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("delta_net", groups, 1)?,
            label,
        },
    )
}
