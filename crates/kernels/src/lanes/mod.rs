//! Where the elements of matrices lie in the lanes of a subgroup: nobody says, so the device is asked once. Where they lie as known, kernels make matrices in registers of what
//! a lane has computed: `gemm_lanes.comp` decodes weights there, `attention_lanes.comp` makes factors of sums.

use crate::attention::matrix_of;
use crate::launch::Launch;
use crate::{Error, Kernel, Kernels};
use zinc_vulkan::{Binding, MemoryKind, RecorderOptions};

/// The kernels of this family.
pub const KERNELS: &[Kernel] = &[KERNEL];
const KERNEL: Kernel = Kernel { stem: "lanes", bindings: 1, params_bytes: 0 };

/// Lanes of a subgroup.
pub(crate) const LANES: u32 = 32;
/// Elements of a lane.
const EACH: u32 = 8;

/// Whether the device has matrices of 16 × 16 × 16 and holds them, first factors and sums, in 32 lanes of which lane l has, of rows l / 4 and l / 4 + 8, columns 2t, 2t + 1, 2t + 8
/// and 2t + 9, t = l % 4.
pub fn are_known(kernels: &Kernels) -> bool {
    let possible = matrix_of(kernels.caps()) == Some([16, 16, 16]) && kernels.subgroup_size() == LANES;
    let known: Vec<f32> = (0..2 * LANES * EACH).map(|i| element(i % (LANES * EACH))).collect();
    // A device that cannot say is not one of them.
    possible && elements(kernels).is_ok_and(|found| found == known)
}

/// The element that lane i / 8 is to have at i % 8, numbered by rows.
fn element(i: u32) -> f32 {
    let (lane, e) = (i / EACH, i % EACH);
    let (row, column) = (lane / 4 + e / 4 * 8, lane % 4 * 2 + e % 2 + e / 2 % 2 * 8);
    (16 * row + column) as f32
}

/// The elements that lanes do have.
fn elements(kernels: &Kernels) -> Result<Vec<f32>, Error> {
    let device = kernels.device();
    let bytes = u64::from(2 * 4 * LANES * EACH);
    let out = device.alloc(MemoryKind::Device, bytes, "lanes")?.all();
    let mut rec = device.recorder(&RecorderOptions { label: "lanes".into(), ..Default::default() })?;
    kernels.launch(
        &mut rec,
        &Launch {
            kernel: &KERNEL,
            variant: &[],
            specialization: &[(0, LANES)],
            bindings: &[Binding::write(&out)],
            params: &[],
            groups: [1, 1, 1],
            label: "lanes",
        },
    )?;
    device.submit(&[&rec.finish()?])?.wait()?;
    let bytes = device.download(&out)?;
    Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
}
