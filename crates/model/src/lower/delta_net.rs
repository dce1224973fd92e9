//! Gated delta nets.

use super::builder::Builder;
use crate::spec::{DeltaNet, RecurrentInputs};
use zinc_plan::{Activation, Cols, Op, StateSpec};

/// The mixer's output for its normed input.
pub(super) fn lower(b: &mut Builder, x: Cols, d: &DeltaNet) -> Cols {
    let keys = d.key_heads * d.key_size;
    let values = d.value_heads * d.value_size;
    let qkv = b.linear("qkv", x, d.qkv);
    let z = b.linear("z", x, d.z);
    let (alpha, beta) = inputs(b, x, d);

    let state = b.state(StateSpec::Conv { channels: qkv.width, taps: d.taps });
    let weight = d.conv;
    let mixed = b.emit("conv", qkv.width, |out| Op::Conv { x: qkv, weight, state, out });
    let q = b.l2_norm("q_l2", mixed.part(0, keys), d.key_size, 1.0 / (d.key_size as f32).sqrt());
    let k = b.l2_norm("k_l2", mixed.part(keys, keys), d.key_size, 1.0);
    let v = mixed.part(2 * keys, values);

    let state = b.state(StateSpec::DeltaNet {
        heads: d.value_heads,
        key_size: d.key_size,
        value_size: d.value_size,
        key_heads: d.key_heads,
    });
    let (dt_bias, a, order) = (d.dt_bias, d.a, d.order);
    let y = b.emit("delta_net", values, |out| Op::DeltaNet {
        q,
        k,
        v,
        alpha,
        beta,
        dt_bias,
        a,
        order,
        state,
        out,
    });
    let y = b.rms_norm("delta_norm", y, Some(d.norm), d.value_size);
    let y =
        b.emit("delta_gate", values, |out| Op::Activate { kind: Activation::SwiGlu, gate: z, up: y, out });
    b.linear("delta_out", y, d.out)
}

/// Alpha and beta, a column each a value head.
fn inputs(b: &mut Builder, x: Cols, d: &DeltaNet) -> (Cols, Cols) {
    match d.inputs {
        RecurrentInputs::Separate { alpha, beta } => (b.linear("alpha", x, alpha), b.linear("beta", x, beta)),
        RecurrentInputs::Fused(w) => {
            let both = b.linear("beta_alpha", x, w);
            let group = d.value_heads / d.key_heads;
            (b.slice("alpha", both, 2 * group, group, group), b.slice("beta", both, 2 * group, 0, group))
        }
    }
}
