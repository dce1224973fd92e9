//! What the sum and the bias of experts share: `expert_rows.comp`.

use crate::launch::{Launch, groups_over};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "expert_rows", bindings: 4, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    n_rows: u32,
    width: u32,
    part: u32,
    top_k: u32,
    x_stride: u32,
    choice_stride: u32,
    out_stride: u32,
    has_factor: u32,
}

/// Operands, as the shader names them.
pub(super) struct ExpertRows<'a> {
    pub op: &'static str,
    /// Value of the shader's dimension `OP`.
    pub variant: &'static str,
    pub x: Mat<'a>,
    pub choice: Mat<'a>,
    pub second: Option<&'a Slice>,
    pub out: Mat<'a>,
    pub rows: u32,
}

impl ExpertRows<'_> {
    /// Columns of a slot.
    pub fn part(&self) -> u32 {
        2 * self.x.width / self.choice.width.max(2)
    }

    pub fn record(&self, k: &Kernels, rec: &mut Recorder, label: &str) -> Result<(), Error> {
        let &ExpertRows { x, choice, second, out, rows, .. } = self;
        let aligned = x.is_vec4(rows) && out.is_vec4(rows) && self.part().is_multiple_of(4);
        let params = Params {
            n_rows: rows,
            width: out.width,
            part: self.part(),
            top_k: choice.width / 2,
            x_stride: x.stride,
            choice_stride: choice.stride,
            out_stride: out.stride,
            has_factor: u32::from(second.is_some()),
        };
        let threads = k.threads(128);
        let chunks = u64::from(rows) * u64::from(out.width.div_ceil(4));
        let x = x.bytes(rows)?;
        k.launch(
            rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("OP", self.variant)],
                specialization: &[(0, threads), (1, u32::from(aligned))],
                bindings: &[
                    Binding::read(&x),
                    Binding::read(&choice.bytes(rows)?),
                    Binding::read(second.unwrap_or(&x)),
                    Binding::write(&out.bytes(rows)?),
                ],
                params: bytemuck::bytes_of(&params),
                groups: groups_over(self.op, chunks, threads)?,
                label,
            },
        )
    }
}
