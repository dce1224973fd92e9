//! The choice of experts.

use crate::launch::{Launch, groups_over, refuse};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_plan::RouteOrder;
use zinc_vulkan::{Binding, Recorder};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "route", bindings: 2, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    n_rows: u32,
    experts: u32,
    top_k: u32,
    logits_stride: u32,
    choice_stride: u32,
    over_all: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Router logits, a column an expert.
    pub logits: Mat<'a>,
    /// What the weights are parts of.
    pub order: RouteOrder,
    /// Output, `2 · top_k` columns.
    pub choice: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the choice.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { logits, order, choice, rows } = args;
    let (experts, top_k) = (logits.width, choice.width / 2);
    if top_k == 0 || top_k > experts || choice.width != 2 * top_k {
        return Ok(refuse("route", format!("{experts} experts to {} columns", choice.width))?);
    }
    let params = Params {
        n_rows: rows,
        experts,
        top_k,
        logits_stride: logits.stride,
        choice_stride: choice.stride,
        over_all: u32::from(order == RouteOrder::SoftmaxThenTopK { renormalise: false }),
    };
    let threads = k.threads(128);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[
                (0, threads),
                (1, experts.div_ceil(k.subgroup_size())),
                (2, top_k.div_ceil(k.subgroup_size())),
            ],
            bindings: &[Binding::read(&logits.bytes(rows)?), Binding::write(&choice.bytes(rows)?)],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("route", rows.into(), threads / k.subgroup_size())?,
            label,
        },
    )
}
