//! Activations in f16 for the products that want them so.

use super::chain::pack;
use super::{Call, Step};
use std::collections::HashMap;
use zinc_kernels::gemm::Packed;
use zinc_kernels::product::Product;
use zinc_plan::{Act, ActId, Cols, Plan};

/// Puts a conversion before the first product that wants its rows in f16, and has all that read the same columns read its result: a plan's
/// buffers are written once, so one conversion is enough. What writes whole rows converts them itself, on a device with subgroups
/// of so many lanes. Answers the buffers of the results, whose numbers follow those of the plan.
pub(super) fn insert(plan: &Plan, lanes: u32, steps: &mut Vec<Step>) -> Vec<Act> {
    let mut buffers: Vec<Act> = Vec::new();
    let mut converted: HashMap<(Cols, u32), Cols> = HashMap::new();
    let mut all = Vec::with_capacity(steps.len());
    for mut step in steps.drain(..) {
        if matches!(step.product, Some(Product::Gemm(_)))
            && let Some((x, parts)) = columns(plan, &mut step.call)
        {
            let from = *x;
            *x = *converted.entry((from, parts)).or_insert_with(|| {
                let width = parts * Packed::width(from.width / parts);
                let out = Cols { act: ActId((plan.acts.len() + buffers.len()) as u32), first: 0, width };
                buffers.push(Act { name: "packed", width, rows: plan.act(from.act).rows });
                let packed = parts == 1
                    && all.iter_mut().rev().any(|s: &mut Step| pack(plan, lanes, &mut s.call, from, out));
                if !packed {
                    let (layer, label) = (step.layer, "convert");
                    let call = Call::Convert { x: from, parts, out };
                    all.push(Step { layer, label, call, ops: vec![], product: None, work: None });
                }
                out
            });
        }
        all.push(step);
    }
    *steps = all;
    buffers
}

/// The columns that a product reads, and how many parts of a row are columns of their own: with experts' matrices each slot may have one.
fn columns<'a>(plan: &Plan, call: &'a mut Call) -> Option<(&'a mut Cols, u32)> {
    match call {
        Call::Linear { x, .. } | Call::GatedLinear { x, .. } => Some((x, 1)),
        Call::ExpertLinear { x, weight, .. } | Call::GatedExperts { x, gate: weight, .. } => {
            let parts = x.width / plan.weight(*weight).k;
            Some((x, parts))
        }
        _ => None,
    }
}
