//! Logit bias and penalties, applied to listed tokens in place: bias first, then for tokens seen before repetition (positive
//! logits divided, others multiplied), presence (subtracted) and frequency (subtracted for each time seen).

use crate::launch::{Launch, groups_over};
use crate::{Error, Kernel, Kernels, Mat};
use bytemuck::{Pod, Zeroable};
use zinc_vulkan::{Binding, Recorder, Slice};

pub(super) const KERNEL: Kernel =
    Kernel { stem: "adjust", bindings: 3, params_bytes: size_of::<Params>() as u32 };

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    width: u32,
    stride: u32,
    rows: u32,
    capacity: u32,
}

/// What happens to a token's logit; a token is listed once a row.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
pub struct Entry {
    /// The row.
    pub row: u32,
    /// The token; one outside the row is left out.
    pub token: u32,
    /// Added.
    pub bias: f32,
    /// How often it was seen.
    pub seen: u32,
}

/// A row's penalties.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct Penalties {
    /// 1 does nothing.
    pub repetition: f32,
    /// 0 does nothing.
    pub presence: f32,
    /// 0 does nothing.
    pub frequency: f32,
}

/// The bytes of a list of entries: their number, then they.
pub fn entry_bytes(entries: &[Entry]) -> Vec<u8> {
    let count = entries.len() as u32;
    [bytemuck::bytes_of(&count), bytemuck::cast_slice(entries)].concat()
}

/// Operands.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    /// The rows, changed in place.
    pub logits: Mat<'a>,
    /// [`entry_bytes`]; as many entries are looked at as fit in the slice, whatever is in it when the commands are recorded.
    pub entries: &'a Slice,
    /// [`Penalties`] a row.
    pub penalties: &'a Slice,
    /// Rows.
    pub rows: u32,
}

/// Records the changes.
///
/// # Errors
/// Buffers too short, what the device says.
pub fn record(k: &Kernels, rec: &mut Recorder, label: &str, args: &Args<'_>) -> Result<(), Error> {
    let &Args { logits, entries, penalties, rows } = args;
    let capacity = entries.len().saturating_sub(4) / size_of::<Entry>() as u64;
    let params = Params {
        width: logits.width,
        stride: logits.stride,
        rows,
        capacity: capacity.min(u64::from(u32::MAX)) as u32,
    };
    let penalties = penalties.slice(0, u64::from(rows) * size_of::<Penalties>() as u64)?;
    let threads = k.threads(64);
    k.launch(
        rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, threads)],
            bindings: &[
                Binding::read_write(&logits.bytes(rows)?),
                Binding::read(entries),
                Binding::read(&penalties),
            ],
            params: bytemuck::bytes_of(&params),
            groups: groups_over("adjust", capacity, threads)?,
            label,
        },
    )
}
