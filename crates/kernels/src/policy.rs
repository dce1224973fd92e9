//! Tuning constants by class of device: data alone. Nothing else in the workspace knows device classes.

use crate::attention::AttentionPolicy;
use crate::gemm::{self, GemmPolicy};
use crate::recurrent::chunked::ScanPolicy;
use crate::slices::SlicesPolicy;
use zinc_vulkan::Capabilities;

/// Devices that want the same constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// NVIDIA cards: subgroups of 32, many registers, L1 shared with shared memory.
    Nvidia,
    /// AMD cards: subgroups of 64 or 32.
    Amd,
    /// Software drivers: one core a workgroup.
    Software,
    /// Everything else.
    Other,
}

impl DeviceClass {
    /// The class of a device.
    pub fn of(caps: &Capabilities) -> DeviceClass {
        match caps.vendor_id {
            _ if caps.is_software() => DeviceClass::Software,
            0x10de => DeviceClass::Nvidia,
            0x1002 => DeviceClass::Amd,
            _ => DeviceClass::Other,
        }
    }
}

/// How exact results are: which arithmetic kernels may use. Only weight products and attention differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 sums of f32 values. The order of an output's sums depends on the operation's shape and the device alone, so results have the same
    /// bits whatever the number of rows, the chunking and the company of other sequences.
    #[default]
    Exact,
    /// Inputs of products rounded to f16 or to integers with a scale a block, sums in f32 or exact integers. Other numbers of rows may take
    /// other kernels, and results then differ by that rounding.
    Fast,
}

impl Precision {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Exact => "exact",
            Precision::Fast => "fast",
        }
    }
}

/// Tuning for a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The class.
    pub class: DeviceClass,
    /// Lanes of a subgroup, required of every pipeline.
    pub subgroup_size: u32,
    /// Matrix-vector products.
    pub gemv: GemvPolicy,
    /// Products in tiles.
    pub gemm: GemmPolicy,
    /// Integer-dot products of few columns, under [`Precision::Fast`].
    pub dot: DotPolicy,
    /// Products by slices of K, under [`Precision::Fast`].
    pub slices: SlicesPolicy,
    /// Attention.
    pub attention: AttentionPolicy,
    /// Delta nets.
    pub scan: ScanPolicy,
}

/// Tuning of products of a weight matrix with columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GemvPolicy {
    /// Lanes that split K, where a subgroup has as many. With `busy_teams` and `max_parts` this decides the order of sums, so it must not
    /// depend on the columns.
    pub lanes: u32,
    /// Teams of lanes that the device keeps busy: K is cut into parts until rows · parts reaches it.
    pub busy_teams: u32,
    /// Most parts.
    pub max_parts: u32,
    /// Columns of a workgroup double from 1 to the most instead of being as even as possible: fewer pipelines, for drivers that compile one for longer
    /// than it runs.
    pub doubling: bool,
    /// Teams of two rows take a third one where more than four columns are staged by halves of chunks of 64 elements.
    pub third_row: bool,
    /// The rest of a tile by number of columns: the first entry whose `up_to` is not below it, else the last.
    pub shapes: &'static [GemvShape],
    /// The same of gated products, where it is not.
    pub gated: Option<&'static [GemvShape]>,
}

/// What of a tile does not change results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemvShape {
    /// For at most so many columns.
    pub up_to: u32,
    /// Weight rows of a team, both matrices' where there is a gate.
    pub rows: u32,
    /// Columns of a workgroup at most.
    pub columns: u32,
    /// A subgroup for each part of K.
    pub spread: bool,
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Shared memory of a workgroup for staging x; 0: lanes read x themselves.
    pub stage_bytes: u32,
}

