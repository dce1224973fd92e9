//! What the RMS and the L2 norm share: `norm.comp`.

use super::team::Team;
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "norm", bindings: 3, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    group: u32,
    groups: u32,
    teams: u32,
    x_stride: u32,
    out_stride: u32,
    has_weight: u32,
    eps: f32,
    scale: f32,
}

/// A norm's operands.
pub(super) struct Norm<'a> {
    pub op: &'static str,
    /// Value of the shader's dimension `OP`.
    pub variant: &'static str,
    pub x: Mat<'a>,
    pub weight: Option<&'a Slice>,
    pub group: u32,
    pub eps: f32,
    pub scale: f32,
    pub out: Mat<'a>,
    pub rows: u32,
}

impl Norm<'_> {
    pub fn record(&self, k: &Kernels, rec: &mut Recorder, label: &str) -> Result<(), Error> {
        let (x, out, rows) = (&self.x, &self.out, self.rows);
        if self.group == 0 || !x.width.is_multiple_of(self.group) || x.width != out.width {
            let reason = format!("{} columns in groups of {} to {}", x.width, self.group, out.width);
            return Ok(refuse(self.op, reason)?);
        }
        let groups = x.width / self.group;
        let teams = u64::from(rows) * u64::from(groups);
        let team = Team::of(k, self.group);
        let aligned = x.is_vec4(rows)
            && out.is_vec4(rows)
            && (groups == 1 || self.group.is_multiple_of(4))
            && self.weight.is_none_or(is_vec4);
        let params = Params {
            group: self.group,
            groups,
            teams: teams as u32, // `groups_over` refuses more
            x_stride: x.stride,
            out_stride: out.stride,
            has_weight: u32::from(self.weight.is_some()),
            eps: self.eps,
            scale: self.scale,
        };
        let (x, out) = (x.bytes(rows)?, out.bytes(rows)?);
        let weight = self.weight.unwrap_or(&x);
        k.launch(
            rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("TEAM", team.variant), ("OP", self.variant)],
                specialization: &[(0, team.threads), (1, u32::from(aligned))],
                bindings: &[Binding::read(&x), Binding::read(weight), Binding::write(&out)],
                params: bytemuck::bytes_of(&params),
                groups: groups_over(self.op, teams, team.groups)?,
                label,
            },
        )
    }
}
