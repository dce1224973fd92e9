//! The dispatch of a chain.

use super::stage::{Operand, Stage};
use crate::elementwise::sigmoid_gate::Parts;
use crate::gemm::Packed;
use crate::launch::{Launch, groups_over, is_vec4, refuse};
use crate::norm::Team;
use crate::{Error, Kernel, Kernels, Mat, Unsupported};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

const OP: &str = "chain";

pub(super) const KERNEL: Kernel =
    Kernel { stem: OP, bindings: ADDRESSES as u32, params_bytes: size_of::<Params>() as u32 };

/// Stages and operands of a chain at most.
const STAGES: usize = 12;
const ADDRESSES: usize = 13;
/// Registers of four columns for rows of experts that are on their way: each would wait for the one before.
const AHEAD: u32 = 16;
/// Of so many rows at most, operands are loaded before the first stage; more rows hide each other's waits, and want the registers.
const FEW_ROWS: u32 = 64;
/// Registers of four columns for operands that are loaded before the first stage, and for the row, twice.
const KEPT: u32 = 28;
/// Columns of a row at most: eight registers of four columns a lane, twice.
const WIDTH: u32 = 16_384;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    width: u32,
    top_k: u32,
    pitch: u32,
    eps: f32,
    scale: f32,
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The stages in order. Their columns are buffers without gaps between rows; no output overlaps an input.
    pub stages: &'a [Stage<Mat<'a>, &'a Slice>],
    /// Columns of the row.
    pub width: u32,
    /// Added to the mean of squares in every norm.
    pub eps: f32,
    /// Rows.
    pub rows: u32,
}

/// Whether there is a kernel for a chain.
///
/// # Errors
/// [`Unsupported`] for more stages or operands than the shader has, for factors that differ, for wide rows.
pub fn supports<M: Copy, V: Copy>(stages: &[Stage<M, V>], width: u32, rows: u32) -> Result<(), Unsupported> {
    let operands: usize = stages.iter().map(|s| s.operands().len()).sum();
    if stages.len() > STAGES || operands > ADDRESSES || width == 0 || width > WIDTH {
        let reason = format!("{} stages with {operands} operands on {width} columns", stages.len());
        return refuse(OP, format!("{reason}; {STAGES} with {ADDRESSES} on {WIDTH} at most"));
    }
    let begins = stages.first().is_some_and(|s| matches!(s, Stage::Load { .. } | Stage::Experts { .. }));
    let stores = |s: &Stage<M, V>| matches!(s, Stage::Store { .. } | Stage::StoreNormed { .. });
    let stored = |w: &[Stage<M, V>]| match w[1] {
        Stage::Pack { .. } => stores(&w[0]),
        Stage::Dot { .. } => stores(&w[0]) || matches!(w[0], Stage::Pack { .. } | Stage::Dot { .. }),
        _ => true,
    };
    if !begins || !stages.windows(2).all(stored) {
        return refuse(OP, "a row that is not loaded, or nothing stored that could be packed");
    }
    let mut gates =
        stages.iter().filter_map(|s| if let Stage::Gate { parts, .. } = s { *parts } else { None });
    let whole = |p: Parts| {
        p.len > 0
            && p.len.is_multiple_of(4)
            && p.first.saturating_add(p.len) <= p.stride
            && width.is_multiple_of(p.len)
            && u64::from(width / p.len) * u64::from(p.stride) <= u64::from(u32::MAX)
    };
    if !gates.next().is_none_or(whole)
        || stages.iter().filter(|s| matches!(s, Stage::Gate { .. })).count() > 1
    {
        return refuse(OP, format!("gates that are no parts of {width} columns, or several"));
    }
    let mut scales = stages.iter().filter_map(Stage::scale);
    if scales.next().is_some_and(|first| scales.any(|s| s != first)) {
        return refuse(OP, "factors that differ");
    }
    groups_over(OP, u64::from(rows), 1).map(|_| ())
}

