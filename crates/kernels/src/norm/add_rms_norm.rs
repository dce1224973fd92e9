//! Residual sum and norm in one: `sum = a + b`, `out = sum · rsqrt(mean(sum²) + eps) · weight`, over whole rows.
//!
//! Bit-identical to `add` followed by `rms_norm`.

use super::team::Team;
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "add_rms_norm", bindings: 5, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    width: u32,
    rows: u32,
    a_stride: u32,
    b_stride: u32,
    sum_stride: u32,
    out_stride: u32,
    has_weight: u32,
    eps: f32,
}

/// Operands; all are equally wide. The outputs overlap no input.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// First summand.
    pub a: Mat<'a>,
    /// Second summand.
    pub b: Mat<'a>,
    /// An f32 element a column; absent = 1.
    pub weight: Option<&'a Slice>,
    /// Added to the mean of squares.
    pub eps: f32,
    /// Output `a + b`.
    pub sum: Mat<'a>,
    /// Output, the normed sum.
    pub out: Mat<'a>,
    /// Rows.
    pub rows: u32,
}

/// Records the sum and the norm.
///
/// # Errors
/// Widths that differ, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { a, b, weight, eps, sum, out, rows } = args;
    if [b, sum, out].iter().any(|m| m.width != a.width) || a.width == 0 {
        let reason = format!("{} and {} columns to {} and {}", a.width, b.width, sum.width, out.width);
        return Ok(refuse("add_rms_norm", reason)?);
    }
    let team = Team::of(k, a.width);
    let aligned = [a, b, sum, out].iter().all(|m| m.is_vec4(rows)) && weight.is_none_or(is_vec4);
    let params = Params {
        width: a.width,
        rows,
        a_stride: a.stride,
        b_stride: b.stride,
        sum_stride: sum.stride,
        out_stride: out.stride,
        has_weight: u32::from(weight.is_some()),
        eps,
    };
    let [a, b, sum, out] = [a.bytes(rows)?, b.bytes(rows)?, sum.bytes(rows)?, out.bytes(rows)?];
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("TEAM", team.variant)],
            specialization: &[(0, team.threads), (1, u32::from(aligned))],
            bindings: &[
                Binding::read(&a),
                Binding::read(&b),
                Binding::read(weight.unwrap_or(&a)),
                Binding::write(&sum),
                Binding::write(&out),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("add_rms_norm", u64::from(rows), team.groups)?,
            label,
        },
    )
}
