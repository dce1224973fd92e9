//! Where the elements of matrices lie in the lanes of a subgroup: nobody says, so the device is asked once. Where they lie as known, kernels make matrices in registers of what
//! a lane has computed: `gemm_lanes.comp` and `slices.comp` decode weights there, `attention_lanes.comp` makes factors of sums.

use crate::attention::matrix_of;
use crate::launch::Launch;
use crate::{Error, Kernel, Kernels, gemm};
use zinc_vulkan::{Binding, MemoryKind, RecorderOptions};

/// The kernels of this family.
pub(crate) const KERNELS: &[Kernel] = &[KERNEL];
const KERNEL: Kernel = Kernel { stem: "lanes", bindings: 1, params_bytes: 0 };

/// Lanes of a subgroup.
pub(crate) const LANES: u32 = 32;
/// Elements of a lane: of a first factor and of sums of 16 × 16, of a second factor and of sums of 16 × 8.
const EACH: [u32; 4] = [8, 8, 4, 4];

/// Whether the device has matrices of 16 × 16 × 16 and of 16 × 8 × 16 and holds them in 32 lanes of which lane l has, of first factors and sums, of rows l / 4 and l / 4 + 8, columns
/// 2t, 2t + 1, 2t + 8 and 2t + 9, t = l % 4 (of 8 columns the first two); of second factors these rows of column l / 4.
pub(crate) fn are_known(kernels: &Kernels) -> bool {
    let caps = kernels.caps();
    let possible = matrix_of(caps) == Some([16, 16, 16])
        && gemm::narrow(caps, gemm::matrix_of(caps), 8) == gemm::Matrix::Khr { m: 16, n: 8, k: 16 }
        && kernels.subgroup_size() == LANES;
    let of_matrix = |matrix: usize| (0..LANES * EACH[matrix]).map(move |i| element(matrix, i));
    let known: Vec<f32> = (0..EACH.len()).flat_map(of_matrix).collect();
    // A device that cannot say is not one of them.
    possible && elements(kernels).is_ok_and(|found| found == known)
}

/// The element that lane i / [`EACH`] is to have at i % `EACH` of a matrix, numbered by rows.
fn element(matrix: usize, i: u32) -> f32 {
    let (lane, e) = (i / EACH[matrix], i % EACH[matrix]);
    let (group, pair) = (lane / 4, lane % 4 * 2 + e % 2);
    let number = match matrix {
        0 | 1 => 16 * (group + e / 4 * 8) + pair + e / 2 % 2 * 8,
        2 => 8 * (pair + e / 2 * 8) + group,
        _ => 8 * (group + e / 2 * 8) + pair,
    };
    number as f32
}

/// The elements that lanes do have.
fn elements(kernels: &Kernels) -> Result<Vec<f32>, Error> {
    let device = kernels.device();
    let bytes = u64::from(4 * LANES * EACH.iter().sum::<u32>());
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