/// Records a chain.
///
/// # Errors
/// As [`supports`]; widths that do not fit, rows with gaps between them, buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { stages, width, eps, rows } = args;
    supports(stages, width, rows)?;
    let mut aligned = width.is_multiple_of(4);
    let (mut slices, mut top_k, mut gate_row) = (Vec::new(), 0, 0);
    for stage in stages {
        if let Stage::Experts { choice, .. } = stage {
            top_k = choice.width / 2;
        }
        if let Stage::Gate { gate, .. } = stage {
            (aligned, gate_row) = (aligned && gate.is_vec4(rows), gate.stride);
        }
        for operand in stage.operands() {
            let slice = match operand {
                Operand::Weight(v) => v.clone(),
                Operand::Read(m) | Operand::Write(m) => m.bytes(rows)?,
            };
            if let Operand::Read(m) | Operand::Write(m) = operand {
                check(stage, m, (width, top_k), rows)?;
            }
            // The choice, gates and single elements are read one by one.
            let by_four = match operand {
                Operand::Read(m) | Operand::Write(m) => m.width >= width,
                Operand::Weight(_) => !matches!(stage, Stage::ScaleBy { .. } | Stage::Experts { .. }),
            };
            aligned &= !by_four || is_vec4(&slice);
            slices.push((slice, matches!(operand, Operand::Write(_))));
        }
    }
    let mut bindings: Vec<Binding<'_>> = slices
        .iter()
        .map(|(slice, written)| if *written { Binding::write(slice) } else { Binding::read(slice) })
        .collect();
    bindings.resize(ADDRESSES, Binding::read(&slices[0].0));

    let team = Team::of(k, width);
    let lanes = if team.groups > 1 { k.subgroup_size() } else { team.threads };
    let pitch = Packed::pitch(width);
    let scale = stages.iter().find_map(Stage::scale).unwrap_or(1.0);
    let params = Params { rows, width, top_k, pitch, eps, scale };
    let chunks = (pitch / 4).div_ceil(lanes);
    let mut specialization = vec![(0, team.threads), (1, u32::from(aligned)), (2, chunks)];
    let most = if rows <= FEW_ROWS { (KEPT / chunks).saturating_sub(2) } else { 0 };
    let sets = OperandSets::of(stages, most);
    let mut first = 0;
    for (number, stage) in (3..).zip(stages) {
        specialization.push((number, stage.code() | first << 4));
        first += stage.operands().len() as u32;
    }
    let Parts { stride, first, len } = gate_parts(stages, width);
    let ahead = (AHEAD / chunks).clamp(1, top_k.max(1));
    specialization.extend([(15, len), (16, stride), (17, first), (18, ahead), (19, gate_row)]);
    specialization.extend([(20, sets.of_rows), (21, sets.wide_ahead), (22, sets.singles)]);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[("TEAM", team.variant)],
            specialization: &specialization,
            bindings: &bindings,
            params: bytemuck::bytes_of(&params),
            groups: groups_over(OP, u64::from(rows), team.groups)?,
            label,
        },
    )
}

/// Operands by number, a bit each.
#[derive(Default)]
struct OperandSets {
    /// Those that have a row for each row.
    of_rows: u32,
    /// Those that are as wide as the row and loaded before the first stage.
    wide_ahead: u32,
    /// Those of which one element a row is read.
    singles: u32,
}

impl OperandSets {
    /// With `most` operands loaded before the first stage, the first ones.
    fn of<M: Copy, V: Copy>(stages: &[Stage<M, V>], most: u32) -> OperandSets {
        let mut sets = OperandSets::default();
        let mut bit = 1;
        for stage in stages {
            for (i, operand) in stage.operands().into_iter().enumerate() {
                let of_rows = matches!(operand, Operand::Read(_) | Operand::Write(_));
                let (single, wide) = match (stage, i) {
                    _ if matches!(operand, Operand::Write(_)) => (false, false),
                    (Stage::Experts { .. } | Stage::Gate { .. }, _) => (false, false),
                    (Stage::ScaleBy { .. }, _) | (Stage::AddGated { .. }, 1) => (true, false),
                    _ => (false, true),
                };
                sets.of_rows |= if of_rows { bit } else { 0 };
                sets.singles |= if single { bit } else { 0 };
                let ahead = wide && sets.wide_ahead.count_ones() < most;
                sets.wide_ahead |= if ahead { bit } else { 0 };
                bit <<= 1;
            }
        }
        sets
    }
}

/// Where a row's gates are.
fn gate_parts<M, V>(stages: &[Stage<M, V>], width: u32) -> Parts {
    let parts = stages.iter().find_map(|s| if let Stage::Gate { parts, .. } = s { *parts } else { None });
    parts.unwrap_or(Parts { stride: width, first: 0, len: width })
}

/// Refuses columns that are not as wide as their stage wants them, or that have gaps between rows.
fn check(
    stage: &Stage<Mat<'_>, &Slice>,
    m: Mat<'_>,
    (width, top_k): (u32, u32),
    rows: u32,
) -> Result<(), Error> {
    let fits = match *stage {
        Stage::Experts { .. } => top_k > 0 && [top_k * width, 2 * top_k].contains(&m.width),
        Stage::AddGated { .. } => [width, 1].contains(&m.width),
        Stage::Gate { parts, .. } => m.width == parts.map_or(width, |p| width / p.len * p.stride),
        Stage::Dot { .. } => m.width == 1,
        Stage::Pack { .. } => m.width == Packed::width(width),
        _ => m.width == width,
    };
    let packed = matches!(stage, Stage::Pack { .. });
    let gaps = rows > 1 && m.stride != m.width && !matches!(stage, Stage::Gate { .. });
    if !fits || gaps || packed && !m.is_vec4(1) {
        let reason = format!("{} columns, {} apart, for rows of {width}", m.width, m.stride);
        return Ok(refuse(OP, reason)?);
    }
    Ok(())
}
