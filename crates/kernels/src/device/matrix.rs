//! The rate of cooperative matrices, in registers alone.

use super::{Effort, Failed, all_are, median_us};
use crate::launch::Launch;
use crate::{DeviceClass, Error, Kernel, Kernels};
use std::time::Duration;
use zinc_vulkan::{Binding, Capabilities, ComponentType as Type, MatrixScope, MemoryKind, RecorderOptions};

pub(super) const KERNEL: Kernel = Kernel { stem: "matrix_rate", bindings: 1, params_bytes: 8 };

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    rounds: u32,
    one: f32,
}

/// Who works together on a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `VK_KHR_cooperative_matrix`.
    Subgroup,
    /// `VK_NV_cooperative_matrix2`.
    Workgroup,
}

impl Scope {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Subgroup => "subgroup",
            Scope::Workgroup => "workgroup",
        }
    }

    /// Sums that the shader keeps, independent of each other.
    fn sums(self) -> u32 {
        match self {
            Scope::Subgroup => 8,
            Scope::Workgroup => 1,
        }
    }
}

/// A matrix product that a device can do: `[m, k] · [k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MatrixCase {
    pub scope: Scope,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Types of the factors and of the sums: `f16_f32`.
    pub types: &'static str,
    /// Invocations of the workgroup.
    pub threads: u32,
}

/// How fast it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixRate {
    /// The product.
    pub case: MatrixCase,
    /// 10¹² multiplications and additions a second.
    pub tera_per_s: f64,
}

/// The types that are measured: factors, sums, the shader's name.
const TYPES: [(Type, Type, &str); 4] = [
    (Type::F16, Type::F16, "f16_f16"),
    (Type::F16, Type::F32, "f16_f32"),
    (Type::Bf16, Type::F32, "bf16_f32"),
    (Type::I8, Type::I32, "i8_i32"),
];
/// Sizes and invocations of matrices that a workgroup shares.
const FLEXIBLE: [(u32, u32, u32, u32); 4] =
    [(64, 64, 64, 128), (128, 128, 64, 256), (128, 256, 32, 256), (256, 128, 32, 256)];

fn named(a: Type, b: Type, c: Type, result: Type) -> Option<&'static str> {
    TYPES.iter().find(|t| a == t.0 && b == t.0 && c == t.1 && result == t.1).map(|t| t.2)
}

/// Every product of these types that the device lists; in workgroup scope, of some sizes.
pub fn matrix_cases(kernels: &Kernels) -> Vec<MatrixCase> {
    cases(kernels.caps(), kernels.threads(256))
}

fn cases(caps: &Capabilities, threads: u32) -> Vec<MatrixCase> {
    let arithmetic = |types: &str| match types {
        "bf16_f32" => caps.features.bfloat16_matrix,
        "i8_i32" => caps.features.shader_i8,
        _ => caps.features.shader_f16,
    };
    let listed = caps.cooperative_matrix.iter().filter(|s| s.scope == MatrixScope::Subgroup && !s.saturating);
    let mut all: Vec<MatrixCase> = listed
        .filter_map(|s| {
            let types = named(s.a, s.b, s.c, s.result)?;
            Some(MatrixCase { scope: Scope::Subgroup, m: s.m, n: s.n, k: s.k, types, threads })
        })
        .collect();
    if let Some(flexible) =
        caps.cooperative_matrix2.as_ref().filter(|c| c.workgroup_scope && c.flexible_dimensions)
    {
        for (_, _, types) in TYPES {
            for (m, n, k, threads) in FLEXIBLE {
                let fits = |s: &&zinc_vulkan::FlexibleShape| {
                    s.scope == MatrixScope::Workgroup
                        && named(s.a, s.b, s.c, s.result) == Some(types)
                        && !s.saturating
                        && s.workgroup_invocations == threads
                        && m.is_multiple_of(s.m_granularity.max(1))
                        && n.is_multiple_of(s.n_granularity.max(1))
                        && k.is_multiple_of(s.k_granularity.max(1))
                };
                let small = m.max(n).max(k) <= flexible.flexible_max_dimension
                    && threads <= flexible.workgroup_scope_max_size;
                if small && flexible.shapes.iter().any(|s| fits(&s)) {
                    all.push(MatrixCase { scope: Scope::Workgroup, m, n, k, types, threads });
                }
            }
        }
    }
    all.retain(|case| arithmetic(case.types));
    all.dedup();
    all
}

