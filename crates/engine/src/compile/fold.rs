//! Norms within the products that read them, and the sums before the norms.

use super::{Call, InputNorm, Stage, Step, Sublayer};
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
            set_input(&mut steps[r].call, x, InputNorm { weight, eps, sublayer: None });
        }
        let ops = std::mem::take(&mut steps[i].ops);
        steps[readers[0]].ops.splice(0..0, ops);
        folded[i] = true;
    }
    let mut folded = folded.into_iter();
    steps.retain(|_| !folded.next().unwrap_or(false));
}

/// Leaves out each chain that ends a sublayer, by a norm, a sum, perhaps a factor and a second norm that only integer-dot products of a single row read:
/// they do it themselves, and the first of them stores the row. Each workgroup then reads two rows more, which takes less than the chain's dispatch.
pub(super) fn sublayers(plan: &Plan, steps: &mut Vec<Step>) {
    let mut folded = vec![false; steps.len()];
    for i in 0..steps.len() {
        let Some(end) = SublayerEnd::of(&steps[i].call) else { continue };
        let SublayerEnd { x, norm, normed, mut sublayer } = end;
        let readers: Vec<usize> =
            (0..steps.len()).filter(|&r| steps[r].call.reads().iter().any(|c| c.overlaps(normed))).collect();
        let fits = |&r: &usize| ends_sublayers(&steps[r], sublayer) && takes(plan, &steps[r], normed);
        if readers.is_empty() || !readers.iter().all(fits) || plan.kept().any(|kept| kept.overlaps(normed)) {
            continue;
        }
        // The first of them stores the row: too late for who reads it before.
        let reads_row =
            |s: &Step| s.call.reads().iter().any(|c| sublayer.out.is_some_and(|out| c.overlaps(out)));
        if steps[i + 1..readers[0].max(i + 1)].iter().any(reads_row) {
            continue;
        }
        for &r in &readers {
            set_input(&mut steps[r].call, x, InputNorm { sublayer: Some(sublayer), ..norm });
            sublayer.out = None;
        }
        let ops = std::mem::take(&mut steps[i].ops);
        steps[readers[0]].ops.splice(0..0, ops);
        folded[i] = true;
    }
    let mut folded = folded.into_iter();
    steps.retain(|_| !folded.next().unwrap_or(false));
}

/// What a chain at the end of a sublayer does.
struct SublayerEnd {
    x: Cols,
    norm: InputNorm,
    normed: Cols,
    sublayer: Sublayer,
}

impl SublayerEnd {
    fn of(call: &Call) -> Option<SublayerEnd> {
        let Call::Chain { stages, eps, .. } = call else { return None };
        let (&[Stage::Load { x }, Stage::Norm { weight }, Stage::Add { x: row }], rest) =
            stages.split_first_chunk::<3>()?
        else {
            return None;
        };
        let (scale, rest) = match rest {
            [Stage::ScaleBy { weight }, rest @ ..] => (Some(*weight), rest),
            rest => (None, rest),
        };
        let &[Stage::Store { out }, Stage::StoreNormed { weight: of_row, scale: None, out: normed }] = rest
        else {
            return None;
        };
        let norm = InputNorm { weight: of_row, eps: *eps, sublayer: None };
        Some(SublayerEnd { x, norm, normed, sublayer: Sublayer { weight, row, scale, out: Some(out) } })
    }
}

/// Whether a step is a product whose operands leave room for a sublayer's.
fn ends_sublayers(step: &Step, sublayer: Sublayer) -> bool {
    match step.call {
        Call::Linear { bias, residual, .. } => bias.is_none() && residual.is_none(),
        Call::GatedLinear { .. } => sublayer.scale.is_none(),
        _ => false,
    }
}

fn set_input(call: &mut Call, x: Cols, by: InputNorm) {
    if let Call::Linear { x: input, norm, .. } | Call::GatedLinear { x: input, norm, .. } = call {
        (*input, *norm) = (x, Some(by));
    }
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
