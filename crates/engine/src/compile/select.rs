//! The gate: the kernels' own selection for each call.

use super::{Call, Shape, Step, Target};
use crate::Unsupported;
use zinc_kernels::gemv::Tile;
use zinc_kernels::{attention, embed, gemv};
use zinc_plan::{Plan, WeightId};

/// The kernel for a step: how it is cut, if it is a product.
pub(super) fn select(
    plan: &Plan,
    target: &Target<'_>,
    step: &Step,
    shape: Shape,
) -> Result<Option<Tile>, Unsupported> {
    let rows = step.call.writes().first().map_or(shape.rows, |c| shape.of(plan.act(c.act).rows));
    let product = |weight: WeightId, gated: bool| {
        let w = plan.weight(weight);
        gemv::select(target.policy, w.format, w.m, w.k, rows, gated).map(Some)
    };
    let answer = match step.call {
        Call::Embed { table, .. } => {
            embed::supports(plan.weight(table).format, plan.weight(table).k).map(|()| None)
        }
        Call::Linear { weight, .. } => product(weight, false),
        Call::GatedLinear { gate, .. } => product(gate, true),
        Call::Attention { kv, heads, .. } => {
            let shape = attention_shape(plan, kv, heads);
            let policy = &target.policy.attention;
            attention::select(policy, target.policy.subgroup_size, target.caps, &shape).map(|_| None)
        }
        // One variant for all shapes; what is no shape at all is refused when it is recorded.
        Call::RmsNorm { .. }
        | Call::AddRmsNorm { .. }
        | Call::L2Norm { .. }
        | Call::Rope { .. }
        | Call::KvWrite { .. }
        | Call::AttentionInput { .. }
        | Call::Add { .. }
        | Call::AddBias { .. }
        | Call::Scale { .. }
        | Call::Softcap { .. }
        | Call::Activate { .. }
        | Call::SigmoidGate { .. }
        | Call::Slice { .. } => Ok(None),
    };
    answer.map_err(|e| Unsupported {
        op: e.op.into(),
        layer: step.layer,
        label: step.label.into(),
        format: e.format.unwrap_or("-").into(),
        rows,
        reason: e.reason,
    })
}

/// What the choice of an attention kernel depends on.
pub(crate) fn attention_shape(plan: &Plan, kv: zinc_plan::KvId, heads: u32) -> attention::Shape {
    let spec = plan.kv(kv);
    attention::Shape { heads, kv_heads: spec.heads, key_size: spec.key_size, value_size: spec.value_size }
}
