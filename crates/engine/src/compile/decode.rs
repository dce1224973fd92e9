//! One row: its attention begins at the projections, a delta net gates and norms its heads, and what decides over experts is one call.

use super::{Call, InputNorm, Shape, Stage, Step, Target, attention_shape, delta_net_shape};
use zinc_kernels::Precision;
use zinc_kernels::attention::decode;
use zinc_kernels::moe::decide;
use zinc_kernels::recurrent::delta_net;
use zinc_plan::{Cols, Plan, WeightId};

/// Joins calls where the shape has one row: [`Call::AttentionInput`] and the [`Call::Attention`] behind it (of several rows, one might see the
/// key of another, which is not in the cache yet), [`Call::DeltaNet`] and its norm, and what [`Call::Decide`] does.
pub(super) fn fuse(plan: &Plan, target: &Target<'_>, shape: Shape, steps: &mut Vec<Step>) {
    if shape.rows != 1 {
        return;
    }
    let mut i = 0;
    while i + 1 < steps.len() {
        let (first, second) = (&steps[i].call, &steps[i + 1].call);
        if let Some(call) = joined(plan, target, first, second).or_else(|| normed_heads(plan, first, second))
        {
            let input = steps.remove(i);
            steps[i].call = call;
            steps[i].ops.extend(input.ops);
            steps[i].ops.sort_unstable();
        }
        i += 1;
    }
    // Its sums have another order than the router's of many rows.
    if target.precision == Precision::Fast {
        let routes = (0..steps.len()).rev().filter(|&i| matches!(steps[i].call, Call::Route { .. }));
        for i in routes.collect::<Vec<_>>() {
            decide(plan, target, steps, i);
        }
    }
}

/// Makes one call of the route number `i`, the router and the norm before it.
fn decide(plan: &Plan, target: &Target<'_>, steps: &mut Vec<Step>, i: usize) -> Option<()> {
    let Call::Route { logits, order, out } = steps[i].call else { return None };
    let (j, normed, router) = (0..i).rev().find_map(|j| match steps[j].call {
        Call::Linear { x, weight, norm: None, bias: None, residual: None, out } if out == logits => {
            Some((j, x, weight))
        }
        _ => None,
    })?;
    let (n, RowNorm { x, norm, gate }) =
        (0..j).rev().find_map(|n| Some((n, row_norm(&steps[n].call, normed)?)))?;
    let w = plan.weight(router);
    let quads = [x, normed].iter().all(|c| c.first.is_multiple_of(4));
    let supported = decide::supports(target.policy.subgroup_size, w.k, w.m).is_ok();
    if w.format.name != "F32" || !quads || !supported {
        return None;
    }
    let mut ops = [n, j, i].map(|s| std::mem::take(&mut steps[s].ops)).concat();
    ops.sort_unstable();
    // Earlier than it was, for whoever else reads the normed row.
    let call = Call::Decide { x, norm, normed, router, logits, gate, order, out };
    steps[n] = Step { call, ops, ..steps[i].clone() };
    steps.remove(i);
    steps.remove(j);
    Some(())
}

/// A norm of whole rows, and the product of a row of weights that its call does with what is normed.
struct RowNorm {
    x: Cols,
    norm: InputNorm,
    gate: Option<(WeightId, Cols)>,
}

/// The norm of a call that gives `normed` and nothing else but the product.
fn row_norm(call: &Call, normed: Cols) -> Option<RowNorm> {
    match *call {
        Call::RmsNorm { x, weight: Some(weight), group, eps, out } if out == normed && group == x.width => {
            Some(RowNorm { x, norm: InputNorm { weight, eps }, gate: None })
        }
        Call::Chain { ref stages, eps, .. } => match stages[..] {
            [Stage::Load { x }, Stage::StoreNormed { weight, scale: None, out }, ref rest @ ..]
                if out == normed =>
            {
                let gate = match rest {
                    [] => None,
                    &[Stage::Dot { weight, out }] => Some((weight, out)),
                    _ => return None,
                };
                Some(RowNorm { x, norm: InputNorm { weight, eps }, gate })
            }
            _ => None,
        },
        _ => None,
    }
}

/// A delta net whose heads are normed and gated by the call behind it, if its kernel can do that.
fn normed_heads(plan: &Plan, net: &Call, norm: &Call) -> Option<Call> {
    let &Call::DeltaNet { q, k, v, gates, dt_bias, a, order, state, norm: None, out } = net else {
        return None;
    };
    let &Call::GatedRmsNorm { x, weight: Some(weight), group, eps, gate, packed: None, out: normed } = norm
    else {
        return None;
    };
    let fits = x == out && delta_net::norms(&delta_net_shape(plan, state, order), group);
    let norm = Some(delta_net::Norm { weight, eps, gate, out: normed });
    fits.then_some(Call::DeltaNet { q, k, v, gates, dt_bias, a, order, state, norm, out })
}

/// The call that does both, if there is a kernel.
fn joined(plan: &Plan, target: &Target<'_>, input: &Call, attention: &Call) -> Option<Call> {
    let &Call::AttentionInput { q, gated: false, k, v, norms, table, pairing, kv, out: turned, .. } = input
    else {
        return None;
    };
    let &Call::Attention { q: read, kv: seen, heads, scale, softcap, sinks, out } = attention else {
        return None;
    };
    let policy = &target.policy.attention;
    let pairs = plan.rope(table).inverse_frequencies.len() as u32;
    let stride = |c: Cols| plan.act(c.act).width;
    let supported = decode::supports(
        policy,
        target.policy.subgroup_size,
        target.caps,
        &attention_shape(plan, kv, heads),
        (pairs, norms.is_some()),
        [q, k, v, out].map(stride),
    );
    ((read, seen) == (turned, kv) && supported.is_ok()).then_some(Call::DecodeAttention {
        q,
        k,
        v,
        norms,
        table,
        pairing,
        kv,
        heads,
        scale,
        softcap,
        sinks,
        out,
    })
}
