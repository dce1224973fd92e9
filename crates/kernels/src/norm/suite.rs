//! Norms against their oracles: groups around the lanes' steps, heads and rows, alignments.

use super::{gated_rms_norm, l2_norm, packs, reference, rms_norm};
use crate::Kernels;
use crate::elementwise::activate;
use crate::gemm::{ConvertArgs, Packed, convert};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use zinc_plan::Activation;
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
            suite.case(format!("gated_rms_norm {name}"), |s| gated_rms(s, &shape));
        }
    }
    for (heads, group) in [(2, 32), (32, 128), (6, 64), (5, 192), (1, 512)] {
        if packs((heads * group) as u32, group as u32, kernels.subgroup_size()) {
            suite.case(format!("packed {heads} x {group}"), |s| packed(s, heads, group));
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

/// Bit for bit against the two operations that it fuses.
fn gated_rms(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let &Shape { group, rows, heads, layout } = shape;
    let width = heads * group;
    let host = |rng: &mut _| s.upload_as(&Host::random(rng, rows, width, 2.0), layout);
    let (x, gate) = (host(&mut rng)?, host(&mut rng)?);
    let weight = s.values(&rng.normals(group, 1.0))?;
    let output = || s.output_as(rows, width, layout);
    let (out, normed, apart) = (output()?, output()?, output()?);
    let (x, gate, weight, group, rows) = (x.mat(), gate.mat(), Some(&weight), group as u32, rows as u32);
    s.run(|rec| {
        let args =
            gated_rms_norm::Args { x, weight, group, eps: EPS, gate, out: out.mat(), packed: None, rows };
        gated_rms_norm::record(s.kernels(), rec, "fused", &args)?;
        let args = rms_norm::Args { x, weight, group, eps: EPS, out: normed.mat(), rows };
        rms_norm::record(s.kernels(), rec, "rms_norm", &args)?;
        let (kind, up, out) = (Activation::SwiGlu, normed.mat(), apart.mat());
        activate::record(s.kernels(), rec, "activate", &activate::Args { kind, gate, up, out, rows })
    })?;
    compare(&s.read(&out)?, &s.read(&apart)?, |_, _, _| 0.0)
}

/// Packed as a conversion of the result packs, bit for bit.
fn packed(s: &Suite<'_>, heads: usize, group: usize) -> Result<(), Failure> {
    let (mut rng, rows, width) = (s.rng(), 5, heads * group);
    let (x, gate) = (
        s.upload(&Host::random(&mut rng, rows, width, 2.0))?,
        s.upload(&Host::random(&mut rng, rows, width, 2.0))?,
    );
    let weight = s.values(&rng.normals(group, 1.0))?;
    let columns = Packed::width(width as u32);
    let output = |width| s.output_as(rows, width, Layout::Dense);
    let (out, apart) = (output(width)?, output(width)?);
    let (own, converted) = (output(columns as usize)?, output(columns as usize)?);
    let (x, gate, weight, group, rows) = (x.mat(), gate.mat(), Some(&weight), group as u32, rows as u32);
    s.run(|rec| {
        let packed = Some(Packed::within(own.mat(), rows, width as u32)?);
        let args = gated_rms_norm::Args { x, weight, group, eps: EPS, gate, out: out.mat(), packed, rows };
        gated_rms_norm::record(s.kernels(), rec, "fused", &args)?;
        let args = gated_rms_norm::Args { out: apart.mat(), packed: None, ..args };
        gated_rms_norm::record(s.kernels(), rec, "apart", &args)?;
        let out = Packed::within(converted.mat(), rows, width as u32)?;
        convert(s.kernels(), rec, "convert", &ConvertArgs { x: apart.mat(), out })
    })?;
    compare(&s.read(&out)?, &s.read(&apart)?, |_, _, _| 0.0)?;
    let [got, want]: [Result<Vec<u32>, _>; 2] = [&own, &converted].map(|p| s.read_values(p.mat().slice));
    match got? == want? {
        true => Ok(()),
        false => Err("the packed rows differ".to_owned().into()),
    }
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
