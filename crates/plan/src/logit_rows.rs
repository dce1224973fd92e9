//! Which operations are needed for the rows that want logits alone.

use crate::op::Op;
use crate::operand::{ActId, Cols};
use crate::spec::{Act, Node, Plan, Rows};

impl Plan {
    /// Lets everything that no cache and no state depends on run on the rows that want logits: in the last layer queries, attention
    /// and FFN, then the head. Where such an operation reads what all rows have, a [`Op::SelectLogits`] comes between, directly after
    /// what it selects from. The plan must have [`Rows::Batch`] alone.
    pub fn select_logits(mut self) -> Plan {
        let all_rows = self.needed_for_all_rows();
        for (node, _) in self.ops.iter().zip(&all_rows).filter(|(_, all)| !**all) {
            if let Some(out) = node.op.output() {
                self.acts[out.act.index()].rows = Rows::Logits;
            }
        }
        let mut selected = self.selections(&all_rows);
        let lives = self.writers();
        let mut ops = Vec::with_capacity(self.ops.len() + 2);
        for (i, (mut node, all)) in std::mem::take(&mut self.ops).into_iter().zip(all_rows).enumerate() {
            if !all {
                node.op
                    .inputs_mut()
                    .into_iter()
                    .for_each(|c| c.act = selected[c.act.index()].unwrap_or(c.act));
            }
            let out = node.op.output();
            ops.push(node);
            let Some(from) = out.map(|c| c.act).filter(|a| lives[a.index()] == Some(i)) else { continue };
            if let Some(to) = &mut selected[from.index()] {
                *to = ActId(self.acts.len() as u32);
                let width = self.act(from).width;
                self.acts.push(Act { name: "select_logits", width, rows: Rows::Logits });
                let whole = |act| Cols { act, first: 0, width };
                let op = Op::SelectLogits { x: whole(from), out: whole(*to) };
                ops.push(Node { layer: ops[ops.len() - 1].layer, label: "select_logits", op });
            }
        }
        self.logits.act = selected[self.logits.act.index()].unwrap_or(self.logits.act);
        Plan { ops, ..self }
    }

    /// For each operation whether a cache or a state depends on it, so that it matters for rows whose logits nobody wants.
    fn needed_for_all_rows(&self) -> Vec<bool> {
        let mut needed: Vec<bool> =
            self.ops.iter().map(|n| n.op.keeps_state() || matches!(n.op, Op::Embed { .. })).collect();
        let mut acts = vec![false; self.acts.len()];
        loop {
            let before = needed.clone();
            for (node, needed) in self.ops.iter().zip(&mut needed).rev() {
                let out = node.op.output();
                // All writers of a buffer and all users of a choice of experts have the same rows.
                *needed |= out.is_some_and(|c| acts[c.act.index()]);
                *needed |= node.op.choice().is_some_and(|c| acts[c.act.index()]);
                if *needed {
                    node.op.inputs().iter().chain(&out).for_each(|c| acts[c.act.index()] = true);
                }
            }
            if needed == before {
                return needed;
            }
        }
    }

    /// The buffers of all rows that what runs on fewer reads; each stands for itself until its selection has a buffer.
    fn selections(&self, all_rows: &[bool]) -> Vec<Option<ActId>> {
        let mut selected = vec![None; self.acts.len()];
        let late = self.ops.iter().zip(all_rows).filter(|(_, all)| !**all);
        for c in late.flat_map(|(node, _)| node.op.inputs()).chain([self.logits]) {
            if self.act(c.act).rows == Rows::Batch {
                selected[c.act.index()] = Some(c.act);
            }
        }
        selected
    }

    /// The last operation that writes each buffer.
    fn writers(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.acts.len()];
        for (i, node) in self.ops.iter().enumerate() {
            node.op.output().iter().for_each(|c| last[c.act.index()] = Some(i));
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KvId, KvSpec, Weight, WeightId};

    fn cols(act: u32) -> Cols {
        Cols { act: ActId(act), first: 0, width: 4 }
    }

    fn softcap(from: u32, to: u32) -> Op {
        Op::Softcap { x: cols(from), cap: 1.0, out: cols(to) }
    }

    /// Buffers: 0 embedding, 1 keys, 2 queries, 3 attention, 4 residual sum.
    fn plan() -> Plan {
        let format = zinc_quant::by_name("F32").expect("a format");
        let kv = KvId(0);
        let ops = vec![
            Op::Embed { table: WeightId(0), scale: 1.0, out: cols(0) },
            softcap(0, 2),
            softcap(0, 1),
            Op::KvWrite { k: cols(1), v: cols(1), kv },
            Op::Attention { q: cols(2), kv, heads: 1, scale: 1.0, softcap: None, sinks: None, out: cols(3) },
            Op::Add { a: cols(0), b: cols(3), out: cols(4) },
        ];
        Plan {
            acts: (0..5).map(|_| Act { name: "x", width: 4, rows: Rows::Batch }).collect(),
            weights: vec![Weight { tensors: vec!["table".into()], format, k: 4, m: 8, experts: 1 }],
            ropes: vec![],
            kv: vec![KvSpec { heads: 1, key_size: 4, value_size: 4, window: None }],
            states: vec![],
            ops: ops.into_iter().map(|op| Node { layer: None, label: "op", op }).collect(),
            logits: cols(4),
        }
    }

    #[test]
    fn what_no_cache_depends_on_runs_on_the_rows_with_logits() {
        let plan = plan().select_logits();
        assert_eq!(plan.check(), Ok(()));
        let rows = |act: usize| plan.acts[act].rows;
        assert_eq!([0, 1].map(rows), [Rows::Batch; 2], "embedding and keys");
        assert_eq!([2, 3, 4, 5].map(rows), [Rows::Logits; 4], "queries, attention, sum");
        let names: Vec<_> = plan.ops.iter().map(|n| n.op.name()).collect();
        let want = ["embed", "select_logits", "softcap", "softcap", "kv_write", "attention", "add"];
        assert_eq!(names, want, "one selection for both readers, as early as can be");
        assert_eq!(plan.ops[6].op.inputs()[0].act, ActId(5), "the residual is the selected one");
    }

    #[test]
    fn what_a_later_cache_needs_stays_with_all_rows() {
        let mut plan = plan();
        plan.kv.push(plan.kv[0]);
        let op = Op::KvWrite { k: cols(4), v: cols(4), kv: KvId(1) };
        plan.ops.push(Node { layer: None, label: "op", op });
        let plan = plan.select_logits();
        assert_eq!(plan.check(), Ok(()));
        assert!(plan.acts[..5].iter().all(|a| a.rows == Rows::Batch));
        assert_eq!(plan.act(plan.logits.act).rows, Rows::Logits);
    }
}
