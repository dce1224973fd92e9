//! What the RMS and the L2 norm share: `norm.comp`.

use super::team::{SUBGROUP_COLUMNS, Team};
use crate::gemm::Packed;
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "norm", bindings: 5, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    group: u32,
    groups: u32,
    teams: u32,
    x_stride: u32,
    out_stride: u32,
    gate_stride: u32,
    has_weight: u32,
    has_gate: u32,
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
    /// What the result is the second operand of: SwiGLU.
    pub gate: Option<Mat<'a>>,
    pub out: Mat<'a>,
    /// The result once more, in f16, where [`packs`] says so.
    pub packed: Option<Packed<'a>>,
    pub rows: u32,
}

/// Whether `rows` rows of `width` columns can be normed in groups of `group`.
///
/// # Errors
/// [`Unsupported`] where they are not whole groups, or too many.
pub fn supports(op: &'static str, width: u32, group: u32, rows: u32) -> Result<(), Unsupported> {
    if width == 0 || group == 0 || !width.is_multiple_of(group) {
        return refuse(op, format!("{width} columns in groups of {group}"));
    }
    groups_over(op, u64::from(rows) * u64::from(width / group), 1).map(|_| ())
}

/// Invocations of a workgroup that takes a whole row, at most.
const ROW_THREADS: u32 = 512;
/// Registers of four columns that a lane keeps at most.
const KEPT: u32 = 16;

/// Whether rows of `width` columns in groups of `group` can be packed too, on a device with subgroups of so many lanes.
pub fn packs(width: u32, group: u32, lanes: u32) -> bool {
    let whole =
        group > 0 && width.is_multiple_of(group) && width.is_multiple_of(64) && group.is_multiple_of(4);
    let kept = || (group / 4).div_ceil(lanes) * (width / group).div_ceil((ROW_THREADS / lanes).max(1));
    whole && group <= SUBGROUP_COLUMNS && kept() <= KEPT
}

impl Norm<'_> {
    pub fn record(&self, k: &Kernels, rec: &mut Recorder, label: &str) -> Result<(), Error> {
        let (x, out, rows) = (&self.x, &self.out, self.rows);
        supports(self.op, x.width, self.group, rows)?;
        if x.width != out.width || self.gate.is_some_and(|g| g.width != x.width) {
            return Ok(refuse(self.op, format!("{} columns to {}", x.width, out.width))?);
        }
        let groups = x.width / self.group;
        let teams = u64::from(rows) * u64::from(groups);
        let lanes = k.subgroup_size();
        let mut team = Team::of(k, self.group);
        if let Some(packed) = self.packed {
            let fits = packs(x.width, self.group, lanes) && (packed.rows, packed.k) == (rows, x.width);
            if !fits || !packed.address().is_multiple_of(16) {
                return Ok(refuse(self.op, format!("{} columns by {} to pack", x.width, self.group))?);
            }
            let threads = k.threads(groups.saturating_mul(lanes).min(ROW_THREADS));
            team = Team { variant: "row", threads, groups };
        }
        let aligned = x.is_vec4(rows)
            && out.is_vec4(rows)
            && self.gate.is_none_or(|g| g.is_vec4(rows))
            && self.group.is_multiple_of(4)
            && self.weight.is_none_or(is_vec4);
        let params = Params {
            group: self.group,
            groups,
            teams: teams as u32, // `supports` refuses more
            x_stride: x.stride,
            out_stride: out.stride,
            gate_stride: self.gate.map_or(0, |g| g.stride),
            has_weight: u32::from(self.weight.is_some()),
            has_gate: u32::from(self.gate.is_some()),
            eps: self.eps,
            scale: self.scale,
        };
        let (x, out) = (x.bytes(rows)?, out.bytes(rows)?);
        let weight = self.weight.unwrap_or(&x);
        let gate = self.gate.map(|g| g.bytes(rows)).transpose()?;
        let packed = self.packed.map(|p| p.bytes()).transpose()?;
        let groups_each = groups.div_ceil(team.threads / lanes);
        let chunks = self.group.div_ceil(4).div_ceil(lanes);
        let specialization = [(0, team.threads), (1, u32::from(aligned)), (2, groups_each), (3, chunks)];
        k.launch(
            rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("TEAM", team.variant), ("OP", self.variant)],
                specialization: &specialization[..if self.packed.is_some() { 4 } else { 2 }],
                bindings: &[
                    Binding::read(&x),
                    Binding::read(weight),
                    Binding::read(gate.as_ref().unwrap_or(&x)),
                    Binding::write(&out),
                    packed.as_ref().map_or(Binding::read(&x), Binding::write),
                ],
                params: bytemuck::bytes_of(&params),
                groups: groups_over(self.op, teams, team.groups)?,
                label,
            },
        )
    }
}
