//! Softmax attention.

use super::builder::Builder;
use crate::spec::Attention;
use zinc_plan::{Cols, KvSpec, Op};

/// The mixer's output for its normed input.
pub(super) fn lower(b: &mut Builder, x: Cols, a: &Attention) -> Cols {
    let (head_size, table, pairing) = (a.key_size, a.rope, a.pairing);
    let mut q = b.project("q", x, a.q);
    let gate = a.gated.then(|| b.slice("q_gate", q, 2 * head_size, head_size, head_size));
    if a.gated {
        q = b.slice("q_heads", q, 2 * head_size, 0, head_size);
    }
    let mut k = b.project("k", x, a.k);
    let mut v = a.v.map_or(k, |v| b.project("v", x, v));
    if let Some(w) = a.q_norm {
        q = b.rms_norm("q_norm", q, Some(w), head_size);
    }
    if let Some(w) = a.k_norm {
        k = b.rms_norm("k_norm", k, Some(w), head_size);
    }
    if a.v_norm {
        v = b.rms_norm("v_norm", v, None, a.value_size);
    }
    let mut rope =
        |label, x: Cols| b.emit(label, x.width, |out| Op::Rope { x, head_size, table, pairing, out });
    let (q, k) = (rope("q_rope", q), rope("k_rope", k));

    let kv =
        b.kv(KvSpec { heads: a.kv_heads, key_size: head_size, value_size: a.value_size, window: a.window });
    b.push("kv_write", Op::KvWrite { k, v, kv });
    let (heads, scale, sinks) = (a.heads, a.scale, a.sinks);
    let mut y = b.emit("attention", heads * a.value_size, |out| Op::Attention {
        q,
        kv,
        heads,
        scale,
        softcap: None,
        sinks,
        out,
    });
    if let Some(gate) = gate {
        y = b.sigmoid_gate("attention_gate", y, gate);
    }
    b.project("o", y, a.o)
}
