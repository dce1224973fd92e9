//! Operands of a product as the kernels of `gemv`, `dot` and `slices` take them.

use super::experts::ExpertArgs;
use super::{Args, Gate, Sublayer, Weights, experts, gemv_op};
use crate::launch::{Launch, is_vec4};
use crate::{Error, Kernel, Kernels, fold_groups};
use bytemuck::{Pod, Zeroable};
use zinc_quant::FormatRef;
use zinc_vulkan::{Binding, Recorder, Slice};

/// Of one matrix, or of experts'.
pub(crate) struct Operands {
    pub format: FormatRef,
    weight: Slice,
    pub up: Option<(Gate, Slice)>,
    x: Slice,
    /// Whether x may be read by `vec4`.
    pub aligned: bool,
    pub bias: Option<Slice>,
    /// The residual, or the bias of `up`.
    second: Option<Slice>,
    /// The shader's `EXPERTS` and what it reads for it.
    pub experts: Option<(u32, Slice)>,
    /// The weight of a norm of x, and its eps.
    pub norm: Option<(Slice, f32)>,
    /// What is done before the norm.
    pub sublayer: Option<SublayerOperands>,
    out: Slice,
    /// Workgroups for the same rows.
    batches: u32,
    /// All but `groups`.
    pub params: Params,
}

/// Those of [`Sublayer`], in the places of operands that are not there: bias, residual, the choice of experts, up.
pub(crate) struct SublayerOperands {
    weight: Slice,
    row: Slice,
    pub out: Option<Slice>,
    pub scale: Option<Slice>,
}

impl SublayerOperands {
    fn of(s: &Sublayer<'_>, k: u32) -> Result<SublayerOperands, Error> {
        Ok(SublayerOperands {
            weight: s.weight.slice(0, 4 * u64::from(k))?,
            row: s.row.bytes(1)?,
            out: s.out.map(|m| m.bytes(1)).transpose()?,
            scale: s.scale.map(|s| s.slice(0, 4)).transpose()?,
        })
    }

    fn is_vec4(s: &Sublayer<'_>) -> bool {
        is_vec4(s.weight) && s.row.is_vec4(1) && s.out.is_none_or(|m| m.is_vec4(1))
    }
}

/// The push constants after the addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct Params {
    pub m: u32,
    pub k: u32,
    row_bytes: u32,
    x_stride: u32,
    residual_stride: u32,
    result_stride: u32,
    groups: u32,
    columns: u32,
    slots: u32,
    x_step: u32,
    expert_bytes: u32,
    choice_at: u32,
    alpha: f32,
    limit: f32,
}

/// [`Params`] of a kernel that can norm x.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct NormedParams {
    params: Params,
    eps: f32,
}

impl Operands {
    /// Those of a matrix and columns, `per_group` of which a workgroup takes.
    pub fn of(args: &Args<'_>, per_group: u32) -> Result<Operands, Error> {
        gemv_op::check(args)?;
        let Weights { format, m, k, slice } = args.weights;
        let row_bytes = format.device_row_bytes(k as usize) as u64;
        let matrix = row_bytes * u64::from(m);
        let residual = args.epilogue.residual;
        let sublayer = args.norm.and_then(|n| n.sublayer);
        let up = args.up.map(|(gate, up)| Ok::<_, Error>((gate, up.slice.slice(0, matrix)?))).transpose()?;
        let (alpha, limit) = constants(&up);
        Ok(Operands {
            format,
            weight: slice.slice(0, matrix)?,
            up,
            x: args.x.bytes(args.columns)?,
            aligned: args.x.is_vec4(args.columns)
                && args.norm.is_none_or(|n| is_vec4(n.weight))
                && sublayer.is_none_or(|s| SublayerOperands::is_vec4(&s)),
            bias: args.epilogue.bias.map(|b| b.slice(0, 4 * u64::from(m))).transpose()?,
            second: residual.map(|r| r.bytes(args.columns)).transpose()?,
            experts: None,
            norm: args
                .norm
                .map(|n| Ok::<_, Error>((n.weight.slice(0, 4 * u64::from(k))?, n.eps)))
                .transpose()?,
            sublayer: sublayer.map(|s| SublayerOperands::of(&s, k)).transpose()?,
            out: args.out.bytes(args.columns)?,
            batches: args.columns.div_ceil(per_group),
            params: Params {
                m,
                k,
                row_bytes: row_bytes as u32,
                x_stride: args.x.stride,
                residual_stride: residual.map_or(0, |r| r.stride),
                result_stride: args.out.stride,
                columns: args.columns,
                alpha,
                limit,
                ..Params::default()
            },
        })
    }

