//! The operations. Sources of the formulas are named where they are not obvious; rows are independent unless said otherwise.

use crate::operand::{Cols, KvId, RopeId, StateId, WeightId};

/// Which dimensions of a head RoPE turns together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// `(2i, 2i+1)`: llama files, whose q and k rows the converter permuted.
    Adjacent,
    /// `(i, i + rot/2)`: GPT-NeoX order, everyone else.
    Halves,
}

/// Gated activation functions, `out = f(gate) · g(up)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `silu(gate) · up`.
    SwiGlu,
    /// `gelu_tanh(gate) · up`, with gelu(x) = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    GeGlu,
    /// GPT-OSS: `g = min(gate, limit)`, `u = clamp(up, ±limit)`, `g·sigmoid(alpha·g)·(u + 1)`.
    OaiSwiGlu {
        /// 1.702.
        alpha: f32,
        /// 7.
        limit: f32,
    },
}

/// A factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// Known when the plan is made.
    Const(f32),
    /// The only element of a tensor.
    Weight(WeightId),
}

/// How the chosen experts are weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteOrder {
    /// Softmax over all experts, the `top_k` largest, divided by their sum where `renormalise`.
    SoftmaxThenTopK {
        /// Divide the chosen weights by their sum.
        renormalise: bool,
    },
    /// The `top_k` largest logits, softmax over these.
    TopKThenSoftmax,
}

/// Which key head a value head of a gated delta net uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadOrder {
    /// `v_head mod k_heads` (`qwen35`, `qwen35moe`: the converter re-ordered the value heads).
    Tiled,
    /// `v_head / (v_heads / k_heads)` (`qwen3next`).
    Grouped,
}

/// One operation. Every output is written by exactly one operation, and no output overlaps an input of the same operation.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the fields are the symbols of each variant's formula
pub enum Op {
    /// `out = table[token] · scale`.
    Embed { table: WeightId, scale: f32, out: Cols },
    /// `x · rsqrt(mean(x²) + eps) · weight` over each `group` of columns; `weight` has `group` elements, absent = 1.
    RmsNorm { x: Cols, weight: Option<WeightId>, group: u32, eps: f32, out: Cols },
    /// `scale · x · rsqrt(max(Σx², eps²))` over each `group` of columns.
    L2Norm { x: Cols, group: u32, eps: f32, scale: f32, out: Cols },
    /// `out[m] = Σ_k weight[m][k] · x[k]`.
    Linear { x: Cols, weight: WeightId, out: Cols },
    /// `x + bias`, a bias element a column.
    AddBias { x: Cols, bias: WeightId, out: Cols },
    /// `a + b`.
    Add { a: Cols, b: Cols, out: Cols },
    /// `x · by`.
    Scale { x: Cols, by: Scalar, out: Cols },
    /// `cap · tanh(x / cap)`.
    Softcap { x: Cols, cap: f32, out: Cols },
    /// Rotates the first `2·len(inverse frequencies)` dimensions of each head of `head_size` by the row's position; the rest is copied.
    Rope { x: Cols, head_size: u32, table: RopeId, pairing: Pairing, out: Cols },
    /// Stores a row's key and value heads at the row's position of its sequence's cache.
    KvWrite { k: Cols, v: Cols, kv: KvId },
    /// Softmax attention of `heads` query heads over the row's sequence, positions ≤ the row's own and inside the cache's window.
    ///
    /// Query head h uses KV head h / (heads / kv_heads). Scores are `scale·q·k`, then soft-capped; `sinks[h]` is one more logit in
    /// the maximum and the denominator only. Reads what the `KvWrite` of the same rows stored.
    Attention {
        q: Cols,
        kv: KvId,
        heads: u32,
        scale: f32,
        softcap: Option<f32>,
        sinks: Option<WeightId>,
        out: Cols,
    },
    /// See [`Activation`].
    Activate { kind: Activation, gate: Cols, up: Cols, out: Cols },
    /// `x · sigmoid(gate)`; `gate` is as wide as `x`, or one column for all of `x`.
    SigmoidGate { x: Cols, gate: Cols, out: Cols },
    /// Takes `len` columns from `first` of each `stride` columns of `x`: separates interleaved heads.
    Slice { x: Cols, stride: u32, first: u32, len: u32, out: Cols },
    /// Chooses `top_k` experts for each row from its router logits, of equal ones the first. The output, a choice, has `2·top_k` columns: in
    /// slot s, the heaviest first, the expert's number as a float, and `top_k` columns later its weight.
    Route { logits: Cols, order: RouteOrder, out: Cols },
    /// For each slot s of a choice: `out[s] = weight[expert(s)] · x`; `x` is one vector for all slots, or a vector a slot where it is `top_k`
    /// times as wide as the weight's rows.
    ExpertLinear { x: Cols, weight: WeightId, choice: Cols, out: Cols },
    /// `x[s] + bias[expert(s)]` for each slot s.
    ExpertBias { x: Cols, bias: WeightId, choice: Cols, out: Cols },
    /// `Σ_s weight(s) · scale[expert(s)] · x[s]`, summed in slot order.
    ExpertSum { x: Cols, choice: Cols, scale: Option<WeightId>, out: Cols },
    /// Depthwise causal convolution over a sequence's rows, then SiLU. `weight` is `[taps, channels]`, oldest tap first; the state holds
    /// the sequence's previous `taps − 1` inputs. Rows of one sequence depend on each other in order of position.
    Conv { x: Cols, weight: WeightId, state: StateId, out: Cols },
    /// Gated delta rule (model-math, GDN step 4): per value head, `g = exp(softplus(alpha + dt_bias)·a)`, `b = sigmoid(beta)`,
    /// `S *= g; d = b·(v − S·k); S += d ⊗ k; out = S·q`. Rows of one sequence depend on each other in order of position.
    DeltaNet {
        q: Cols,
        k: Cols,
        v: Cols,
        alpha: Cols,
        beta: Cols,
        dt_bias: WeightId,
        a: WeightId,
        order: HeadOrder,
        state: StateId,
        out: Cols,
    },
    /// Copies the rows that want logits: everything after it runs on those rows alone.
    SelectLogits { x: Cols, out: Cols },
}

