//! Experts: their calls, how their slots are grouped, which kernels there are.

use super::fuse::Graph;
use super::{Call, Step};
use std::collections::{HashMap, HashSet};
use zinc_kernels::Unsupported;
use zinc_kernels::gemv::ProductClass;
use zinc_kernels::moe::Grouping;
use zinc_kernels::product::{Chooser, group};
use zinc_plan::{ActId, Cols, Op, Plan, WeightId};

/// The product of an expert matrix, and its bias, whose output one operation alone reads.
struct Product {
    ops: Vec<usize>,
    x: Cols,
    weight: WeightId,
    bias: Option<WeightId>,
    choice: Cols,
}

/// The product that writes these columns for operation `reader` alone.
fn product(g: &Graph<'_>, out: Cols, reader: usize) -> Option<Product> {
    let last = g.writer(out).filter(|&w| g.sole_reader(w) == Some(reader))?;
    let (first, bias) = match *g.op(last) {
        Op::ExpertBias { x, bias, .. } => {
            (g.writer(x).filter(|&w| g.sole_reader(w) == Some(last))?, Some(bias))
        }
        _ => (last, None),
    };
    let &Op::ExpertLinear { x, weight, choice, .. } = g.op(first) else { return None };
    let ops = if first == last { vec![first] } else { vec![first, last] };
    Some(Product { ops, x, weight, bias, choice })
}

/// The experts' products that `Activate` number `i` joins.
pub(super) fn gated(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::Activate { kind, gate, up, out } = g.op(i) else { return None };
    if let Some((slices, both)) = halves(g, i, gate, up) {
        let &Op::ExpertLinear { x, weight, choice, .. } = g.op(both) else { return None };
        let call = Call::GatedExperts { x, gate: weight, up: None, biases: None, choice, kind, out };
        return Some((call, [vec![both], slices, vec![i]].concat()));
    }
    let (gate, up) = (product(g, gate, i)?, product(g, up, i)?);
    let format = |p: &Product| g.plan().weight(p.weight).format;
    if (gate.x, gate.choice, format(&gate)) != (up.x, up.choice, format(&up)) {
        return None;
    }
    let biases = match (gate.bias, up.bias) {
        (Some(gate), Some(up)) => Some((gate, up)),
        (None, None) => None,
        _ => return None,
    };
    let call = Call::GatedExperts {
        x: gate.x,
        gate: gate.weight,
        up: Some(up.weight),
        biases,
        choice: gate.choice,
        kind,
        out,
    };
    Some((call, [gate.ops, up.ops, vec![i]].concat()))
}

/// The two slices that `Activate` number `i` alone reads, where they are the halves of one product's slots, and that product.
fn halves(g: &Graph<'_>, i: usize, gate: Cols, up: Cols) -> Option<(Vec<usize>, usize)> {
    let half = |c: Cols| {
        let s = g.writer(c).filter(|&s| g.sole_reader(s) == Some(i))?;
        match *g.op(s) {
            Op::Slice { x, stride, first, len, .. } if stride == 2 * len => Some((s, x, first, len)),
            _ => None,
        }
    };
    let ((a, xa, first_a, len), (b, xb, first_b, _)) = (half(gate)?, half(up)?);
    let both = g.writer(xa)?;
    let &Op::ExpertLinear { weight, .. } = g.op(both) else { return None };
    let fits = xa == xb && (first_a, first_b) == (0, len) && g.plan().weight(weight).m == 2 * len;
    (fits && g.reads_only(both, &[a, b])).then_some((vec![a, b], both))
}

/// `ExpertLinear` number `i` with its bias.
pub(super) fn biased(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::ExpertLinear { x, weight, choice, .. } = g.op(i) else { return None };
    let b = g.sole_reader(i)?;
    let &Op::ExpertBias { bias, out, .. } = g.op(b) else { return None };
    Some((Call::ExpertLinear { x, weight, bias: Some(bias), choice, out }, vec![i, b]))
}

/// What the products of experts need to know of each other.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// The products that read a choice.
    classes: HashMap<ActId, Vec<ProductClass>>,
    /// What decides over experts: computed exactly under every policy, for near ties shall not turn.
    logits: HashSet<Cols>,
    /// How slots are grouped, of the choices that came by.
    pub groupings: HashMap<ActId, Grouping>,
}

impl Choices {
    /// Those of calls.
    pub fn of(plan: &Plan, steps: &[Step]) -> Choices {
        let mut choices = Choices::default();
        for step in steps.iter().rev() {
            match step.call {
                Call::Route { logits, .. } => _ = choices.logits.insert(logits),
                Call::AddBias { x, out, .. } if choices.logits.iter().any(|logits| logits.overlaps(out)) => {
                    choices.logits.insert(x);
                }
                _ => {}
            }
            if let Some((class, choice)) = class(plan, &step.call) {
                choices.classes.entry(choice).or_default().push(class);
            }
        }
        choices
    }

    /// Whether the columns decide over experts.
    pub fn decide(&self, out: Cols) -> bool {
        self.logits.iter().any(|logits| logits.overlaps(out))
    }

    /// Groups the slots of a choice.
    pub fn group(
        &mut self,
        by: &Chooser<'_>,
        experts: u32,
        choice: Cols,
        rows: u32,
    ) -> Result<(), Unsupported> {
        let classes = self.classes.get(&choice.act).map_or(&[][..], Vec::as_slice);
        let grouping = group(by, classes, experts, choice.width / 2, rows)?;
        self.groupings.insert(choice.act, grouping);
        Ok(())
    }

    /// How the slots of a choice are grouped.
    pub fn grouping(&self, choice: Cols) -> Result<Grouping, Unsupported> {
        self.groupings.get(&choice.act).copied().ok_or_else(|| Unsupported {
            op: "expert_linear",
            format: None,
            reason: "a choice that nobody made".into(),
        })
    }
}

/// The product of a call with experts' matrices, and the choice that it reads.
pub(super) fn class(plan: &Plan, call: &Call) -> Option<(ProductClass, ActId)> {
    let (weight, choice, gated, behind) = match *call {
        Call::ExpertLinear { weight, choice, .. } => (weight, choice, false, false),
        Call::GatedExperts { gate, up, choice, .. } => (gate, choice, true, up.is_none()),
        _ => return None,
    };
    let w = plan.weight(weight);
    let m = if behind { w.m / 2 } else { w.m };
    Some((ProductClass { format: w.format, m, k: w.k, gated }, choice.act))
}
