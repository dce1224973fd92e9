//! Rotates heads by their rows' positions.

use super::Rotation;
use crate::launch::{Launch, groups_over, refuse};
use crate::{Error, Kernel, Kernels, Mat, RowInfo};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "rope", bindings: 4, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    heads: u32,
    head_size: u32,
    rotated_pairs: u32,
    pairing: u32,
    x_stride: u32,
    out_stride: u32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// Heads side by side.
    pub x: Mat<'a>,
    /// Elements of a head.
    pub head_size: u32,
    /// How they turn.
    pub rotation: Rotation<'a>,
    /// A [`RowInfo`] a row.
    pub row_info: &'a Slice,
    /// Output, as wide as `x`.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the rotation.
///
/// # Errors
/// Widths that do not fit, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { x, head_size, ref rotation, row_info, out, rows } = args;
    rotation.check("rope", x.width, head_size, rows)?;
    if x.width != out.width {
        return Ok(refuse("rope", format!("{} columns to {}", x.width, out.width))?);
    }
    let params = Params {
        rows,
        heads: x.width / head_size,
        head_size,
        rotated_pairs: rotation.rotated_pairs,
        pairing: rotation.pairing_number(),
        x_stride: x.stride,
        out_stride: out.stride,
    };
    let threads = k.threads(128);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, threads)],
            bindings: &[
                Binding::read(&x.bytes(rows)?),
                Binding::read(rotation.table),
                Binding::read(&row_info.slice(0, u64::from(rows) * RowInfo::BYTES)?),
                Binding::write(&out.bytes(rows)?),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("rope", u64::from(rows) * u64::from(x.width / 2), threads)?,
            label,
        },
    )
}