/// Tuning of integer-dot products.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DotPolicy {
    /// Lanes that split K, where a subgroup has as many: the order of sums.
    pub lanes: u32,
    /// Bytes of an element of x after rounding: 1, or 2 for about the accuracy of f16.
    pub bytes: u32,
    /// Most columns of a product; more are for other kernels.
    pub most_columns: u32,
    /// Workgroups that keep the device busy: a product of fewer rows than fill them gets smaller ones, one of more gets several batches of rows a
    /// workgroup.
    pub busy_groups: u32,
    /// Batches of rows that a workgroup takes at most.
    pub most_batches: u32,
    /// Shared memory of a workgroup for x; the sums of a sublayer's norms need a ninth more.
    pub stage_bytes: u32,
    /// The rest by number of columns: the first entry whose `up_to` is not below it, else the last.
    pub shapes: &'static [DotShape],
}

/// What of an integer-dot tile does not change results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DotShape {
    /// For at most so many columns.
    pub up_to: u32,
    /// Weight rows of a team, both matrices' where there is a gate.
    pub rows: u32,
    /// Columns of a workgroup at most.
    pub columns: u32,
    /// Subgroups of a workgroup at most.
    pub subgroups: u32,
    /// As `subgroups`, where rows are longer than [`DotShape::LONG`]: more of x is to be rounded.
    pub long_subgroups: u32,
    /// Weight rows of a team of each matrix, and subgroups, of such rows where there is a gate.
    pub long_gated: [u32; 2],
    /// Codes are loaded a chunk ahead.
    pub ahead: bool,
}

impl DotShape {
    /// Elements of a long row.
    pub const LONG: u32 = 4096;
}

impl DotPolicy {
    /// The entry for a number of columns.
    pub fn shape(&self, columns: u32) -> &DotShape {
        self.shapes.iter().find(|s| columns <= s.up_to).unwrap_or(&self.shapes[self.shapes.len() - 1])
    }
}

impl GemvPolicy {
    /// The entry for a number of columns of a product, gated or not.
    pub fn shape(&self, columns: u32, gated: bool) -> &GemvShape {
        let shapes = self.gated.filter(|_| gated).unwrap_or(self.shapes);
        shapes.iter().find(|s| columns <= s.up_to).unwrap_or(&shapes[shapes.len() - 1])
    }
}

impl Policy {
    /// Rows of a step that bind products by arithmetic where there are no matrix cores.
    pub const STEPS: u32 = 512;

    /// Rows of a step where nothing else is asked for: enough that products are bound by arithmetic. On matrix cores that takes more, since a
    /// tile of a few rows leaves most of them idle.
    pub fn steps(&self, caps: &Capabilities, precision: Precision) -> u32 {
        let on_matrices = matches!(gemm::matrix_of(caps), gemm::Matrix::Khr { .. });
        match precision {
            Precision::Fast if on_matrices && self.class != DeviceClass::Software => 2048,
            _ => Policy::STEPS,
        }
    }

    /// The policy of a device's class.
    pub fn of(caps: &Capabilities) -> Policy {
        let class = DeviceClass::of(caps);
        Policy {
            class,
            subgroup_size: caps.subgroup.size,
            gemv: gemv(class),
            gemm: GemmPolicy::of(class),
            dot: dot(class),
            slices: SlicesPolicy::of(class),
            attention: AttentionPolicy::of(class),
            scan: ScanPolicy::of(class),
        }
    }
}

/// Few columns: K over all the subgroups that there are, and rows enough to share what is loaded of x.
const FEW: GemvShape =
    GemvShape { up_to: 4, rows: 2, columns: 4, spread: true, subgroups: 4, stage_bytes: 0 };
/// Many columns.
const MANY: GemvShape =
    GemvShape { up_to: 64, rows: 4, columns: 8, spread: false, subgroups: 4, stage_bytes: 0 };

/// NVIDIA: a column.
const ONE: GemvShape = GemvShape { up_to: 1, stage_bytes: 34 << 10, ..FEW };
/// NVIDIA, up to 8 columns: what an invocation stages at a time is four loads, which are under way together, and a multiprocessor has workgroups enough to
/// compute meanwhile.
const UP_TO_8: GemvShape =
    GemvShape { up_to: 8, rows: 2, columns: 8, spread: true, subgroups: 8, stage_bytes: 18 << 10 };
