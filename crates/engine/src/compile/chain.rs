//! Chains of operations on whole rows.
//!
//! A chain begins with a sum of experts, a norm or a sum, and goes on as long as one operation alone reads what there is: norms, sums, scales.
//! What is read by more than that is stored, and the norms that read it are computed on the way.

use super::Call;
use super::fuse::Graph;
use zinc_kernels::{chain, norm};
use zinc_plan::{Cols, Op, Plan, Scalar, WeightId};

/// A stage on the plan's buffers.
pub type Stage = chain::Stage<Cols, WeightId>;

/// The chain that begins with operation `seed`: its place, its call, its operations. Operations that are `taken` are left alone.
pub(super) fn chain(g: &Graph<'_>, seed: usize, taken: &[bool]) -> Option<(usize, Call, Vec<usize>)> {
    let mut chain = Chain::begin(g, seed, taken)?;
    while g.sole_reader(chain.last()).is_some_and(|r| !taken[r] && chain.append(r)) {}
    let place = chain.last();
    chain.end()?;
    let Chain { stages, ops, eps, width, .. } = chain;
    let call = Call::Chain { stages, width, eps: eps.unwrap_or(0.0) };
    (ops.len() > 1).then_some((place, call, ops))
}

struct Chain<'a> {
    g: &'a Graph<'a>,
    taken: &'a [bool],
    stages: Vec<Stage>,
    /// The one whose output the row is at last.
    ops: Vec<usize>,
    width: u32,
    /// Of the norms.
    eps: Option<f32>,
}

