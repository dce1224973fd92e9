//! Ends a step of greedy decoding on the device, so that recorded commands can be submitted again: the chosen token becomes the
//! row's token, its position grows by one, and the token is kept in a ring for the host.

use crate::launch::{Launch, refuse};
use crate::{Error, Kernel, Kernels, RowInfo};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "advance", bindings: 4, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    capacity: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// A u32 a row: what `argmax` wrote.
    pub chosen: &'a Slice,
    /// A [`RowInfo`] a row, changed in place.
    pub row_info: &'a Slice,
    /// One u32: the number of steps done; grows by one.
    pub step: &'a Slice,
    /// u32 `[capacity][rows]`: step s writes line s mod capacity, and the slice's length gives the capacity.
    pub ring: &'a Slice,
    /// Rows.
    pub rows: u32,
}

/// Records the step's end.
///
/// # Errors
/// A ring for less than a step, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { chosen, row_info, step, ring, rows } = args;
    let capacity = ring.len() / (u64::from(rows.max(1)) * 4);
    if capacity == 0 {
        return Ok(refuse("advance", format!("a ring of {} bytes for {rows} rows", ring.len()))?);
    }
    let params = Params { rows, capacity: capacity.min(u64::from(u32::MAX)) as u32 };
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, k.threads(64))],
            bindings: &[
                Binding::read(&chosen.slice(0, u64::from(rows) * 4)?),
                Binding::read_write(&row_info.slice(0, u64::from(rows) * RowInfo::BYTES)?),
                Binding::read_write(&step.slice(0, 4)?),
                Binding::write(ring),
            ],
            params: bytemuck::bytes_of(&params),
            groups: [1, 1, 1],
            label,
        },
    )
}
