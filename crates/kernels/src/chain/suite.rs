//! Chains against the operations that they stand for, one by one, bit for bit.

use super::{Args, Stage, record};
use crate::elementwise::sigmoid_gate::Parts;
use crate::elementwise::{add, scale, sigmoid_gate};
use crate::gemm::{ConvertArgs, Packed, convert};
use crate::moe::expert_sum;
use crate::norm::rms_norm;
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite};
use crate::{Error, Kernels};
use std::collections::HashMap;
use zinc_testkit::{Rng, shape_classes, tolerance::PRODUCT_REL};
use zinc_vulkan::{Recorder, Slice};

const EPS: f32 = 1e-6;
const EXPERTS: usize = 11;
const TOP_K: usize = 3;

/// Names of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum M {
    Row(u32),
    Slots,
    Choice,
    Gate,
    /// Gates as wide as the row, between other columns.
    Gates,
    Out(u32),
    Column,
    Packed(u32),
}

type Chain = Vec<Stage<M, usize>>;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "chain");
    // Around the columns that a step of a subgroup's lanes takes; rows that a workgroup takes.
    let step = 4 * kernels.subgroup_size() as usize;
    let few = [step + 4, 515, 1024];
    for (i, (name, chain)) in chains().into_iter().enumerate() {
        let all = shape_classes(step).into_iter().chain([2880]);
        let mut widths: Vec<usize> = if i == 0 { all.collect() } else { few.into() };
        // Gates in parts are whole chunks of four.
        let parts = |s: &Stage<M, usize>| matches!(s, Stage::Gate { parts: Some(_), .. });
        widths.retain(|w| w.is_multiple_of(4) || !chain.iter().any(parts));
        // Of more rows than a few, operands are loaded where they are used.
        let many = (i > 0).then_some((516, 67));
        for (width, rows) in widths.into_iter().flat_map(|w| [(w, 1), (w, 5)]).chain(many) {
            suite.case(format!("{name}, {rows} x {width}"), |s| same(s, &chain, width, rows));
        }
    }
    suite.case("refusals", |s| refusals(s));
    suite.finish()
}

/// Those that models have, and every stage.
fn chains() -> Vec<(&'static str, Chain)> {
    let normed = |i: u32, scale| {
        let (weight, out) = (i as usize, M::Out(i));
        [Stage::StoreNormed { weight, scale, out }, Stage::Pack { out: M::Packed(i) }]
    };
    let store = Stage::Store { out: M::Out(0) };
    let residual = Stage::Add { x: M::Row(1) };
    let experts = |factor| Stage::Experts { x: M::Slots, choice: M::Choice, factor };
    let routed = vec![experts(None), residual, store, normed(1, None)[0]];
    let gate = Stage::AddGated { x: M::Row(0), gate: M::Gate };
    let shared = [vec![experts(None), gate, residual, store], normed(1, None).to_vec()].concat();
    let between = vec![Stage::Load { x: M::Row(0) }, Stage::Norm { weight: 0 }, residual, store];
    let between = [between, normed(1, None).into(), normed(2, None).into(), normed(3, Some(0.37)).into()];
    let scaled = vec![
        experts(Some(4)),
        Stage::Norm { weight: 1 },
        Stage::AddNormed { x: M::Row(0), weight: 2 },
        Stage::Norm { weight: 3 },
        residual,
        Stage::ScaleBy { weight: 5 },
        store,
        Stage::StoreNormed { weight: 6, scale: None, out: M::Out(1) },
    ];
    let sum = vec![Stage::Load { x: M::Row(0) }, residual, Stage::Scale { by: 1.7 }, store];
    let gate = Stage::Gate { gate: M::Row(1), parts: None };
    let gated = vec![Stage::Load { x: M::Row(0) }, gate, store, Stage::Pack { out: M::Packed(0) }];
    let parts = Some(Parts { stride: 12, first: 8, len: 4 });
    let between_others = vec![Stage::Load { x: M::Row(0) }, Stage::Gate { gate: M::Gates, parts }, store];
    let dot = Stage::Dot { weight: 2, out: M::Column };
    let logit = [vec![Stage::Load { x: M::Row(0) }], normed(1, None).to_vec(), vec![dot]].concat();
    vec![
        ("experts and residual", routed),
        ("experts and a gated one", shared),
        ("a sum under three norms", between.concat()),
        ("experts, norms, a factor", scaled),
        ("sum and norm", [sum, normed(1, Some(1.7)).into()].concat()),
        ("a gated row", gated),
        ("gates between others", between_others),
        ("a norm and a column", logit),
    ]
}

