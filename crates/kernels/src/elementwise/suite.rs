//! Elementwise operations against their oracles: widths around a vector and a workgroup, alignments, extreme inputs.

use super::{activate, add, add_bias, reference, scale, sigmoid_gate, slice, softcap};
use crate::Kernels;
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite};
use zinc_plan::Activation;
use zinc_testkit::{Rng, shape_classes, tolerance::ACTIVATION_REL};

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "elementwise");
    let mut widths = shape_classes(4);
    widths.extend(shape_classes(512));
    for width in widths {
        for (rows, layout) in [(1, Layout::Dense), (3, Layout::Columns), (5, Layout::Unaligned)] {
            let shape = Shape { rows, width, layout };
            let name = format!("{rows} x {width}, {layout:?}");
            suite.case(format!("add {name}"), |s| sum(s, &shape));
            suite.case(format!("scale {name}"), |s| scaled(s, &shape));
            suite.case(format!("softcap {name}"), |s| capped(s, &shape));
            for kind in
                [Activation::SwiGlu, Activation::GeGlu, Activation::OaiSwiGlu { alpha: 1.702, limit: 7.0 }]
            {
                suite.case(format!("activate {kind:?} {name}"), |s| activated(s, kind, &shape));
            }
            suite.case(format!("sigmoid_gate {name}"), |s| gated(s, &shape));
        }
    }
    for (parts, stride, first, len) in
        [(1, 1, 0, 1), (3, 5, 2, 3), (16, 512, 256, 256), (2, 768, 0, 384), (7, 4, 3, 1)]
    {
        for layout in [Layout::Columns, Layout::Unaligned] {
            let name = format!("slice {len} from {first} of {parts} x {stride}, {layout:?}");
            suite.case(name, |s| sliced(s, [parts, stride, first, len], layout));
            if len % 4 == 0 {
                let name = format!("sigmoid_gate by {len} from {first} of {parts} x {stride}, {layout:?}");
                suite.case(name, |s| gated_by_parts(s, [parts, stride, first, len], layout));
            }
        }
    }
    suite.finish()
}

struct Shape {
    rows: usize,
    width: usize,
    layout: Layout,
}

impl Shape {
    /// Mostly normal values, some at which exp and tanh overflow.
    fn host(&self, rng: &mut Rng) -> Host {
        let mut host = Host::random(rng, self.rows, self.width, 2.0);
        for v in host.data.iter_mut() {
            match rng.below(16) {
                0 => *v *= 100.0,
                1 => *v = 0.0,
                _ => {}
            }
        }
        host
    }

    fn output(&self, s: &Suite<'_>) -> Result<Placed, Failure> {
        s.output_as(self.rows, self.width, self.layout)
    }
}

/// `add` and `add_bias`, exactly.
fn sum(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let (a, b, bias) = (shape.host(&mut rng), shape.host(&mut rng), rng.normals(shape.width, 1.0));
    let (a_on, b_on) = (s.upload_as(&a, shape.layout)?, s.upload_as(&b, shape.layout)?);
    let (out, biased, bias_on) = (shape.output(s)?, shape.output(s)?, s.values(&bias)?);
    let (x, rows) = (a_on.mat(), shape.rows as u32);
    s.run(|rec| {
        add::record(s.kernels(), rec, "add", &add::Args { a: x, b: b_on.mat(), out: out.mat(), rows })?;
        let args = add_bias::Args { x, bias: &bias_on, out: biased.mat(), rows };
        add_bias::record(s.kernels(), rec, "add_bias", &args)
    })?;
    let want = Host { width: a.width, data: a.data.iter().zip(&b.data).map(|(a, b)| a + b).collect() };
    s.compare(&out, &want, |_, _, _| 0.0)?;
    let want = a.data.iter().enumerate().map(|(i, a)| a + bias[i % a_width(&a_on)]).collect();
    s.compare(&biased, &Host { width: a_on.mat().width as usize, data: want }, |_, _, _| 0.0)
}

fn a_width(placed: &Placed) -> usize {
    placed.mat().width as usize
}

/// By a constant and by a weight, exactly.
fn scaled(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let (x, factor) = (shape.host(&mut rng), rng.normal());
    let (x_on, weight) = (s.upload_as(&x, shape.layout)?, s.values(&[factor])?);
    let want = Host { width: x.width, data: x.data.iter().map(|v| v * factor).collect() };
    for by in [scale::Factor::Const(factor), scale::Factor::Weight(&weight)] {
        let out = shape.output(s)?;
        let args = scale::Args { x: x_on.mat(), by, out: out.mat(), rows: shape.rows as u32 };
        s.run(|rec| scale::record(s.kernels(), rec, "scale", &args))?;
        s.compare(&out, &want, |_, _, _| 0.0)?;
    }
    Ok(())
}

