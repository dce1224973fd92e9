//! Dense FFNs and routed experts.

use super::builder::Builder;
use crate::spec::{Dense, GateUp, Moe, SharedExpert};
use zinc_plan::{Activation, Cols, Op, Scalar};

/// Labels of a dense FFN's operations: gate, up, activation, down.
pub(super) type Labels = [&'static str; 4];
/// The layer's only FFN.
pub(super) const DENSE: Labels = ["ffn_gate", "ffn_up", "ffn_act", "ffn_down"];
const SHARED: Labels = ["shared_gate", "shared_up", "shared_act", "shared_down"];

/// `down · act(gate · x, up · x)`.
pub(super) fn dense(b: &mut Builder, labels: Labels, x: Cols, d: &Dense) -> Cols {
    let gate = b.linear(labels[0], x, d.gate);
    let up = b.linear(labels[1], x, d.up);
    let h = activate(b, labels[2], d.activation, gate, up);
    b.linear(labels[3], h, d.down)
}

/// Routed experts and the shared expert; `residual` is the residual stream, `x` the FFN's normed input.
pub(super) fn moe(b: &mut Builder, residual: Cols, x: Cols, m: &Moe) -> Cols {
    let shared = m.shared.as_ref().map(|shared| shared_expert(b, x, shared));
    let choice = choose(b, residual, x, m);
    let routed = experts(b, residual, x, choice, m);
    match shared {
        Some(shared) => b.add("experts_shared", shared, routed),
        None => routed,
    }
}

fn choose(b: &mut Builder, residual: Cols, x: Cols, m: &Moe) -> Cols {
    let x = match m.router_norm {
        Some(norm) => {
            let x = b.rms_norm("router_norm", residual, Some(norm.weight), residual.width);
            b.scale("router_scale", x, Scalar::Const(norm.scale))
        }
        None => x,
    };
    let logits = b.project("router", x, m.router);
    b.emit("route", 2 * m.top_k, |out| Op::Route { logits, order: m.order, out })
}

fn experts(b: &mut Builder, residual: Cols, x: Cols, choice: Cols, m: &Moe) -> Cols {
    let hidden = residual.width;
    let x = m.input_norm.map_or(x, |w| b.rms_norm("expert_norm", residual, Some(w), hidden));
    let (gate, up) = match m.gate_up {
        GateUp::Separate { gate, up } => {
            (b.expert_project("expert_gate", x, choice, gate), b.expert_project("expert_up", x, choice, up))
        }
        GateUp::Fused(w) => {
            let both = b.expert_project("expert_gate_up", x, choice, w.into());
            let width = both.width / m.top_k;
            let half = width / 2;
            (b.slice("expert_gate", both, width, 0, half), b.slice("expert_up", both, width, half, half))
        }
    };
    let h = activate(b, "expert_act", m.activation, gate, up);
    let y = b.expert_project("expert_down", h, choice, m.down);
    let scale = m.expert_scale;
    let sum = b.emit("expert_sum", hidden, |out| Op::ExpertSum { x: y, choice, scale, out });
    m.post_norm.map_or(sum, |w| b.rms_norm("expert_post_norm", sum, Some(w), hidden))
}

fn shared_expert(b: &mut Builder, x: Cols, shared: &SharedExpert) -> Cols {
    let mut y = dense(b, SHARED, x, &shared.dense);
    if let Some(w) = shared.post_norm {
        y = b.rms_norm("shared_post_norm", y, Some(w), y.width);
    }
    if let Some(w) = shared.gate {
        let gate = b.linear("shared_gate_logit", x, w);
        y = b.sigmoid_gate("shared_gated", y, gate);
    }
    y
}

fn activate(b: &mut Builder, label: &'static str, kind: Activation, gate: Cols, up: Cols) -> Cols {
    b.emit(label, gate.width, |out| Op::Activate { kind, gate, up, out })
}