/// What chains work on.
struct Memory {
    matrices: HashMap<M, Placed>,
    vectors: Vec<Slice>,
    width: usize,
    rows: usize,
}

impl Memory {
    fn new(s: &Suite<'_>, rng: &mut Rng, width: usize, rows: usize) -> Result<Memory, Failure> {
        let mut matrices = HashMap::new();
        let rows_of = [(M::Row(0), width), (M::Row(1), width), (M::Slots, TOP_K * width), (M::Gate, 1)];
        for (m, width) in rows_of.into_iter().chain([(M::Gates, (width / 4 * 12).max(1))]) {
            let layout = if m == M::Gates { Layout::Columns } else { Layout::Dense };
            matrices.insert(m, s.upload_as(&Host::random(rng, rows, width, 2.0), layout)?);
        }
        let mut choice = Host::random(rng, rows, 2 * TOP_K, 1.0);
        for row in choice.data.chunks_exact_mut(2 * TOP_K) {
            row[..TOP_K].iter_mut().for_each(|e| *e = rng.below(EXPERTS) as f32);
        }
        matrices.insert(M::Choice, s.upload_as(&choice, Layout::Dense)?);
        let vectors: Result<_, Failure> =
            (0..7).map(|_| s.values(&rng.normals(width.max(EXPERTS), 1.0))).collect();
        Ok(Memory { matrices, vectors: vectors?, width, rows })
    }

    fn out(&self, s: &Suite<'_>, m: M) -> Result<Placed, Failure> {
        let width = match m {
            M::Packed(_) => Packed::width(self.width as u32) as usize,
            M::Column => 1,
            _ => self.width,
        };
        s.output_as(self.rows, width, Layout::Dense)
    }

    /// The stages by operations of their own: what they store.
    fn apart(&self, s: &Suite<'_>, chain: &Chain) -> Result<Vec<(M, Placed)>, Failure> {
        let (k, rows) = (s.kernels(), self.rows as u32);
        let result = |record: &dyn Fn(&mut Recorder, &Placed) -> Result<(), Error>| {
            let out = self.out(s, M::Out(0))?;
            s.run(|rec| record(rec, &out))?;
            Ok::<_, Failure>(out)
        };
        let norm = |x: &Placed, weight: usize| {
            let (x, weight, group) = (x.mat(), Some(&self.vectors[weight]), self.width as u32);
            result(&|rec, out| {
                let args = rms_norm::Args { x, weight, group, eps: EPS, out: out.mat(), rows };
                rms_norm::record(k, rec, "rms_norm", &args)
            })
        };
        let sum = |a: &Placed, b: &Placed| {
            let (a, b) = (a.mat(), b.mat());
            result(&|rec, out| add::record(k, rec, "add", &add::Args { a, b, out: out.mat(), rows }))
        };
        let product = |x: &Placed, by: scale::Factor<'_>| {
            let x = x.mat();
            result(&|rec, out| scale::record(k, rec, "scale", &scale::Args { x, by, out: out.mat(), rows }))
        };
        let of = |m: M| &self.matrices[&m];
        let mut stored: Vec<(M, Placed)> = Vec::new();
        let mut row = of(M::Row(0)).clone();
        for stage in chain {
            row = match *stage {
                Stage::Load { x } => of(x).clone(),
                Stage::Experts { x, choice, factor } => {
                    let (x, choice, factor) =
                        (of(x).mat(), of(choice).mat(), factor.map(|f| &self.vectors[f]));
                    result(&|rec, out| {
                        let args = expert_sum::Args { x, choice, factor, out: out.mat(), rows };
                        expert_sum::record(k, rec, "expert_sum", &args)
                    })?
                }
                Stage::Add { x } => sum(&row, of(x))?,
                Stage::AddGated { x, gate } => {
                    let (x, gate) = (of(x).mat(), of(gate).mat());
                    let gated = result(&|rec, out| {
                        let args = sigmoid_gate::Args { x, gate, parts: None, out: out.mat(), rows };
                        sigmoid_gate::record(k, rec, "sigmoid_gate", &args)
                    })?;
                    sum(&row, &gated)?
                }
                Stage::Gate { gate, parts } => {
                    let (x, gate) = (row.mat(), of(gate).mat());
                    result(&|rec, out| {
                        let args = sigmoid_gate::Args { x, gate, parts, out: out.mat(), rows };
                        sigmoid_gate::record(k, rec, "sigmoid_gate", &args)
                    })?
                }
                // Its order of sums is its own: compared with a sum in f64.
                Stage::Dot { .. } => row,
                Stage::AddNormed { x, weight } => sum(&row, &norm(of(x), weight)?)?,
                Stage::Norm { weight } => norm(&row, weight)?,
                Stage::Scale { by } => product(&row, scale::Factor::Const(by))?,
                Stage::ScaleBy { weight } => product(&row, scale::Factor::Weight(&self.vectors[weight]))?,
                Stage::Store { out } => {
                    stored.push((out, row.clone()));
                    row
                }
                Stage::StoreNormed { weight, scale, out } => {
                    let mut normed = norm(&row, weight)?;
                    if let Some(by) = scale {
                        normed = product(&normed, scale::Factor::Const(by))?;
                    }
                    stored.push((out, normed));
                    row
                }
                Stage::Pack { out } => {
                    let last = stored.last().map(|s| s.1.mat()).ok_or("nothing to pack".to_owned())?;
                    let packed = self.out(s, out)?;
                    let args = ConvertArgs { x: last, out: Packed::within(packed.mat(), rows, last.width)? };
                    s.run(|rec| convert(k, rec, "convert", &args))?;
                    stored.push((out, packed));
                    row
                }
            };
        }
        Ok(stored)
    }
}