impl Op {
    /// The operation's name in reports: `rms_norm`, `linear`, …
    pub fn name(&self) -> &'static str {
        match self {
            Op::Embed { .. } => "embed",
            Op::RmsNorm { .. } => "rms_norm",
            Op::L2Norm { .. } => "l2_norm",
            Op::Linear { .. } => "linear",
            Op::AddBias { .. } => "add_bias",
            Op::Add { .. } => "add",
            Op::Scale { .. } => "scale",
            Op::Softcap { .. } => "softcap",
            Op::Rope { .. } => "rope",
            Op::KvWrite { .. } => "kv_write",
            Op::Attention { .. } => "attention",
            Op::Activate { .. } => "activate",
            Op::SigmoidGate { .. } => "sigmoid_gate",
            Op::Slice { .. } => "slice",
            Op::Route { .. } => "route",
            Op::ExpertLinear { .. } => "expert_linear",
            Op::ExpertBias { .. } => "expert_bias",
            Op::ExpertSum { .. } => "expert_sum",
            Op::Conv { .. } => "conv",
            Op::DeltaNet { .. } => "delta_net",
            Op::SelectLogits { .. } => "select_logits",
        }
    }

    /// Whether the operation changes what a sequence keeps (its cache or a recurrent state), so that it matters whoever reads its output.
    pub fn keeps_state(&self) -> bool {
        match self {
            Op::KvWrite { .. } | Op::Conv { .. } | Op::DeltaNet { .. } => true,
            Op::Embed { .. }
            | Op::RmsNorm { .. }
            | Op::L2Norm { .. }
            | Op::Linear { .. }
            | Op::AddBias { .. }
            | Op::Add { .. }
            | Op::Scale { .. }
            | Op::Softcap { .. }
            | Op::Rope { .. }
            | Op::Attention { .. }
            | Op::Activate { .. }
            | Op::SigmoidGate { .. }
            | Op::Slice { .. }
            | Op::Route { .. }
            | Op::ExpertLinear { .. }
            | Op::ExpertBias { .. }
            | Op::ExpertSum { .. }
            | Op::SelectLogits { .. } => false,
        }
    }

    /// The columns that the operation reads.
    pub fn inputs(&self) -> Vec<Cols> {
        self.clone().inputs_mut().into_iter().map(|c| *c).collect()
    }

    /// As [`Op::inputs`], to name other buffers.
    pub fn inputs_mut(&mut self) -> Vec<&mut Cols> {
        match self {
            Op::Embed { .. } => vec![],
            Op::RmsNorm { x, .. }
            | Op::L2Norm { x, .. }
            | Op::Linear { x, .. }
            | Op::AddBias { x, .. }
            | Op::Scale { x, .. }
            | Op::Softcap { x, .. }
            | Op::Rope { x, .. }
            | Op::Slice { x, .. }
            | Op::Conv { x, .. }
            | Op::SelectLogits { x, .. } => vec![x],
            Op::Add { a, b, .. } => vec![a, b],
            Op::KvWrite { k, v, .. } => vec![k, v],
            Op::Attention { q, .. } => vec![q],
            Op::Activate { gate, up, .. } => vec![gate, up],
            Op::SigmoidGate { x, gate, .. } => vec![x, gate],
            Op::Route { logits, .. } => vec![logits],
            Op::ExpertLinear { x, choice, .. }
            | Op::ExpertBias { x, choice, .. }
            | Op::ExpertSum { x, choice, .. } => vec![x, choice],
            Op::DeltaNet { q, k, v, alpha, beta, .. } => vec![q, k, v, alpha, beta],
        }
    }

    /// The choice of experts that the operation uses.
    pub fn choice(&self) -> Option<Cols> {
        match *self {
            Op::ExpertLinear { choice, .. }
            | Op::ExpertBias { choice, .. }
            | Op::ExpertSum { choice, .. } => Some(choice),
            _ => None,
        }
    }

    /// The columns that the operation writes; `KvWrite` writes no activation.
    pub fn output(&self) -> Option<Cols> {
        self.clone().output_mut().copied()
    }

    /// As [`Op::output`], to name another buffer.
    pub fn output_mut(&mut self) -> Option<&mut Cols> {
        match self {
            Op::Embed { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::L2Norm { out, .. }
            | Op::Linear { out, .. }
            | Op::AddBias { out, .. }
            | Op::Add { out, .. }
            | Op::Scale { out, .. }
            | Op::Softcap { out, .. }
            | Op::Rope { out, .. }
            | Op::Attention { out, .. }
            | Op::Activate { out, .. }
            | Op::SigmoidGate { out, .. }
            | Op::Slice { out, .. }
            | Op::Route { out, .. }
            | Op::ExpertLinear { out, .. }
            | Op::ExpertBias { out, .. }
            | Op::ExpertSum { out, .. }
            | Op::Conv { out, .. }
            | Op::DeltaNet { out, .. }
            | Op::SelectLogits { out, .. } => Some(out),
            Op::KvWrite { .. } => None,
        }
    }

    /// The weights that the operation reads.
    pub fn weights(&self) -> Vec<WeightId> {
        self.clone().weights_mut().into_iter().map(|w| *w).collect()
    }

    /// As [`Op::weights`], to name others.
    pub fn weights_mut(&mut self) -> Vec<&mut WeightId> {
        match self {
            Op::Embed { table, .. } => vec![table],
            Op::RmsNorm { weight, .. } => weight.iter_mut().collect(),
            Op::Linear { weight, .. } | Op::ExpertLinear { weight, .. } | Op::Conv { weight, .. } => {
                vec![weight]
            }
            Op::AddBias { bias, .. } | Op::ExpertBias { bias, .. } => vec![bias],
            Op::Scale { by: Scalar::Weight(w), .. } => vec![w],
            Op::Attention { sinks, .. } => sinks.iter_mut().collect(),
            Op::ExpertSum { scale, .. } => scale.iter_mut().collect(),
            Op::DeltaNet { dt_bias, a, .. } => vec![dt_bias, a],
            Op::L2Norm { .. }
            | Op::Add { .. }
            | Op::Scale { .. }
            | Op::Softcap { .. }
            | Op::Rope { .. }
            | Op::KvWrite { .. }
            | Op::Activate { .. }
            | Op::SigmoidGate { .. }
            | Op::Slice { .. }
            | Op::Route { .. }
            | Op::SelectLogits { .. } => vec![],
        }
    }
}
