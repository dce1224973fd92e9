//! A plan, compiled for a number of rows: which kernels are called in which order, and where activations lie.
//!
//! Nothing here touches a device. The kernels' own `select` says whether there is a variant for an operation; its answer is the
//! gate, and there is no second list.

mod call;
mod chain;
mod convert;
mod decode;
mod experts;
mod fold;
mod fuse;
mod order;
mod scratch;
mod select;
#[cfg(test)]
mod tests;
mod work;

use crate::{Products, Unsupported};
pub use call::{Call, InputNorm, Sublayer};
pub use chain::Stage;
use experts::Choices;
use scratch::Alias;
pub use scratch::{Place, Scratch};
pub(crate) use select::{attention_shape, delta_net_shape};
use std::collections::HashMap;
use zinc_kernels::gemv::{Cut, ProductClass};
use zinc_kernels::kv::KvType;
use zinc_kernels::moe::Grouping;
use zinc_kernels::product::{Chooser, Product};
use zinc_kernels::{Policy, Precision};
use zinc_plan::{ActId, Op, Plan, Rows, WeightId};
use zinc_vulkan::Capabilities;

/// For which batches a schedule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of the batch.
    pub rows: u32,
    /// How many of them, the last ones, have logits. With 0, what only the head reads is left out.
    pub logit_rows: u32,
    /// Each row is the only one of its sequence: none sees what another one of the batch writes.
    pub apart: bool,
}

impl Shape {
    /// Rows of any sequences. A single one is apart from others.
    pub fn new(rows: u32, logit_rows: u32) -> Shape {
        Shape { rows, logit_rows, apart: rows == 1 }
    }

    /// Rows that each have logits and are the only one of their sequence.
    pub fn apart(rows: u32) -> Shape {
        Shape { rows, logit_rows: rows, apart: true }
    }

    /// How many rows of the batch a buffer has.
    pub fn of(self, rows: Rows) -> u32 {
        match rows {
            Rows::Batch => self.rows,
            Rows::Logits => self.logit_rows,
        }
    }

    /// How many of a buffer's rows lie side by side in their sequence: where each sequence has logits of its last row alone, as many as
    /// the longest part has at least if the others have one each.
    pub fn run(self, rows: u32) -> u32 {
        if rows == self.rows { rows.saturating_sub(self.logit_rows.max(1)) + 1 } else { 1 }
    }
}

/// A device as the compiler sees it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// What it can do.
    pub caps: &'a Capabilities,
    /// Tuning of the kernels for it.
    pub policy: &'a Policy,
    /// Which arithmetic kernels may use.
    pub precision: Precision,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// How exact products are cut.
    pub cut: &'a Cut,
    /// Fuse operations. Off, each operation is a call of its own.
    pub fuse: bool,
    /// Let every activation keep its memory until the end of the step, so that each can be looked at; else they share it.
    pub keep: bool,
}

impl<'a> Target<'a> {
    /// What the choice of a product's kernel depends on.
    pub fn chooser(&self) -> Chooser<'a> {
        let &Target { caps, policy, precision, cut, .. } = self;
        Chooser { caps, policy, precision, cut }
    }
}

/// One call and what it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Layer, or `None` before the first and after the last.
    pub layer: Option<u32>,
    /// Label of the operation at whose place the call stands.
    pub label: &'static str,
    /// The call.
    pub call: Call,
    /// Operations of the plan that it does.
    pub ops: Vec<usize>,
    /// The kernel of a product; `None` for every other call.
    pub product: Option<Product>,
    /// Memory that the call needs beside its operands: behind the rows of this buffer. A delta net that has it is done in chunks.
    pub work: Option<ActId>,
}

impl Step {
    /// The product's class and columns, where the call is one of whole matrices.
    fn class(&self, plan: &Plan, shape: Shape) -> Option<(ProductClass, u32)> {
        let (weight, gated, out) = match self.call {
            Call::Linear { weight, out, .. } => (weight, false, out),
            Call::GatedLinear { gate, out, .. } => (gate, true, out),
            _ => return None,
        };
        let w = plan.weight(weight);
        let class = ProductClass { format: w.format, m: w.m, k: w.k, gated };
        Some((class, shape.of(plan.act(out.act).rows)))
    }

    /// `3.ffn_down`, or the label alone outside the layers.
    pub fn full_label(&self) -> String {
        match self.layer {
            Some(layer) => format!("{layer}.{}", self.label),
            None => self.label.into(),
        }
    }
}

/// A compiled plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// For which batches.
    pub shape: Shape,
    /// The calls in order.
    pub steps: Vec<Step>,
    /// Where activations lie.
    pub scratch: Scratch,
    /// How the slots of each choice of experts are grouped.
    pub groupings: HashMap<ActId, Grouping>,
}

