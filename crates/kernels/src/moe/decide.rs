//! All that decides over a single row's experts in one dispatch: norm, router, shared expert's gate, choice.
//!
//! The normed row has the bits of `rms_norm`. Logits are sums in f32 in an order of their own, so this is for the fast policy: under the exact one a
//! row alone must choose as it does among others.

use crate::launch::{Launch, is_vec4, refuse};
use crate::norm::Team;
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_plan::RouteOrder;
use zinc_vulkan::{Binding, Recorder, Slice};

const OP: &str = "decide";

pub(super) const KERNEL: Kernel = Kernel { stem: OP, bindings: 10, params_bytes: size_of::<Params>() as u32 };

/// Columns of the row at most: they lie in registers.
const COLUMNS: u32 = 4096;
/// Logits of a workgroup at most, whose weights lie in registers.
const MOST_LOGITS: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    experts: u32,
    top_k: u32,
    over_all: u32,
    eps: f32,
}

/// The gate of a shared expert.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// f32, as many elements as the row has.
    pub weight: &'a Slice,
    /// Output, one column: its logit.
    pub logit: Mat<'a>,
}

/// Operands; matrices have one row.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// What is normed.
    pub x: Mat<'a>,
    /// The norm's weight, f32.
    pub norm: &'a Slice,
    /// Added to the mean of squares.
    pub eps: f32,
    /// Output, as wide as `x`: the normed row.
    pub normed: Mat<'a>,
    /// f32, a row an expert.
    pub router: &'a Slice,
    /// f32, an element an expert: added to the logits.
    pub bias: Option<&'a Slice>,
    /// Output, a column an expert.
    pub logits: Mat<'a>,
    /// Where there is a shared expert with a gate.
    pub gate: Option<Gate<'a>>,
    /// What the weights are parts of.
    pub order: RouteOrder,
    /// Output, `2 · top_k` columns.
    pub choice: Mat<'a>,
}

/// Whether there is a kernel for rows of so many columns and so many experts, on a device with subgroups of so many lanes.
///
/// # Errors
/// [`Unsupported`] for rows that are too long, or no whole quads.
pub fn supports(lanes: u32, columns: u32, experts: u32) -> Result<(), Unsupported> {
    if columns == 0 || columns > COLUMNS || !columns.is_multiple_of(4) || experts == 0 || experts > 32 * lanes
    {
        return refuse(OP, format!("{experts} experts for rows of {columns} columns"));
    }
    Ok(())
}

/// Records it.
///
/// # Errors
/// As [`supports`]; widths that do not fit, columns that are not aligned, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, norm, eps, normed, router, bias, logits, gate, order, choice } = args;
    let (columns, experts, top_k) = (x.width, logits.width, choice.width / 2);
    supports(k.subgroup_size(), columns, experts)?;
    let fits = normed.width == columns && choice.width == 2 * top_k && (1..=experts).contains(&top_k);
    if !fits || gate.is_some_and(|g| g.logit.width != 1) {
        let reason = format!("{columns} columns to {}, {experts} experts to {}", normed.width, choice.width);
        return Ok(refuse(OP, reason)?);
    }
    let vectors = [Some(norm), Some(router), gate.map(|g| g.weight)];
    if !x.is_vec4(1) || !normed.is_vec4(1) || !vectors.into_iter().flatten().all(is_vec4) {
        return Ok(refuse(OP, "columns or weights that do not begin at a multiple of 16 bytes")?);
    }
    // As the norm of a group that a workgroup takes, or wider: then the sums' order is that of more lanes.
    let threads = Team::workgroup(k, columns);
    let (lanes, quads) = (k.subgroup_size(), columns / 4);
    let row = 4 * u64::from(columns);
    let router = router.slice(0, row * u64::from(experts))?;
    let bias_bytes = bias.map(|b| b.slice(0, 4 * u64::from(experts))).transpose()?;
    let (x, normed, logits, choice) = (x.bytes(1)?, normed.bytes(1)?, logits.bytes(1)?, choice.bytes(1)?);
    let gate_weight = gate.map(|g| g.weight.slice(0, row)).transpose()?;
    let gate_logit = gate.map(|g| g.logit.bytes(1)).transpose()?;
    let over_all = u32::from(order == RouteOrder::SoftmaxThenTopK { renormalise: false });
    let rows = experts + u32::from(gate.is_some());
    // About a workgroup a multiprocessor: each reads the row.
    let own = rows.div_ceil(k.policy().gemm.costs.units).clamp(1, MOST_LOGITS);
    let counter = k.counters(1)?;
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[
                (0, threads),
                (1, experts.div_ceil(lanes)),
                (2, top_k.div_ceil(lanes)),
                (3, quads.div_ceil(threads)),
                (4, quads),
                (5, u32::from(gate.is_some())),
                (6, u32::from(bias.is_some())),
                (7, own),
                (8, own * threads / lanes),
            ],
            bindings: &[
                Binding::read(&x),
                Binding::read(norm),
                Binding::read(&router),
                Binding::read(bias_bytes.as_ref().unwrap_or(&router)),
                Binding::read(gate_weight.as_ref().unwrap_or(&router)),
                Binding::write(&normed),
                Binding::read_write(&logits),
                gate_logit.as_ref().map_or(Binding::read(&x), Binding::write),
                Binding::write(&choice),
                Binding::read_write(&counter),
            ],
            params: bytemuck::bytes_of(&Params { experts, top_k, over_all, eps }),
            groups: [rows.div_ceil(own), 1, 1],
            label,
        },
    )
}
