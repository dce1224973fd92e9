//! Memory of products beside their operands: sums of the parts that K is cut into.

use super::{Shape, Step};
use zinc_plan::{Act, ActId, Plan, Rows};

/// Gives each product that needs such memory a buffer of its own behind the plan's and `packed`, which lives as long as the step. Rows of buffers
/// are counted by the batch, these bytes are not: they are noted in `behind`.
pub(super) fn insert(
    plan: &Plan,
    shape: Shape,
    steps: &mut [Step],
    packed: &mut Vec<Act>,
    behind: &mut Vec<(ActId, u64)>,
) {
    for step in steps {
        let (Some(product), Some((class, columns))) = (step.product, step.class(plan, shape)) else {
            continue;
        };
        let bytes = product.work_bytes(&class, columns);
        if bytes > 0 {
            let id = ActId((plan.acts.len() + packed.len()) as u32);
            packed.push(Act { name: "work", width: 1, rows: Rows::Batch });
            behind.push((id, bytes));
            step.work = Some(id);
        }
    }
}