/// NVIDIA, more columns.
const WIDE: GemvShape = GemvShape { columns: 16, subgroups: 8, stage_bytes: 47 << 10, ..MANY };

fn gemv(class: DeviceClass) -> GemvPolicy {
    let card = |busy_teams, shapes| GemvPolicy {
        lanes: 8,
        busy_teams,
        max_parts: 8,
        doubling: false,
        third_row: false,
        shapes,
        gated: None,
    };
    match class {
        // bench/results/2026-11-30-h200-gemv-sweep.txt and -exact-columns.txt
        // A third row: 12,288 × 4,096 in Q4_K by 8 columns in 43.7 µs instead of 47.9, in Q6_K in as many; with quarters of chunks it loses (…-slices.txt).
        DeviceClass::Nvidia => GemvPolicy {
            third_row: true,
            gated: Some(&[ONE, GemvShape { rows: 4, ..UP_TO_8 }, WIDE]),
            ..card(16_384, &[ONE, UP_TO_8, WIDE])
        },
        // By the estimates of RDNA4's compiler (docs/rdna4.md): code within the instruction cache, x staged.
        DeviceClass::Amd => card(
            8_192,
            &[GemvShape { stage_bytes: 10 << 10, ..FEW }, GemvShape { stage_bytes: 20 << 10, ..MANY }],
        ),
        // Every device has 16 KiB of shared memory, and some of it holds sums.
        DeviceClass::Other => card(8_192, &[FEW, GemvShape { stage_bytes: 15 << 10, ..MANY }]),
        DeviceClass::Software => GemvPolicy {
            lanes: 8,
            busy_teams: 1,
            max_parts: 1,
            doubling: true,
            third_row: false,
            gated: None,
            shapes: &[
                GemvShape { up_to: 8, rows: 1, subgroups: 1, ..MANY },
                GemvShape { rows: 2, subgroups: 1, ..MANY },
            ],
        },
    }
}

fn dot(class: DeviceClass) -> DotPolicy {
    const ONE: DotShape = DotShape {
        up_to: 1,
        rows: 2,
        columns: 1,
        subgroups: 8,
        long_subgroups: 8,
        long_gated: [1, 8],
        ahead: true,
    };
    const FEW: DotShape = DotShape {
        up_to: 8,
        rows: 2,
        columns: 8,
        subgroups: 8,
        long_subgroups: 8,
        long_gated: [1, 8],
        ahead: false,
    };
    let card = DotPolicy {
        lanes: 32,
        bytes: 2,
        most_columns: 8,
        busy_groups: 264,
        most_batches: 64,
        stage_bytes: 15 << 10,
        shapes: &[ONE, FEW],
    };
    match class {
        // One wide workgroup for each of 132 multiprocessors, and a power of two that shapes are multiples of; of a vocabulary two
        // (bench/results/2026-11-30-h200-dot-alone.txt, -dot-wide.txt and -tune.txt).
        DeviceClass::Nvidia => DotPolicy {
            stage_bytes: 43 << 10,
            busy_groups: 128,
            most_batches: 36,
            shapes: &[
                DotShape { rows: 1, subgroups: 16, long_subgroups: 32, long_gated: [2, 12], ..ONE },
                DotShape {
                    up_to: 4,
                    columns: 4,
                    subgroups: 16,
                    long_subgroups: 16,
                    long_gated: [1, 16],
                    ahead: true,
                    ..FEW
                },
                FEW,
            ],
            ..card
        },
        DeviceClass::Amd => DotPolicy { stage_bytes: 30 << 10, busy_groups: 128, ..card },
        DeviceClass::Other => DotPolicy { lanes: 16, busy_groups: 64, ..card },
        // llvmpipe leaves a shader's loops after 65,535 rounds in all.
        DeviceClass::Software => DotPolicy {
            lanes: 8,
            busy_groups: 4,
            most_batches: 1,
            shapes: &[DotShape {
                up_to: 8,
                rows: 2,
                columns: 8,
                subgroups: 2,
                long_subgroups: 2,
                long_gated: [1, 2],
                ahead: false,
            }],
            ..card
        },
    }
}
