//! A plan's own consistency: every executor may rely on it.

use crate::op::{Op, Scalar};
use crate::spec::{Plan, StateSpec};

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
    /// Checks ids, column ranges, shapes against weights, single assignment, and that nothing is read before it is written.
    pub fn check(&self) -> Result<(), PlanError> {
        let mut written: Vec<Vec<(u32, u32)>> = vec![vec![]; self.acts.len()];
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
            let Some(out) = node.op.output() else { continue };
            let Some(act) = self.acts.get(out.act.index()) else {
                return fail(format!("unknown buffer {}", out.act.0));
            };
            if out.first + out.width > act.width {
                return fail(format!("output columns exceed `{}` ({})", act.name, act.width));
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
        Ok(())
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
            Op::Route { route, .. }
            | Op::ExpertLinear { route, .. }
            | Op::ExpertBias { route, .. }
            | Op::ExpertSum { route, .. } => ("expert choice", route.0, self.routes.len()),
            Op::Conv { state, .. } | Op::DeltaNet { state, .. } => ("state", state.0, self.states.len()),
            _ => return Ok(()),
        };
        if (id as usize) < known { Ok(()) } else { Err(format!("unknown {what} {id}")) }
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
            Op::Route { logits, route, .. } => {
                expect("router logits", logits.width, self.route(route).experts)
            }
            Op::ExpertLinear { x, weight, route, out } => {
                let (w, r) = (self.weight(weight), self.route(route));
                expect("experts", w.experts, r.experts)?;
                if x.width != w.k {
                    expect("input width", x.width, w.k * r.top_k)?;
                }
                expect("output width", out.width, w.m * r.top_k)
            }
            Op::ExpertBias { x, bias, route, out } => {
                expect("output width", out.width, x.width)?;
                expect("bias", self.weight(bias).k * self.route(route).top_k, x.width)
            }
            Op::ExpertSum { x, route, scale, out } => {
                let r = self.route(route);
                expect("input width", x.width, out.width * r.top_k)?;
                scale.map_or(Ok(()), |w| expect("expert factors", self.weight(w).k, r.experts))
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