fn same(s: &Suite<'_>, chain: &Chain, width: usize, rows: usize) -> Result<(), Failure> {
    let mut memory = Memory::new(s, &mut s.rng(), width, rows)?;
    for out in chain.iter().flat_map(Stage::writes) {
        memory.matrices.insert(out, memory.out(s, out)?);
    }
    let on = |m: M| Ok::<_, Failure>(memory.matrices[&m].mat());
    let stages: Result<Vec<_>, Failure> =
        chain.iter().map(|stage| stage.map(on, |v: usize| &memory.vectors[v])).collect();
    let args = Args { stages: &stages?, width: width as u32, eps: EPS, rows: rows as u32 };
    s.run(|rec| record(s.kernels(), rec, "chain", &args))?;
    let apart = memory.apart(s, chain)?;
    if let Some(Stage::Dot { weight, out }) = chain.last() {
        let stored = apart.iter().find(|(m, _)| matches!(m, M::Out(_))).ok_or("nothing stored".to_owned())?;
        let (stored, weight) = (s.read(&stored.1)?, s.read_values::<f32>(&memory.vectors[*weight])?);
        let products = |row: &[f32]| -> Vec<f64> {
            row.iter().zip(&weight).map(|(a, b)| f64::from(*a) * f64::from(*b)).collect()
        };
        let sums: Vec<f32> = stored.rows().map(|r| products(r).iter().sum::<f64>() as f32).collect();
        let sizes: Vec<f64> = stored.rows().map(|r| products(r).iter().map(|v| v.abs()).sum()).collect();
        let want = Host { width: 1, data: sums };
        s.compare(&memory.matrices[out], &want, |_, r, _| (PRODUCT_REL * sizes[r]) as f32)?;
    }
    for (name, want) in apart {
        let [got, want]: [Result<Vec<u32>, _>; 2] =
            [memory.matrices[&name].mat(), want.mat()].map(|m| s.read_values(m.slice));
        let (got, want) = (got?, want?);
        if let Some(i) = got.iter().zip(&want).position(|(a, b)| a != b) {
            let [a, b] = [got[i], want[i]].map(f32::from_bits);
            return Err(format!("element {i} of {name:?} is {a:e}, {b:e} apart").into());
        }
    }
    Ok(())
}

fn refusals(s: &Suite<'_>) -> Result<(), Failure> {
    let x = s.output_as(2, 8, Layout::Columns)?;
    let load = Stage::Load { x: x.mat() };
    let pack = Stage::Pack { out: x.mat() };
    let scale = |by| Stage::Scale { by };
    for (what, stages) in [
        ("gaps between rows", vec![load]),
        ("nothing to pack", vec![load, pack]),
        ("nothing loaded", vec![scale(1.0)]),
        ("two factors", vec![load, scale(1.0), scale(2.0)]),
        ("too many stages", vec![load; 13]),
    ] {
        let args = Args { stages: &stages, width: 8, eps: EPS, rows: 2 };
        if s.run(|rec| record(s.kernels(), rec, "chain", &args)).is_ok() {
            return Err(format!("{what} passed").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
