//! A plan's own consistency: every executor may rely on it.

use crate::op::{Op, Scalar};
use crate::spec::{Plan, Rows, StateSpec};

/// What is wrong with a plan. It names the operation, since the fault lies in the lowering of an architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plan: layer {layer:?}, `{label}` ({op}): {what}")]
pub struct PlanError {
    /// Layer of the operation.
    pub layer: Option<u32>,
    /// Label of the operation.
    pub label: &'static str,
    /// Name of the operation.
    pub op: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Plan {
    /// Checks ids, column ranges, shapes against weights, which rows meet, single assignment of buffers and caches, and that
    /// nothing is read before it is written.
    pub fn check(&self) -> Result<(), PlanError> {
        let mut written: Vec<Vec<(u32, u32)>> = vec![vec![]; self.acts.len()];
        let mut stored = vec![false; self.kv.len()];
        for node in &self.ops {
            let fail = |what: String| {
                Err(PlanError { layer: node.layer, label: node.label, op: node.op.name(), what })
            };
            for c in node.op.inputs() {
                if let Err(what) = self.check_input(c, &written) {
                    return fail(what);
                }
            }
            if let Some(w) = node.op.weights().iter().find(|w| w.index() >= self.weights.len()) {
                return fail(format!("unknown weight {}", w.0));
            }
            if let Err(what) = self.check_ids(&node.op).and_then(|()| self.check_shape(&node.op)) {
                return fail(what);
            }
            if let Err(what) = self.check_cache(&node.op, &mut stored) {
                return fail(what);
            }
            let others = node.op.inputs().iter().any(|c| self.act(c.act).rows != Rows::Batch);
            if node.op.keeps_state() && others {
                return fail("a cache or a state needs all rows".into());
            }
            let Some(out) = node.op.output() else { continue };
            let Some(act) = self.acts.get(out.act.index()) else {
                return fail(format!("unknown buffer {}", out.act.0));
            };
            if out.first + out.width > act.width {
                return fail(format!("output columns exceed `{}` ({})", act.name, act.width));
            }
            let rows = match node.op {
                Op::SelectLogits { .. } => Rows::Batch,
                _ => act.rows,
            };
            if let Some(c) = node.op.inputs().iter().find(|c| self.act(c.act).rows != rows) {
                return fail(format!("`{}` has other rows than `{}`", self.act(c.act).name, act.name));
            }
            if node.op.inputs().iter().any(|i| i.overlaps(out)) {
                return fail(format!("output overlaps an input in `{}`", act.name));
            }
            let spans = &mut written[out.act.index()];
            if spans.iter().any(|&(first, end)| first < out.first + out.width && out.first < end) {
                return fail(format!("`{}` is written twice", act.name));
            }
            spans.push((out.first, out.first + out.width));
        }
        self.check_input(self.logits, &written).map_err(|what| PlanError {
            layer: None,
            label: "logits",
            op: "result",
            what,
        })
    }

    /// A cache is written once, and before it is read.
    fn check_cache(&self, op: &Op, stored: &mut [bool]) -> Result<(), String> {
        match *op {
            Op::KvWrite { kv, .. } if stored[kv.index()] => {
                Err(format!("KV cache {} is written twice", kv.0))
            }
            Op::KvWrite { kv, .. } => {
                stored[kv.index()] = true;
                Ok(())
            }
            Op::Attention { kv, .. } if !stored[kv.index()] => {
                Err(format!("KV cache {} is read before it is written", kv.0))
            }
            _ => Ok(()),
        }
    }

    fn check_input(&self, c: crate::Cols, written: &[Vec<(u32, u32)>]) -> Result<(), String> {
        let act = self.acts.get(c.act.index()).ok_or_else(|| format!("unknown buffer {}", c.act.0))?;
        if c.width == 0 || c.first + c.width > act.width {
            return Err(format!(
                "columns {}..{} exceed `{}` ({})",
                c.first,
                c.first + c.width,
                act.name,
                act.width
            ));
        }
        let mut spans = written[c.act.index()].clone();
        spans.sort_unstable();
        let mut reached = c.first;
        for (first, end) in spans {
            if first <= reached {
                reached = reached.max(end);
            }
        }
        if reached < c.first + c.width {
            return Err(format!("`{}` is read before it is written", act.name));
        }
        Ok(())
    }

    fn check_ids(&self, op: &Op) -> Result<(), String> {
        let (what, id, known) = match *op {
            Op::Rope { table, .. } => ("rotary table", table.0, self.ropes.len()),
            Op::KvWrite { kv, .. } | Op::Attention { kv, .. } => ("KV cache", kv.0, self.kv.len()),
            Op::Conv { state, .. } | Op::DeltaNet { state, .. } => ("state", state.0, self.states.len()),
            _ => return Ok(()),
        };
        if (id as usize) < known { Ok(()) } else { Err(format!("unknown {what} {id}")) }
    }

    /// How many experts a choice chooses from.
    fn chosen_from(&self, choice: crate::Cols) -> Result<u32, String> {
        let logits = self.ops.iter().find_map(|n| match n.op {
            Op::Route { logits, out, .. } if out == choice => Some(logits.width),
            _ => None,
        });
        logits.ok_or_else(|| "the choice of experts is none".into())
    }

    fn check_shape(&self, op: &Op) -> Result<(), String> {
        let expect = |what: &str, got: u32, want: u32| {
            if got == want { Ok(()) } else { Err(format!("{what} is {got}, expected {want}")) }
        };
        match *op {
            Op::Embed { table, out, .. } => expect("embedding size", out.width, self.weight(table).k),
            Op::RmsNorm { x, weight, group, out, .. } => {
                expect("output width", out.width, x.width)?;
                expect("columns beyond whole groups", x.width % group.max(1), 0)?;
                weight.map_or(Ok(()), |w| expect("norm weight", self.weight(w).k, group))
            }
            Op::Linear { x, weight, out } => {
                expect("input width", x.width, self.weight(weight).k)?;
                expect("output width", out.width, self.weight(weight).m)
            }
            Op::AddBias { x, bias, out } => {
                expect("output width", out.width, x.width)?;
                expect("bias", self.weight(bias).k, x.width)
            }
            Op::Add { a, b, out } => {
                expect("right operand", b.width, a.width).and(expect("output width", out.width, a.width))
            }
            Op::Activate { gate, up, out, .. } => {
                expect("up width", up.width, gate.width)?;
                expect("output width", out.width, gate.width)
            }
            Op::Scale { x, by, out } => {
                expect("output width", out.width, x.width)?;
                if let Scalar::Weight(w) = by { expect("factor", self.weight(w).k, 1) } else { Ok(()) }
            }
            Op::Softcap { x, out, .. } => expect("output width", out.width, x.width),
            Op::L2Norm { x, group, out, .. } => {
                expect("output width", out.width, x.width)?;
                expect("columns beyond whole groups", x.width % group.max(1), 0)
            }
            Op::Rope { x, head_size, table, out, .. } => {
                expect("output width", out.width, x.width)?;
                expect("columns beyond whole heads", x.width % head_size.max(1), 0)?;
                let rotated = 2 * self.rope(table).inverse_frequencies.len() as u32;
                if rotated <= head_size {
                    Ok(())
                } else {
                    Err(format!("{rotated} rotated dimensions in heads of {head_size}"))
                }
            }
            Op::KvWrite { k, v, kv } => {
                let s = self.kv(kv);
                expect("key width", k.width, s.heads * s.key_size)?;
                expect("value width", v.width, s.heads * s.value_size)
            }
            Op::Attention { q, kv, heads, sinks, out, .. } => {
                let s = self.kv(kv);
                expect("query width", q.width, heads * s.key_size)?;
                expect("output width", out.width, heads * s.value_size)?;
                expect("query heads beyond whole KV groups", heads % s.heads.max(1), 0)?;
                sinks.map_or(Ok(()), |w| expect("sinks", self.weight(w).k, heads))
            }
            Op::SigmoidGate { x, gate, out } => {
                expect("output width", out.width, x.width)?;
                if gate.width == 1 { Ok(()) } else { expect("gate width", gate.width, x.width) }
            }
            Op::Slice { x, stride, first, len, out } => {
                expect("columns beyond whole groups", x.width % stride.max(1), 0)?;
                expect("output width", out.width, x.width / stride.max(1) * len)?;
                if first + len <= stride { Ok(()) } else { Err("slice exceeds its group".into()) }
            }
            Op::Route { logits, out, .. } => {
                expect("odd columns of a choice", out.width % 2, 0)?;
                if out.width / 2 <= logits.width {
                    Ok(())
                } else {
                    Err(format!("{} of {} experts", out.width / 2, logits.width))
                }
            }
            Op::ExpertLinear { x, weight, choice, out } => {
                let (w, top_k) = (self.weight(weight), choice.width / 2);
                expect("experts", w.experts, self.chosen_from(choice)?)?;
                if x.width != w.k {
                    expect("input width", x.width, w.k * top_k)?;
                }
                expect("output width", out.width, w.m * top_k)
            }
            Op::ExpertBias { x, bias, choice, out } => {
                let bias = self.weight(bias);
                expect("output width", out.width, x.width)?;
                expect("experts of the bias", bias.rows() as u32, self.chosen_from(choice)?)?;
                expect("bias", bias.k * (choice.width / 2), x.width)
            }
            Op::ExpertSum { x, choice, scale, out } => {
                expect("input width", x.width, out.width * (choice.width / 2))?;
                let experts = self.chosen_from(choice)?;
                scale.map_or(Ok(()), |w| expect("expert factors", self.weight(w).k, experts))
            }
            Op::Conv { x, weight, state, out } => {
                let StateSpec::Conv { channels, taps } = *self.state(state) else {
                    return Err("the state is not a convolution's".into());
                };
                expect("output width", out.width, x.width)?;
                expect("channels", self.weight(weight).m, x.width)?;
                expect("taps", self.weight(weight).k, taps)?;
                expect("channels of the state", channels, x.width)
            }
            Op::DeltaNet { q, k, v, alpha, beta, dt_bias, a, state, out, .. } => {
                let StateSpec::DeltaNet { heads, key_size, value_size, key_heads } = *self.state(state)
                else {
                    return Err("the state is not a delta net's".into());
                };
                expect("query width", q.width, key_heads * key_size)?;
                expect("key width", k.width, q.width)?;
                expect("value width", v.width, heads * value_size)?;
                expect("output width", out.width, v.width)?;
                expect("value heads beyond whole key groups", heads % key_heads.max(1), 0)?;
                for (what, width) in [("alpha", alpha.width), ("beta", beta.width)] {
                    expect(what, width, heads)?;
                }
                [dt_bias, a].into_iter().try_for_each(|w| expect("head vector", self.weight(w).k, heads))
            }
            Op::SelectLogits { x, out } => expect("output width", out.width, x.width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Act, ActId, Cols, KvId, KvSpec, Node, Weight, WeightId};

    /// A plan of operations on buffers `0 …` of 4 columns; the last two have the rows of the logits.
    fn plan(ops: Vec<Op>) -> Plan {
        let rows = [Rows::Batch, Rows::Batch, Rows::Batch, Rows::Logits, Rows::Logits];
        let kv = KvSpec { heads: 1, key_size: 4, value_size: 4, window: None };
        let format = zinc_quant::by_name("F32").expect("a format");
        let table = Weight { tensors: vec!["table".into()], format, k: 4, m: 8, experts: 1 };
        Plan {
            acts: rows.into_iter().map(|rows| Act { name: "x", width: 4, rows }).collect(),
            weights: vec![table],
            ropes: vec![],
            kv: vec![kv],
            states: vec![],
            ops: ops.into_iter().map(|op| Node { layer: None, label: "op", op }).collect(),
            logits: cols(4),
        }
    }

    fn cols(act: u32) -> Cols {
        Cols { act: ActId(act), first: 0, width: 4 }
    }

    fn softcap(from: u32, to: u32) -> Op {
        Op::Softcap { x: cols(from), cap: 1.0, out: cols(to) }
    }

    fn embed(to: u32) -> Op {
        Op::Embed { table: WeightId(0), scale: 1.0, out: cols(to) }
    }

    fn what(ops: Vec<Op>) -> String {
        plan(ops).check().expect_err("a faulty plan").what
    }

    #[test]
    fn what_nobody_wrote_cannot_be_read() {
        assert!(what(vec![softcap(0, 1)]).contains("read before it is written"));
        assert!(what(vec![]).contains("read before it is written"), "the logits need a writer");
    }

    #[test]
    fn rows_change_only_where_logits_are_selected() {
        let select = Op::SelectLogits { x: cols(0), out: cols(3) };
        assert_eq!(plan(vec![embed(0), select.clone(), softcap(3, 4)]).check(), Ok(()));
        assert!(what(vec![embed(0), softcap(0, 4)]).contains("other rows"));
        let mixed = Op::Add { a: cols(3), b: cols(0), out: cols(4) };
        assert!(what(vec![embed(0), select.clone(), mixed]).contains("other rows"));
        let write = Op::KvWrite { k: cols(0), v: cols(3), kv: KvId(0) };
        assert!(what(vec![embed(0), select, write]).contains("all rows"));
    }

    #[test]
    fn a_cache_is_written_once_and_before_it_is_read() {
        let kv = KvId(0);
        let read =
            Op::Attention { q: cols(0), kv, heads: 1, scale: 1.0, softcap: None, sinks: None, out: cols(1) };
        let mut stored = [false];
        let p = plan(vec![]);
        let write = Op::KvWrite { k: cols(0), v: cols(0), kv };
        assert!(p.check_cache(&read, &mut stored).is_err());
        assert!(p.check_cache(&write, &mut stored).is_ok());
        assert!(p.check_cache(&read, &mut stored).is_ok());
        assert!(p.check_cache(&write, &mut stored).is_err());
    }
}
