//! Norms against their oracles: groups around the lanes' steps, heads and rows, alignments.

use super::{add_rms_norm, l2_norm, reference, rms_norm};
use crate::Kernels;
use crate::elementwise::add;
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use zinc_testkit::{shape_classes, tolerance::NORM_REL};

const EPS: f32 = 1e-6;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "norm");
    // Groups that a subgroup takes, by the step of its lanes, and groups that a workgroup takes.
    let mut groups = shape_classes(4 * kernels.subgroup_size() as usize);
    groups.extend([64, 128, 511, 512, 513, 576, 1021, 2304, 4096, 8195]);
    for group in groups {
        for (rows, heads, layout) in [
            (1, 1, Layout::Dense),
            (3, 5, Layout::Columns),
            (2, 3, Layout::Unaligned),
            (9, 1, Layout::Columns),
        ] {
            let shape = Shape { group, rows, heads, layout };
            let name = format!("{heads} x {group}, {rows} rows, {layout:?}");
            suite.case(format!("rms_norm {name}"), |s| rms(s, &shape, true));
            suite.case(format!("rms_norm without weight {name}"), |s| rms(s, &shape, false));
            suite.case(format!("l2_norm {name}"), |s| l2(s, &shape));
            if heads == 1 {
                suite.case(format!("add_rms_norm {name}"), |s| add_rms(s, &shape));
            }
        }
    }
    suite.case("of zeros", |s| zeros(s));
    suite.case("of more heads than a grid dimension", |s| {
        rms(s, &Shape { group: 4, rows: 3, heads: 100_003, layout: Layout::Columns }, true)
    });
    suite.finish()
}

struct Shape {
    group: usize,
    rows: usize,
    heads: usize,
    layout: Layout,
}

fn near(got: &Host, want: &Host) -> Result<(), Failure> {
    compare(got, want, |w, _, _| NORM_REL * w.abs())
}

fn rms(s: &Suite<'_>, shape: &Shape, weighted: bool) -> Result<(), Failure> {
    let mut rng = s.rng();
    let &Shape { group, rows, heads, layout } = shape;
    let deviation = rng.uniform(0.01, 30.0);
    let x = Host::random(&mut rng, rows, heads * group, deviation);
    let weight = rng.normals(group, 1.0);
    let weight_on = s.values(&weight)?;
    let (x_on, out) = (s.upload_as(&x, layout)?, s.output_as(rows, heads * group, layout)?);
    let args = rms_norm::Args {
        x: x_on.mat(),
        weight: weighted.then_some(&weight_on),
        group: group as u32,
        eps: EPS,
        out: out.mat(),
        rows: rows as u32,
    };
    s.run(|rec| rms_norm::record(s.kernels(), rec, "rms_norm", &args))?;
    near(&s.read(&out)?, &reference::rms_norm(&x, weighted.then_some(&weight), group, EPS))
}

fn l2(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let &Shape { group, rows, heads, layout } = shape;
    let x = Host::random(&mut rng, rows, heads * group, 1.0);
    let scale = rng.uniform(0.05, 2.0);
    let (x_on, out) = (s.upload_as(&x, layout)?, s.output_as(rows, heads * group, layout)?);
    let (x_mat, out_mat) = (x_on.mat(), out.mat());
    let args =
        l2_norm::Args { x: x_mat, group: group as u32, eps: EPS, scale, out: out_mat, rows: rows as u32 };
    s.run(|rec| l2_norm::record(s.kernels(), rec, "l2_norm", &args))?;
    near(&s.read(&out)?, &reference::l2_norm(&x, group, EPS, scale))
}

/// Against the oracle, and bit for bit against the two operations that it fuses.
fn add_rms(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let &Shape { group: width, rows, layout, .. } = shape;
    let (a, b) = (Host::random(&mut rng, rows, width, 1.0), Host::random(&mut rng, rows, width, 1.0));
    let weight = rng.normals(width, 1.0);
    let weight_on = s.values(&weight)?;
    let (a_on, b_on) = (s.upload_as(&a, layout)?, s.upload_as(&b, layout)?);
    let outputs = || s.output_as(rows, width, layout);
    let (sum, out, sum_apart, out_apart) = (outputs()?, outputs()?, outputs()?, outputs()?);
    let (k, n) = (s.kernels(), rows as u32);
    let fused = add_rms_norm::Args {
        a: a_on.mat(),
        b: b_on.mat(),
        weight: Some(&weight_on),
        eps: EPS,
        sum: sum.mat(),
        out: out.mat(),
        rows: n,
    };
    s.run(|rec| {
        add_rms_norm::record(k, rec, "fused", &fused)?;
        add::record(
            k,
            rec,
            "add",
            &add::Args { a: a_on.mat(), b: b_on.mat(), out: sum_apart.mat(), rows: n },
        )?;
        let (x, out) = (sum_apart.mat(), out_apart.mat());
        let args =
            rms_norm::Args { x, weight: Some(&weight_on), group: width as u32, eps: EPS, out, rows: n };
        rms_norm::record(k, rec, "rms_norm", &args)
    })?;
    let want = Host { width, data: a.data.iter().zip(&b.data).map(|(a, b)| a + b).collect() };
    compare(&s.read(&sum)?, &want, |_, _, _| 0.0)?;
    near(&s.read(&out)?, &reference::rms_norm(&want, Some(&weight), width, EPS))?;
    compare(&s.read(&out)?, &s.read(&out_apart)?, |_, _, _| 0.0)
}

fn zeros(s: &Suite<'_>) -> Result<(), Failure> {
    let x = Host { width: 128, data: vec![0.0; 128] };
    let (x_on, rms_out, l2_out) = (s.upload(&x)?, s.output(1, 128)?, s.output(1, 128)?);
    s.run(|rec| {
        let (x, out) = (x_on.mat(), rms_out.mat());
        let args = rms_norm::Args { x, weight: None, group: 128, eps: EPS, out, rows: 1 };
        rms_norm::record(s.kernels(), rec, "rms_norm", &args)?;
        let args = l2_norm::Args { x, group: 128, eps: EPS, scale: 1.0, out: l2_out.mat(), rows: 1 };
        l2_norm::record(s.kernels(), rec, "l2_norm", &args)
    })?;
    compare(&s.read(&rms_out)?, &x, |_, _, _| 0.0)?;
    compare(&s.read(&l2_out)?, &x, |_, _, _| 0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