/// Measures a product: every workgroup multiplies again and again, until the device is busy for about [`Effort::matrix_us`].
///
/// # Errors
/// What the device says; a sum that is wrong.
pub fn matrix_rate(kernels: &Kernels, case: &MatrixCase, effort: &Effort) -> Result<MatrixRate, Failed> {
    let device = kernels.device();
    // Several waves of workgroups on the largest devices, so that an incomplete last one counts little.
    let groups: u32 = if kernels.policy().class == DeviceClass::Software { 4 } else { 8192 };
    let subgroups = case.threads / kernels.subgroup_size();
    let out = device.alloc(MemoryKind::Device, 4 * u64::from(groups * subgroups), "matrix sums")?.all();
    let time = |rounds: u32, warm_up: Duration, repeats: u32| -> Result<f64, Error> {
        let options = RecorderOptions { label: "matrix rate".into(), timestamps: true, ..Default::default() };
        let mut rec = device.recorder(&options)?;
        kernels.launch(
            &mut rec,
            &Launch {
                kernel: &KERNEL,
                variant: &[("SCOPE", case.scope.name()), ("TYPES", case.types)],
                specialization: &[(0, case.threads), (1, case.m), (2, case.n), (3, case.k)],
                bindings: &[Binding::write(&out)],
                params: bytemuck::bytes_of(&Params { rounds, one: 1.0 }),
                groups: [groups, 1, 1],
                label: "matrix rate",
            },
        )?;
        median_us(kernels, &rec.finish()?, warm_up, repeats)
    };
    let mut rounds = 1;
    while rounds < MOST_ROUNDS && time(rounds, Duration::ZERO, 1)? < effort.matrix_us / 2.0 {
        rounds *= 2;
    }
    let us = time(rounds, effort.warm_up, effort.repeats)?;
    // Each matrix holds one + k in every element, and each subgroup a share of a workgroup's.
    let matrices = case.scope.sums() * if case.scope == Scope::Subgroup { subgroups } else { 1 };
    let elements = f64::from(case.m) * f64::from(case.n) * f64::from(matrices);
    let sums = device.download(&out)?;
    let sums: Vec<f64> = sums.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();
    let name = format!("{} {}x{}x{}", case.types, case.m, case.n, case.k);
    all_are(
        &name,
        sums.chunks(subgroups as usize).map(|g| g.iter().sum()),
        elements * f64::from(1 + case.k),
    )?;
    // Two products a round and one before them.
    let products = f64::from(groups * matrices) * f64::from(2 * rounds + 1);
    let operations = 2.0 * f64::from(case.m) * f64::from(case.n) * f64::from(case.k) * products;
    Ok(MatrixRate { case: *case, tera_per_s: operations / us.max(1e-3) / 1e6 })
}

/// A dispatch ends before any watchdog where the clock is wrong.
const MOST_ROUNDS: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_vulkan::{CooperativeMatrix2, FlexibleShape, MatrixShape};

    #[test]
    fn what_a_device_lists_is_measured_and_nothing_else() {
        let mut caps = Capabilities::default();
        (caps.features.shader_f16, caps.features.shader_i8) = (true, true);
        let shape = |a, c, scope| MatrixShape {
            m: 16,
            n: 16,
            k: 16,
            a,
            b: a,
            c,
            result: c,
            scope,
            saturating: false,
        };
        caps.cooperative_matrix = vec![
            shape(Type::F16, Type::F32, MatrixScope::Subgroup),
            shape(Type::F8E4M3, Type::F32, MatrixScope::Subgroup),
            shape(Type::Bf16, Type::F32, MatrixScope::Subgroup),
            shape(Type::F16, Type::F16, MatrixScope::Device),
        ];
        let flexible = FlexibleShape {
            m_granularity: 32,
            n_granularity: 32,
            k_granularity: 16,
            a: Type::I8,
            b: Type::I8,
            c: Type::I32,
            result: Type::I32,
            scope: MatrixScope::Workgroup,
            saturating: false,
            workgroup_invocations: 128,
        };
        let mut two = CooperativeMatrix2 {
            workgroup_scope: true,
            flexible_dimensions: true,
            flexible_max_dimension: 1024,
            workgroup_scope_max_size: 256,
            shapes: vec![flexible],
            ..Default::default()
        };
        caps.cooperative_matrix2 = Some(two.clone());
        let names = |caps: &Capabilities| -> Vec<_> {
            cases(caps, 256).iter().map(|c| (c.scope, c.types, c.m, c.threads)).collect()
        };
        let subgroup = (Scope::Subgroup, "f16_f32", 16, 256);
        assert_eq!(names(&caps), [subgroup, (Scope::Workgroup, "i8_i32", 64, 128)]);
        two.workgroup_scope = false;
        caps.cooperative_matrix2 = Some(two);
        assert_eq!(names(&caps), [subgroup]);
    }
}
