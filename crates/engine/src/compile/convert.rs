//! Activations in f16 for the products that want them so.

use super::{Call, Step};
use std::collections::HashMap;
use zinc_kernels::gemm::Packed;
use zinc_kernels::product::Product;
use zinc_plan::{Act, ActId, Cols, Plan};

/// Puts a conversion before the first product that wants its rows in f16, and has all that read the same columns read its result: a plan's
/// buffers are written once, so one conversion is enough. Answers the buffers of the results, whose numbers follow those of the plan.
pub(super) fn insert(plan: &Plan, steps: &mut Vec<Step>) -> Vec<Act> {
    let mut buffers: Vec<Act> = Vec::new();
    let mut converted: HashMap<Cols, Cols> = HashMap::new();
    let mut all = Vec::with_capacity(steps.len());
    for mut step in steps.drain(..) {
        let in_f16 = matches!(step.product, Some(Product::Gemm(_)));
        if let Call::Linear { x, .. } | Call::GatedLinear { x, .. } = &mut step.call
            && in_f16
        {
            let from = *x;
            *x = *converted.entry(from).or_insert_with(|| {
                let width = Packed::width(from.width);
                let out = Cols { act: ActId((plan.acts.len() + buffers.len()) as u32), first: 0, width };
                buffers.push(Act { name: "packed", width, rows: plan.act(from.act).rows });
                let (layer, label) = (step.layer, "convert");
                all.push(Step {
                    layer,
                    label,
                    call: Call::Convert { x: from, out },
                    ops: vec![],
                    product: None,
                });
                out
            });
        }
        all.push(step);
    }
    *steps = all;
    buffers
}
