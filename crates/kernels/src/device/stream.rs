//! Bandwidth of reading and copying, beyond every cache.

use super::{Effort, Failed, all_are, median_us};
use crate::launch::{Launch, groups_over};
use crate::rounds::fill;
use crate::{Error, Kernel, Kernels};
use zinc_vulkan::{Binding, Commands, MemoryKind, RecorderOptions, Slice};

pub(super) const KERNEL: Kernel = Kernel { stem: "stream", bindings: 2, params_bytes: 4 };

/// Loads of 16 bytes of an invocation.
const LOADS: u32 = 16;
/// Invocations of a workgroup.
const THREADS: u32 = 256;

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Bytes of the buffer.
    pub bytes: u64,
    /// GB/s of reading it.
    pub read_gb_per_s: f64,
    /// GB/s of copying it, bytes read and bytes written together.
    pub copy_gb_per_s: f64,
}

/// Measures reading a buffer and copying it to another one.
///
/// # Errors
/// What the device says; a sum that is wrong.
pub fn bandwidth(kernels: &Kernels, effort: &Effort) -> Result<Bandwidth, Failed> {
    let device = kernels.device();
    let threads = kernels.threads(THREADS);
    let group_bytes = 16 * u64::from(threads * LOADS);
    // Two buffers, and room for whatever else uses the device.
    let room = device.max_buffer().min(device.available(MemoryKind::Device) / 4);
    let groups = (effort.bytes.min(room) / group_bytes).max(1);
    let bytes = groups * group_bytes;
    let alloc = |bytes, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, bytes, label)?.all());
    let (from, to) = (alloc(bytes, "bandwidth from")?, alloc(bytes, "bandwidth to")?);
    let subgroups = groups * u64::from(threads / kernels.subgroup_size());
    let sums = alloc(4 * subgroups, "bandwidth sums")?;
    fill(device, [&from])?;
    let commands = |variant: &str, from: &Slice, out: &Slice| -> Result<Commands, Error> {
        let options =
            RecorderOptions { label: format!("{variant} bandwidth"), timestamps: true, ..Default::default() };
        let mut rec = device.recorder(&options)?;
        kernels.launch(
            &mut rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("OP", variant)],
                specialization: &[(0, threads)],
                bindings: &[Binding::read(from), Binding::write(out)],
                params: bytemuck::bytes_of(&LOADS),
                groups: groups_over("stream", groups, 1)?,
                label: variant,
            },
        )?;
        Ok(rec.finish()?)
    };
    let time = |c: &Commands| median_us(kernels, c, effort.warm_up, effort.repeats);
    let read_us = time(&commands("read", &from, &sums)?)?;
    check(kernels, &sums, threads)?;
    let copy_us = time(&commands("copy", &from, &to)?)?;
    // What was copied is read.
    fill(device, [&sums])?;
    device.submit(&[&commands("read", &to, &sums)?])?.wait()?;
    check(kernels, &sums, threads)?;
    let rate = |bytes: u64, us: f64| bytes as f64 / us.max(1e-3) / 1e3;
    Ok(Bandwidth { bytes, read_gb_per_s: rate(bytes, read_us), copy_gb_per_s: rate(2 * bytes, copy_us) })
}

/// Each subgroup's sum must be that of as many words of the fill's pattern as its invocations read.
fn check(kernels: &Kernels, sums: &Slice, threads: u32) -> Result<(), Failed> {
    let words = 4 * LOADS * kernels.subgroup_size().min(threads);
    let want = 0x2a2a_2a2a_u32.wrapping_mul(words);
    let bytes = kernels.device().download(sums)?;
    let got = bytes.as_chunks::<4>().0.iter().map(|b| f64::from(u32::from_le_bytes(*b)));
    all_are("bandwidth", got, f64::from(want))
}
