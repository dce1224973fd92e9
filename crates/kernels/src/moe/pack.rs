//! Slots by expert: the lists of a [`Grouping`].

use super::Grouping;
use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "pack", bindings: 2, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    n_slots: u32,
    top_k: u32,
    choice_stride: u32,
    experts: u32,
    columns: u32,
    slots_at: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// `2 · top_k` columns.
    pub choice: Mat<'a>,
    /// How many slots there are, and how they are grouped: packed.
    pub grouping: Grouping,
    /// Output, `grouping.list_bytes()` bytes, beginning at a multiple of 16.
    pub lists: &'a Slice,
}

/// Records the packing.
///
/// # Errors
/// A grouping without lists, widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { choice, grouping: g, lists } = args;
    if choice.width != 2 * g.top_k || !g.is_packed() {
        return Ok(refuse("route", format!("{} columns to lists of {g:?}", choice.width))?);
    }
    let threads = k.threads(256);
    let params = Params {
        n_slots: g.pairs(),
        top_k: g.top_k,
        choice_stride: choice.stride,
        experts: g.experts,
        columns: g.columns(),
        slots_at: g.pairs_at(),
    };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, threads)],
            bindings: &[
                Binding::read(&choice.bytes(g.rows)?),
                Binding::write(&lists.slice(0, g.list_bytes())?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [g.experts.div_ceil(threads / k.subgroup_size()), 1, 1],
            label,
        },
    )
}