    /// Those of experts' matrices and slots, `per_group` of which a workgroup takes.
    pub fn of_experts(args: &ExpertArgs<'_>, per_group: u32) -> Result<Operands, Error> {
        let (g, Weights { format, k, .. }) = (args.grouping, args.weights);
        experts::check(args, [k, k * g.top_k].contains(&args.x.width), per_group)?;
        let m = args.m();
        let (weight, up) = args.matrices()?;
        let up = args.up.map(|(gate, _)| gate).zip(up);
        let (bias, second) = args.bias_slices()?;
        let experts = match g.is_packed() {
            true => (2, args.lists.slice(0, g.list_bytes())?),
            false => (1, args.choice.bytes(g.rows)?),
        };
        let x_step = if args.x.width == k { 0 } else { k };
        let (alpha, limit) = constants(&up);
        Ok(Operands {
            format,
            weight,
            up,
            x: args.x.bytes(g.rows)?,
            aligned: args.x.is_vec4(g.rows) && x_step.is_multiple_of(4),
            bias,
            second,
            experts: Some(experts),
            norm: None,
            sublayer: None,
            out: args.out.bytes(g.rows)?,
            batches: g.batches(),
            params: Params {
                m,
                k,
                row_bytes: format.device_row_bytes(k as usize) as u32,
                x_stride: args.x.stride,
                result_stride: args.out.stride,
                columns: g.pairs(),
                slots: g.top_k,
                x_step,
                expert_bytes: args.expert_bytes()?,
                choice_at: if g.is_packed() { g.pairs_at() } else { args.choice.stride },
                alpha,
                limit,
                ..Params::default()
            },
        })
    }

    /// The shader's variant.
    pub fn variant(&self) -> [(&'static str, &'static str); 2] {
        [("FORMAT", self.format.name), ("GATE", if self.up.is_some() { "yes" } else { "no" })]
    }

    /// The shader's `ACTIVATION`.
    pub fn activation(&self) -> u32 {
        self.up.as_ref().map_or(0, |(gate, _)| gate.number())
    }

    /// The shader's `EXPERTS`.
    pub fn experts_mode(&self) -> u32 {
        self.experts.as_ref().map_or(0, |e| e.0)
    }

    /// Whether what is bound as a residual is one.
    pub fn has_residual(&self) -> bool {
        self.second.is_some() && self.up.is_none()
    }

    /// Records a kernel with these specialisation constants: `groups` workgroups for the rows, for each batch of columns.
    pub fn dispatch(
        &self,
        k: &Kernels,
        rec: &mut Recorder,
        label: &str,
        (kernel, specialization): (&Kernel, &[(u32, u32)]),
        groups: u32,
    ) -> Result<(), Error> {
        let params = Params { groups, ..self.params };
        self.record(k, rec, label, (kernel, specialization), (None, bytemuck::bytes_of(&params)), groups)
    }

    /// The same for a kernel that can norm x.
    pub fn dispatch_normed(
        &self,
        k: &Kernels,
        rec: &mut Recorder,
        label: &str,
        (kernel, specialization): (&Kernel, &[(u32, u32)]),
        groups: u32,
    ) -> Result<(), Error> {
        let eps = self.norm.as_ref().map_or(0.0, |n| n.1);
        let params = NormedParams { params: Params { groups, ..self.params }, eps };
        let norm = self.norm.as_ref().map_or(&self.x, |n| &n.0);
        let params = (Some(norm), bytemuck::bytes_of(&params));
        self.record(k, rec, label, (kernel, specialization), params, groups)
    }

    fn record(
        &self,
        k: &Kernels,
        rec: &mut Recorder,
        label: &str,
        (kernel, specialization): (&Kernel, &[(u32, u32)]),
        (norm, params): (Option<&Slice>, &[u8]),
        groups: u32,
    ) -> Result<(), Error> {
        let [gx, gy] = fold_groups(groups);
        let (x, sublayer) = (&self.x, self.sublayer.as_ref());
        let scale = sublayer.and_then(|s| s.scale.as_ref());
        let read = [
            &self.weight,
            self.up.as_ref().map(|up| &up.1).or(scale).unwrap_or(&self.weight),
            x,
            self.bias.as_ref().or(sublayer.map(|s| &s.weight)).unwrap_or(x),
            self.second.as_ref().or(sublayer.map(|s| &s.row)).unwrap_or(x),
        ];
        let third = match sublayer.and_then(|s| s.out.as_ref()) {
            Some(out) => Binding::write(out),
            None => Binding::read(self.experts.as_ref().map_or(x, |e| &e.1)),
        };
        let bindings: Vec<Binding<'_>> = (read.into_iter().map(Binding::read))
            .chain([third])
            .chain(norm.map(Binding::read))
            .chain([Binding::write(&self.out)])
            .collect();
        k.launch(
            rec,
            &Launch {
                kernel,
                variant: &self.variant(),
                specialization,
                bindings: &bindings,
                params,
                groups: [gx, gy, self.batches],
                label,
            },
        )
    }
}

fn constants(up: &Option<(Gate, Slice)>) -> (f32, f32) {
    up.as_ref().map_or((0.0, 0.0), |(gate, _)| gate.constants())
}
