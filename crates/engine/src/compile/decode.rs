//! Rows that are apart: their attention begins at the projections. Of one row, a delta net gates and norms its heads, and what decides over experts is one
//! call.

use super::{Call, InputNorm, Shape, Stage, Step, Target, attention_shape, delta_net_shape};
use zinc_kernels::Precision;
use zinc_kernels::attention::decode;
use zinc_kernels::moe::decide;
use zinc_kernels::recurrent::delta_net;
use zinc_plan::{Cols, Plan, WeightId};

/// Joins calls: where each row is the only one of its sequence [`Call::AttentionInput`] and the [`Call::Attention`] behind it (else one might see the
/// key of another, which is not in the cache yet); of one row [`Call::DeltaNet`] and its norm, and what [`Call::Decide`] does.
pub(super) fn fuse(plan: &Plan, target: &Target<'_>, shape: Shape, steps: &mut Vec<Step>) {
    if !shape.apart {
        return;
    }
    let single = shape.rows == 1;
    let mut i = 0;
    while i + 1 < steps.len() {
        let (first, second) = (&steps[i].call, &steps[i + 1].call);
        let gate = steps.get(i + 2).map(|s| &s.call);
        let attention = joined(plan, target, first, second, gate);
        if let Some(call) = attention.or_else(|| normed_heads(plan, first, second).filter(|_| single)) {
            let calls = if matches!(call, Call::DecodeAttention { gated: true, .. }) { 3 } else { 2 };
            let mut ops =
                steps[i..i + calls].iter_mut().flat_map(|s| std::mem::take(&mut s.ops)).collect::<Vec<_>>();
            ops.sort_unstable();
            // A call's memory is that of its results, and it stands where attention stood.
            steps[i] = Step { call, ops, ..steps[i + 1].clone() };
            steps.drain(i + 1..i + calls);
        }
        i += 1;
    }
    // Its sums have another order than the router's of many rows.
    if target.precision == Precision::Fast && single {
        let routes = (0..steps.len()).rev().filter(|&i| matches!(steps[i].call, Call::Route { .. }));
        for i in routes.collect::<Vec<_>>() {
            decide(plan, target, steps, i);
        }
    }
}

/// Makes one call of the route number `i`, the router and the norm before it.
fn decide(plan: &Plan, target: &Target<'_>, steps: &mut Vec<Step>, i: usize) -> Option<()> {
    let Call::Route { logits, order, out } = steps[i].call else { return None };
    let (j, normed, router, bias) = (0..i).rev().find_map(|j| match steps[j].call {
        Call::Linear { x, weight, norm: None, bias, residual: None, out } if out == logits => {
            Some((j, x, weight, bias))
        }
        _ => None,
    })?;
    let (n, RowNorm { x, norm, gate }) =
        (0..j).rev().find_map(|n| Some((n, row_norm(&steps[n].call, normed)?)))?;
    let w = plan.weight(router);
    let quads = [x, normed].iter().all(|c| c.first.is_multiple_of(4));
    let supported = decide::supports(target.policy.subgroup_size, w.k, w.m).is_ok();
    let biased = bias.is_none_or(|b| plan.weight(b).format.name == "F32");
    if w.format.name != "F32" || !biased || !quads || !supported {
        return None;
    }
    let mut ops = [n, j, i].map(|s| std::mem::take(&mut steps[s].ops)).concat();
    ops.sort_unstable();
    // Earlier than it was, for whoever else reads the normed row.
    let call = Call::Decide { x, norm, normed, router, bias, logits, gate, order, out };
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
            Some(RowNorm { x, norm: InputNorm { weight, eps, sublayer: None }, gate: None })
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
                Some(RowNorm { x, norm: InputNorm { weight, eps, sublayer: None }, gate })
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

/// The call that does what is between the projections and attention, attention, and the `gate` behind it where there is one, if there is a kernel.
fn joined(
    plan: &Plan,
    target: &Target<'_>,
    input: &Call,
    attention: &Call,
    gate: Option<&Call>,
) -> Option<Call> {
    let &Call::AttentionInput { q, gated, k, v, norms, table, pairing, kv, out: turned, .. } = input else {
        return None;
    };
    let &Call::Attention { q: read, kv: seen, heads, scale, softcap, sinks, out: attended } = attention
    else {
        return None;
    };
    let out = match gate {
        _ if !gated => attended,
        Some(&Call::SigmoidGate { x, gate, parts: Some(p), out }) => {
            let size = plan.kv(kv).key_size;
            let fits = (x, gate) == (attended, q) && (p.stride, p.first, p.len) == (2 * size, size, size);
            fits.then_some(out)?
        }
        _ => return None,
    };
    let policy = &target.policy.attention;
    let pairs = plan.rope(table).inverse_frequencies.len() as u32;
    let stride = |c: Cols| plan.act(c.act).width;
    let supported = decode::supports(
        policy,
        target.policy.subgroup_size,
        target.caps,
        &attention_shape(plan, kv, heads),
        decode::Around { pairs, norms: norms.is_some(), value_norms: norms.is_some_and(|n| n.values), gated },
        [q, k, v, out].map(stride),
    );
    ((read, seen) == (turned, kv) && supported.is_ok()).then_some(Call::DecodeAttention {
        q,
        gated,
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
