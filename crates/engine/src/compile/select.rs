//! The gate: the kernels' own selection for each call.

use super::experts::{Choices, class};
use super::{Call, Shape, Step, Target};
use crate::Unsupported;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use zinc_kernels::gemv::ProductClass;
use zinc_kernels::moe::Grouping;
use zinc_kernels::product::{self, Chooser, Product};
use zinc_kernels::{Precision, attention, chain, elementwise, embed, kv, norm, recurrent, rope};
use zinc_plan::{HeadOrder, KvId, Plan, RopeId, StateId, StateSpec, WeightId};

/// The kernels of products: layers have the same ones.
pub(super) type Known = BTreeMap<Key, Product>;

/// A product's class, its columns, how they are grouped if they are slots, and whether it is exact under every policy.
type Key = (ProductClass, u32, Option<Grouping>, bool);

/// Whether there is a kernel for a step, and which if it is a product.
pub(super) fn select(
    plan: &Plan,
    target: &Target<'_>,
    step: &Step,
    shape: Shape,
    (choices, known): (&mut Choices, &mut Known),
) -> Result<Option<Product>, Unsupported> {
    let out = step.call.writes().first().copied();
    let rows = out.map_or(shape.rows, |c| shape.of(plan.act(c.act).rows));
    let mut product = |class: ProductClass, grouping: Option<Grouping>, exact: bool| {
        let own = target.chooser();
        let by = if exact { Chooser { precision: Precision::Exact, ..own } } else { own };
        Ok(Some(match known.entry((class, rows, grouping, exact)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(match grouping {
                None => product::select(&by, &class, rows)?,
                Some(grouping) => product::select_experts(&by, &class, &grouping)?,
            }),
        }))
    };
    let dense = |weight: WeightId, gated: bool| {
        let w = plan.weight(weight);
        ProductClass { format: w.format, m: w.m, k: w.k, gated }
    };
    let pairs = |table: RopeId| plan.rope(table).inverse_frequencies.len() as u32;
    let cache = |op, kv: KvId| {
        let spec = plan.kv(kv);
        kv::supports(op, target.kv_type, spec.heads, spec.key_size, spec.value_size)
    };
    let answer = match step.call {
        Call::Embed { table, .. } => {
            embed::supports(plan.weight(table).format, plan.weight(table).k).map(|()| None)
        }
        // Come in where what was chosen wants them, and only where there is a kernel.
        Call::Convert { .. } | Call::DecodeAttention { .. } => Ok(None),
        Call::Linear { weight, out, .. } => product(dense(weight, false), None, choices.decide(out)),
        Call::GatedLinear { gate, .. } => product(dense(gate, true), None, false),
        Call::Attention { kv, heads, .. } => {
            let heads = attention_shape(plan, kv, heads);
            let policy = &target.policy.attention;
            let (lanes, run) = (target.policy.subgroup_size, shape.run(rows));
            cache("attention", kv)
                .and_then(|()| attention::select(policy, target.precision, lanes, target.caps, &heads, run))
                .map(|_| None)
        }
        Call::RmsNorm { x, group, .. } => norm::supports("rms_norm", x.width, group, rows).map(|()| None),
        Call::L2Norm { x, group, .. } => norm::supports("l2_norm", x.width, group, rows).map(|()| None),
        Call::Chain { ref stages, width, .. } => chain::supports(stages, width, rows).map(|()| None),
        Call::GatedRmsNorm { x, group, .. } => {
            norm::supports("gated_rms_norm", x.width, group, rows).map(|()| None)
        }
        Call::Rope { x, head_size, table, .. } => {
            rope::supports("rope", x.width, head_size, pairs(table), rows).map(|()| None)
        }
        Call::KvWrite { kv, .. } => cache("kv_write", kv).map(|()| None),
        Call::AttentionInput { out, head_size, table, kv, .. } => cache("qk_norm_rope_kv", kv)
            .and_then(|()| rope::supports("qk_norm_rope_kv", out.width, head_size, pairs(table), rows))
            .map(|()| None),
        Call::Route { logits, out, .. } | Call::Decide { logits, out, .. } => {
            choices.group(&target.chooser(), logits.width, out, rows).map(|()| None)
        }
        Call::ExpertLinear { choice, .. } | Call::GatedExperts { choice, .. } => {
            choices.grouping(choice).and_then(|grouping| match class(plan, &step.call) {
                Some((class, _)) => product(class, Some(grouping), false),
                None => Ok(None),
            })
        }
        Call::Conv { x, weight, norms, .. } => {
            let heads = norms.map(|n| n.head_size);
            recurrent::conv::supports(x.width, plan.weight(weight).k, heads, rows).map(|()| None)
        }
        Call::DeltaNet { state, order, .. } => {
            let heads = delta_net_shape(plan, state, order);
            recurrent::delta_net::select(target.policy.subgroup_size, &heads).map(|_| None)
        }
        Call::Add { out, .. }
        | Call::AddBias { out, .. }
        | Call::Scale { out, .. }
        | Call::Softcap { out, .. }
        | Call::Activate { out, .. }
        | Call::SigmoidGate { out, .. }
        | Call::ExpertBias { out, .. }
        | Call::ExpertSum { out, .. }
        | Call::Slice { out, .. } => elementwise::supports(step.call.name(), out.width, rows).map(|()| None),
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
pub(crate) fn attention_shape(plan: &Plan, kv: KvId, heads: u32) -> attention::Shape {
    let spec = plan.kv(kv);
    attention::Shape { heads, kv_heads: spec.heads, key_size: spec.key_size, value_size: spec.value_size }
}

/// The heads of a delta net; none where the state is not one's, which a checked plan does not have.
pub(crate) fn delta_net_shape(plan: &Plan, state: StateId, order: HeadOrder) -> recurrent::delta_net::Shape {
    let (heads, key_heads, key_size, value_size) = match *plan.state(state) {
        StateSpec::DeltaNet { heads, key_size, value_size, key_heads } => {
            (heads, key_heads, key_size, value_size)
        }
        StateSpec::Conv { .. } => (0, 0, 0, 0),
    };
    let grouped = order == HeadOrder::Grouped;
    recurrent::delta_net::Shape { heads, key_heads, key_size, value_size, grouped }
}
