//! Norms within the products that read them.

use super::{Call, InputNorm, Step};
use std::collections::HashMap;
use zinc_kernels::product::Product;
use zinc_plan::{Cols, Plan};

/// Leaves out each norm of whole rows that only integer-dot products read, where these hold a row at once: they round it anyway, so it costs them
/// a few instructions, and the norm's dispatch and barrier are saved.
pub(super) fn norms(plan: &Plan, steps: &mut Vec<Step>) {
    let mut readers: HashMap<Cols, Vec<usize>> = HashMap::new();
    for (i, step) in steps.iter().enumerate() {
        for read in step.call.reads() {
            readers.entry(read).or_default().push(i);
        }
    }
    let mut folded = vec![false; steps.len()];
    for i in 0..steps.len() {
        let Call::RmsNorm { x, weight: Some(weight), group, eps, out } = steps[i].call else { continue };
        let overlaps = |c: &Cols| *c != out && c.overlaps(out);
        if group != x.width || readers.keys().any(overlaps) || plan.kept().any(|kept| kept.overlaps(out)) {
            continue;
        }
        let readers = readers.get(&out).map_or(&[][..], Vec::as_slice);
        if readers.is_empty() || !readers.iter().all(|&r| takes(plan, &steps[r], out)) {
            continue;
        }
        for &r in readers {
            if let Call::Linear { x: input, norm, .. } | Call::GatedLinear { x: input, norm, .. } =
                &mut steps[r].call
            {
                (*input, *norm) = (x, Some(InputNorm { weight, eps }));
            }
        }
        let ops = std::mem::take(&mut steps[i].ops);
        steps[readers[0]].ops.splice(0..0, ops);
        folded[i] = true;
    }
    let mut folded = folded.into_iter();
    steps.retain(|_| !folded.next().unwrap_or(false));
}

/// Whether a step is a product that can norm its input, and reads it as nothing else.
fn takes(plan: &Plan, step: &Step, input: Cols) -> bool {
    let Some(Product::Dot(tile)) = step.product else { return false };
    match step.call {
        Call::Linear { x, weight, residual, .. } => {
            let w = plan.weight(weight);
            x == input && residual.is_none_or(|r| !r.overlaps(input)) && tile.holds(w.format, w.k)
        }
        Call::GatedLinear { x, gate, .. } => {
            let w = plan.weight(gate);
            x == input && tile.holds(w.format, w.k)
        }
        _ => false,
    }
}
