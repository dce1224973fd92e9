//! Memory of calls beside their operands: of products sums of the parts that K is cut into, of a delta net what its chunks leave each other.

use super::{Call, Shape, Step, Target, delta_net_shape};
use zinc_kernels::recurrent::chunked;
use zinc_plan::{Act, ActId, Plan, Rows};

/// Gives each call that needs such memory a buffer of its own behind the plan's and `packed`, which lives as long as the step. Rows of buffers
/// are counted by the batch, these bytes are not: they are noted in `behind`.
pub(super) fn insert(
    plan: &Plan,
    target: &Target<'_>,
    shape: Shape,
    steps: &mut [Step],
    packed: &mut Vec<Act>,
    behind: &mut Vec<(ActId, u64)>,
) {
    for step in steps {
        let bytes = match (step.product, step.class(plan, shape)) {
            (Some(product), Some((class, columns))) => product.work_bytes(&class, columns),
            _ => chunk_bytes(plan, target, shape, &step.call),
        };
        if bytes > 0 {
            let id = ActId((plan.acts.len() + packed.len()) as u32);
            packed.push(Act { name: "work", width: 1, rows: Rows::Batch });
            behind.push((id, bytes));
            step.work = Some(id);
        }
    }
}

/// What a delta net needs whose long parts are done in chunks.
fn chunk_bytes(plan: &Plan, target: &Target<'_>, shape: Shape, call: &Call) -> u64 {
    let &Call::DeltaNet { state, order, norm: None, .. } = call else { return 0 };
    let heads = delta_net_shape(plan, state, order);
    match chunked::supports(target.policy, target.precision, target.caps, &heads, shape.rows) {
        true => chunked::work_bytes(target.policy, &heads, shape.rows),
        false => 0,
    }
}