impl<'a> Chain<'a> {
    fn begin(g: &'a Graph<'a>, seed: usize, taken: &'a [bool]) -> Option<Chain<'a>> {
        let width = g.op(seed).output()?.width;
        let mut chain = Chain { g, taken, stages: vec![], ops: vec![], width, eps: None };
        match *g.op(seed) {
            Op::ExpertSum { x, choice, scale, .. } if chain.whole(x) && chain.whole(choice) => {
                chain.stages.push(Stage::Experts { x, choice, factor: scale });
            }
            Op::RmsNorm { x, .. } => {
                let weight = chain.norm(seed)?;
                chain.stages.extend([Stage::Load { x }, Stage::Norm { weight }]);
            }
            Op::Add { a, b, .. } if chain.whole(a) && chain.whole(b) => {
                chain.stages.extend([Stage::Load { x: a }, Stage::Add { x: b }]);
            }
            _ => return None,
        }
        chain.ops.push(seed);
        Some(chain)
    }

    fn last(&self) -> usize {
        self.ops[self.ops.len() - 1]
    }

    /// Whether columns are all of their buffer, so that rows have no gaps between them.
    fn whole(&self, c: Cols) -> bool {
        c.first == 0 && c.width == self.g.plan().act(c.act).width
    }

    /// The weight of a norm over the chain's rows, if operation `i` is one that it can do.
    fn norm(&mut self, i: usize) -> Option<WeightId> {
        match *self.g.op(i) {
            Op::RmsNorm { x, weight, group, eps, .. }
                if group == self.width
                    && x.width == group
                    && self.whole(x)
                    && eps == *self.eps.get_or_insert(eps) =>
            {
                weight
            }
            _ => None,
        }
    }

    /// Operation `i`, which alone reads the row, as further stages; `false` if it is none.
    fn append(&mut self, i: usize) -> bool {
        let Some(row) = self.g.op(self.last()).output() else { return false };
        // A call is named after the layer that it computes: the next one's norm is what `end` adds.
        let layer = |i: usize| self.g.plan().ops[i].layer;
        if layer(i) != layer(self.last()) {
            return false;
        }
        let (stage, op) = match *self.g.op(i) {
            Op::RmsNorm { .. } => match self.norm(i) {
                Some(weight) => (Stage::Norm { weight }, None),
                None => return false,
            },
            Op::Scale { by: Scalar::Const(by), .. } => (Stage::Scale { by }, None),
            Op::Scale { by: Scalar::Weight(weight), .. } => (Stage::ScaleBy { weight }, None),
            Op::Add { a, b, .. } => match self.summand(if a == row { b } else { a }, i) {
                Some(summand) => summand,
                None => return false,
            },
            _ => return false,
        };
        self.stages.push(stage);
        if chain::supports(&self.stages, self.width, 1).is_err() {
            self.stages.pop();
            return false;
        }
        self.ops.extend(op);
        self.ops.push(i);
        true
    }

    /// What `Add` number `reader` adds, with the norm or the gate that it alone reads.
    fn summand(&mut self, c: Cols, reader: usize) -> Option<(Stage, Option<usize>)> {
        let g = self.g;
        let own = g.writer(c).filter(|&w| !self.taken[w] && g.sole_reader(w) == Some(reader));
        if let Some(w) = own {
            match *g.op(w) {
                Op::RmsNorm { x, .. } => {
                    if let Some(weight) = self.norm(w) {
                        return Some((Stage::AddNormed { x, weight }, Some(w)));
                    }
                }
                Op::SigmoidGate { x, gate, .. } if gate.width == 1 && self.whole(x) && self.whole(gate) => {
                    return Some((Stage::AddGated { x, gate }, Some(w)));
                }
                _ => {}
            }
        }
        self.whole(c).then_some((Stage::Add { x: c }, None))
    }

    /// Stores the row, and the norms that read it.
    fn end(&mut self) -> Option<()> {
        let g = self.g;
        let last = self.last();
        let out = g.op(last).output().filter(|&out| self.whole(out))?;
        // A norm at the end can be stored as one, whose rows can be packed.
        if let Some(Stage::Norm { weight }) = self.stages.last().copied() {
            self.stages.pop();
            self.stages.push(Stage::StoreNormed { weight, scale: None, out });
            self.dots(last);
            return chain::supports(&self.stages, self.width, 1).ok();
        }
        // Stored even where norms alone read it: a call is looked at by what the layer that it is named after gives.
        self.stages.push(Stage::Store { out });
        chain::supports(&self.stages, self.width, 1).ok()?;
        let readers: Vec<usize> = g.readers_of(last).filter(|&r| !self.taken[r]).collect();
        for r in readers {
            let (Some(weight), Some(mut out)) = (self.norm(r), g.op(r).output()) else { continue };
            let (mut ops, mut scale) = (vec![r], None);
            if let Some(s) = g.sole_reader(r).filter(|&s| !self.taken[s])
                && let Op::Scale { by: Scalar::Const(by), out: scaled, .. } = *g.op(s)
            {
                ops.push(s);
                (scale, out) = (Some(by), scaled);
            }
            self.stages.push(Stage::StoreNormed { weight, scale, out });
            if chain::supports(&self.stages, self.width, 1).is_ok() {
                let stored = ops[ops.len() - 1];
                self.ops.extend(ops);
                self.dots(stored);
            } else {
                self.stages.pop();
            }
        }
        Some(())
    }

    /// The products of a single row of weights that read what operation `stored` gives: the logit of a shared expert's gate.
    fn dots(&mut self, stored: usize) {
        let g = self.g;
        let Some(row) = g.op(stored).output() else { return };
        for r in g.readers_of(stored).filter(|&r| !self.taken[r]) {
            let Op::Linear { x, weight, out } = *g.op(r) else { continue };
            let w = g.plan().weight(weight);
            if x != row || w.m != 1 || w.format.name != "F32" || !self.whole(out) {
                continue;
            }
            self.stages.push(Stage::Dot { weight, out });
            if chain::supports(&self.stages, self.width, 1).is_ok() {
                self.ops.push(r);
            } else {
                self.stages.pop();
            }
        }
    }
}

/// Has a call that stores these columns, a norm, store them in f16 too, in `out`. `false` if it does not store them, or has no room.
pub(super) fn pack(plan: &Plan, lanes: u32, call: &mut Call, x: Cols, out: Cols) -> bool {
    let whole = |c: Cols| c.first == 0 && c.width == plan.act(c.act).width;
    let (mut stages, width, eps) = match *call {
        Call::Chain { ref stages, width, eps } => (stages.clone(), width, eps),
        Call::RmsNorm { x: from, weight: Some(weight), group, eps, out: normed }
            if from.width == group && whole(from) =>
        {
            (
                vec![Stage::Load { x: from }, Stage::StoreNormed { weight, scale: None, out: normed }],
                group,
                eps,
            )
        }
        Call::SigmoidGate { x: from, gate, parts, out: gated } if whole(from) && whole(gated) => (
            vec![Stage::Load { x: from }, Stage::Gate { gate, parts }, Stage::Store { out: gated }],
            from.width,
            0.0,
        ),
        Call::GatedRmsNorm { x: from, group, ref mut packed, out: gated, .. } => {
            let packs = gated == x && packed.is_none() && norm::packs(from.width, group, lanes);
            if packs {
                *packed = Some(out);
            }
            return packs;
        }
        _ => return false,
    };
    let stores = |s: &Stage| matches!(*s, Stage::Store { out } | Stage::StoreNormed { out, .. } if out == x);
    let Some(at) = stages.iter().position(stores) else { return false };
    stages.insert(at + 1, Stage::Pack { out });
    let fits = chain::supports(&stages, width, 1).is_ok();
    if fits {
        *call = Call::Chain { stages, width, eps };
    }
    fits
}