impl Schedule {
    /// The products, their kernels and how they are cut: those that are alike together.
    pub fn products(&self, plan: &Plan) -> Vec<Products> {
        let mut products: Vec<Products> = Vec::new();
        for step in &self.steps {
            let (Some(product), Some(out)) = (step.product, step.call.writes().first().copied()) else {
                continue;
            };
            let columns = self.shape.of(plan.act(out.act).rows);
            let dense = |weight: WeightId, gated: bool| {
                let w = plan.weight(weight);
                (ProductClass { format: w.format, m: w.m, k: w.k, gated }, None)
            };
            let (class, experts) = match (&step.call, experts::class(plan, &step.call)) {
                (_, Some((class, choice))) => (class, self.groupings.get(&choice).copied()),
                (&Call::Linear { weight, .. }, _) => dense(weight, false),
                (&Call::GatedLinear { gate, .. }, _) => dense(gate, true),
                _ => continue,
            };
            let alike = |p: &&mut Products| {
                (p.class, p.columns, p.experts, p.product) == (class, columns, experts, product)
            };
            match products.iter_mut().find(alike) {
                Some(alike) => alike.count += 1,
                None => products.push(Products { class, columns, experts, count: 1, product }),
            }
        }
        products
    }
}

/// Compiles a plan for a device and a batch shape.
///
/// # Errors
/// [`Unsupported`] with operation, layer, weight format and reason where there is no kernel; the caller takes fewer rows.
pub fn compile(plan: &Plan, target: &Target<'_>, shape: Shape) -> Result<Schedule, Unsupported> {
    Compiler::new(plan, target).compile(shape)
}

/// Compiles a plan for many shapes: what they have in common is worked out once.
pub(crate) struct Compiler<'a> {
    plan: &'a Plan,
    target: &'a Target<'a>,
    /// The calls, not cut yet, by whether any rows have logits and whether all have: on more of a shape they do not depend.
    calls: HashMap<(bool, bool), Vec<Step>>,
    products: select::Known,
}

impl<'a> Compiler<'a> {
    /// For a plan and a device.
    pub(crate) fn new(plan: &'a Plan, target: &'a Target<'a>) -> Compiler<'a> {
        Compiler { plan, target, calls: HashMap::new(), products: select::Known::new() }
    }

    /// As [`compile`].
    pub(crate) fn compile(&mut self, shape: Shape) -> Result<Schedule, Unsupported> {
        let (plan, target) = (self.plan, self.target);
        let logits = (shape.logit_rows > 0, shape.logit_rows == shape.rows);
        let mut steps = match self.calls.get(&logits) {
            Some(steps) => steps.clone(),
            None => {
                let steps = fuse::lower(&fuse::Graph::new(plan, shape), target.fuse);
                self.calls.entry(logits).or_insert(steps).clone()
            }
        };
        let mut choices = Choices::of(plan, &steps);
        // What only single rows fuse has values that steps of many rows do not: where each is looked at, it is done apart.
        let single = target.fuse && !target.keep;
        if single {
            decode::fuse(plan, target, shape, &mut steps);
        }
        for step in &mut steps {
            let so_far = (&mut choices, &mut self.products);
            step.product = select::select(plan, target, step, shape, so_far)?;
        }
        if single {
            fold::norms(plan, &mut steps);
            if shape.rows == 1 {
                fold::sublayers(plan, &mut steps);
            }
        }
        let aliases: Vec<Alias> = plan.ops.iter().filter_map(|node| logit_rows(&node.op, shape)).collect();
        // A choice's lists follow its rows.
        let mut lists: Vec<(ActId, u64)> =
            choices.groupings.iter().map(|(&act, g)| (act, g.list_bytes())).collect();
        let mut packed = convert::insert(plan, target.policy.subgroup_size, &mut steps);
        if target.fuse {
            order::order(&mut steps, &aliases);
        }
        work::insert(plan, target, shape, &mut steps, &mut packed, &mut lists);
        let scratch = scratch::assign(plan, &packed, &steps, (&aliases, &lists), shape, !target.keep);
        Ok(Schedule { shape, steps, scratch, groupings: choices.groupings })
    }
}

/// `SelectLogits` as a part of its input: the rows that want logits are the last ones.
fn logit_rows(op: &Op, shape: Shape) -> Option<Alias> {
    match *op {
        Op::SelectLogits { x, out } => {
            Some(Alias { act: out.act, of: x, first_row: shape.rows - shape.logit_rows })
        }
        _ => None,
    }
}
