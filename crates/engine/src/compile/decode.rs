//! One row: its attention begins at the projections.

use super::{Call, Shape, Step, Target, attention_shape};
use zinc_kernels::attention::decode;
use zinc_plan::{Cols, Plan};

/// Makes one call of [`Call::AttentionInput`] and the [`Call::Attention`] behind it, where the shape has one row: of several, one might see the
/// key of another, which is not in the cache yet.
pub(super) fn fuse(plan: &Plan, target: &Target<'_>, shape: Shape, steps: &mut Vec<Step>) {
    if shape.rows != 1 {
        return;
    }
    let mut i = 0;
    while i + 1 < steps.len() {
        if let Some(call) = joined(plan, target, &steps[i].call, &steps[i + 1].call) {
            let input = steps.remove(i);
            steps[i].call = call;
            steps[i].ops.extend(input.ops);
            steps[i].ops.sort_unstable();
        }
        i += 1;
    }
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
