//! What calls cost, roughly, so that commands are cut into submissions of bounded time: a display that shares the GPU must not wait,
//! and no watchdog may fire.

use crate::compile::{Call, Shape};
use zinc_plan::{Cols, Plan, WeightId};

/// What a submission may cost: a quarter of a second on the device that [`of`] assumes.
pub const MOST: u64 = 250_000_000;

/// Bytes a nanosecond and multiply-adds a nanosecond of integrated graphics; others take less time.
const BYTES: u64 = 50;
const MULTIPLY_ADDS: u64 = 500;

/// Nanoseconds of a call for rows of a shape that see up to `keys` keys.
pub fn of(plan: &Plan, shape: Shape, keys: u32, call: &Call) -> u64 {
    let out = match *call {
        Call::Convert { x, .. } => Some(x), // its result is no buffer of the plan
        _ => call.writes().first().copied(),
    };
    let rows = u64::from(out.map_or(shape.rows, |c| shape.of(plan.act(c.act).rows)));
    let product = |w: WeightId| {
        let w = plan.weight(w);
        let elements = u64::from(w.m) * u64::from(w.k);
        (elements * rows / MULTIPLY_ADDS).max(w.row_bytes() as u64 * u64::from(w.m) / BYTES)
    };
    let experts = |w: WeightId, choice: Cols| {
        let w = plan.weight(w);
        let slots = rows * u64::from(choice.width / 2);
        let used = slots.min(w.experts.into());
        (u64::from(w.m) * u64::from(w.k) * slots / MULTIPLY_ADDS)
            .max(w.row_bytes() as u64 * u64::from(w.m) * used / BYTES)
    };
    match *call {
        Call::Linear { weight, .. } => product(weight),
        Call::GatedLinear { gate, up, .. } => product(gate) + product(up),
        Call::Decide { router, .. } => product(router),
        Call::ExpertLinear { weight, choice, .. } => experts(weight, choice),
        Call::GatedExperts { gate, up, choice, .. } => {
            experts(gate, choice) + up.map_or(0, |up| experts(up, choice))
        }
        Call::Attention { kv, heads, .. } | Call::DecodeAttention { kv, heads, .. } => {
            let spec = plan.kv(kv);
            let keys = u64::from(spec.window.map_or(keys, |w| w.min(keys)));
            let elements = u64::from(heads) * u64::from(spec.key_size + spec.value_size);
            rows * keys * elements / MULTIPLY_ADDS
        }
        Call::DeltaNet { state, .. } => rows * 4 * plan.state(state).elements() as u64 / MULTIPLY_ADDS,
        _ => {
            let columns = |all: Vec<Cols>| all.iter().map(|c| u64::from(c.width)).sum::<u64>();
            rows * 4 * (columns(call.reads()) + columns(call.writes())) / BYTES
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_plan::Cols;

    #[test]
    fn products_cost_their_weights_first_and_their_rows_later() {
        let file = zinc_testkit::fixtures("qwen3").remove(0);
        let gguf = zinc_gguf::Gguf::open(&file.model).unwrap();
        let plan = zinc_model::Model::from_gguf(&gguf).unwrap().plan;
        let head = plan.ops.iter().rev().find_map(|n| match n.op {
            zinc_plan::Op::Linear { x, weight, out } => Some((x, weight, out)),
            _ => None,
        });
        let (x, weight, out): (Cols, _, Cols) = head.unwrap();
        let call = Call::Linear { x, norm: None, weight, bias: None, residual: None, out };
        let cost = |logit_rows| of(&plan, Shape::new(512, logit_rows), 0, &call);
        let w = plan.weight(weight);
        assert_eq!(cost(1), w.row_bytes() as u64 * u64::from(w.m) / BYTES);
        assert_eq!(cost(512), u64::from(w.m) * u64::from(w.k) * 512 / MULTIPLY_ADDS);
    }
}