fn capped(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let x = shape.host(&mut s.rng());
    let (x_on, out, cap) = (s.upload_as(&x, shape.layout)?, shape.output(s)?, 30.0);
    let args = softcap::Args { x: x_on.mat(), cap, out: out.mat(), rows: shape.rows as u32 };
    s.run(|rec| softcap::record(s.kernels(), rec, "softcap", &args))?;
    s.compare(&out, &reference::softcap(&x, cap), |_, _, _| ACTIVATION_REL * cap)
}

fn activated(s: &Suite<'_>, kind: Activation, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let (gate, up) = (shape.host(&mut rng), shape.host(&mut rng));
    let (gate_on, up_on) = (s.upload_as(&gate, shape.layout)?, s.upload_as(&up, shape.layout)?);
    let out = shape.output(s)?;
    let args = activate::Args {
        kind,
        gate: gate_on.mat(),
        up: up_on.mat(),
        out: out.mat(),
        rows: shape.rows as u32,
    };
    s.run(|rec| activate::record(s.kernels(), rec, "activate", &args))?;
    s.compare(&out, &reference::activate(kind, &gate, &up), |_, row, column| {
        let i = row * shape.width + column;
        ACTIVATION_REL * gate.data[i].abs() * (up.data[i].abs() + 1.0)
    })
}

/// By a gate as wide as the input and by one of one column.
fn gated(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let x = shape.host(&mut rng);
    let x_on = s.upload_as(&x, shape.layout)?;
    let one = Host::random(&mut rng, shape.rows, 1, 2.0);
    for gate in [shape.host(&mut rng), one] {
        let (gate_on, out) = (s.upload_as(&gate, shape.layout)?, shape.output(s)?);
        let args = sigmoid_gate::Args {
            x: x_on.mat(),
            gate: gate_on.mat(),
            parts: None,
            out: out.mat(),
            rows: shape.rows as u32,
        };
        s.run(|rec| sigmoid_gate::record(s.kernels(), rec, "sigmoid_gate", &args))?;
        s.compare(&out, &reference::sigmoid_gate(&x, &gate), |_, row, column| {
            ACTIVATION_REL * x.data[row * x.width + column].abs()
        })?;
    }
    Ok(())
}

/// By parts of wider columns: as by a slice of them, bit for bit.
fn gated_by_parts(
    s: &Suite<'_>,
    [parts, stride, first, len]: [usize; 4],
    layout: Layout,
) -> Result<(), Failure> {
    let (mut rng, rows) = (s.rng(), 3);
    let on = |rng: &mut Rng, width| s.upload_as(&Host::random(rng, 3, width, 2.0), layout);
    let (x, gate) = (on(&mut rng, parts * len)?, on(&mut rng, parts * stride)?);
    let output = || s.output_as(3, parts * len, layout);
    let (out, sliced, apart) = (output()?, output()?, output()?);
    let [stride, first, len] = [stride, first, len].map(|n| n as u32);
    let (x, gate) = (x.mat(), gate.mat());
    s.run(|rec| {
        let parts = Some(sigmoid_gate::Parts { stride, first, len });
        let args = sigmoid_gate::Args { x, gate, parts, out: out.mat(), rows };
        sigmoid_gate::record(s.kernels(), rec, "fused", &args)?;
        let args = slice::Args { x: gate, stride, first, len, out: sliced.mat(), rows };
        slice::record(s.kernels(), rec, "slice", &args)?;
        let args = sigmoid_gate::Args { x, gate: sliced.mat(), parts: None, out: apart.mat(), rows };
        sigmoid_gate::record(s.kernels(), rec, "sigmoid_gate", &args)
    })?;
    let want = s.read(&apart)?;
    s.compare(&out, &want, |_, _, _| 0.0)
}

fn sliced(s: &Suite<'_>, [parts, stride, first, len]: [usize; 4], layout: Layout) -> Result<(), Failure> {
    let x = Host::random(&mut s.rng(), 3, parts * stride, 1.0);
    let (x_on, out) = (s.upload_as(&x, layout)?, s.output_as(3, parts * len, layout)?);
    let [stride_, first_, len_] = [stride, first, len].map(|n| n as u32);
    let args =
        slice::Args { x: x_on.mat(), stride: stride_, first: first_, len: len_, out: out.mat(), rows: 3 };
    s.run(|rec| slice::record(s.kernels(), rec, "slice", &args))?;
    s.compare(&out, &reference::slice(&x, stride, first, len), |_, _, _| 0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
