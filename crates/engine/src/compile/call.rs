//! The calls of a schedule: what the kernels can do, as data.

use super::chain::Stage;
use zinc_kernels::elementwise::sigmoid_gate::Parts;
use zinc_kernels::recurrent::conv::HeadNorms;
use zinc_kernels::recurrent::delta_net::{self, Gates};
use zinc_kernels::rope::qk_norm_rope_kv;
use zinc_plan::{Activation, Cols, HeadOrder, KvId, Pairing, RopeId, RouteOrder, Scalar, StateId, WeightId};

/// One call of a kernel family: an operation of the plan, or several fused ones. Operands are those of [`zinc_plan::Op`].
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the fields are those of the operations that a call stands for
pub enum Call {
    /// `Embed`.
    Embed { table: WeightId, scale: f32, out: Cols },
    /// `RmsNorm`.
    RmsNorm { x: Cols, weight: Option<WeightId>, group: u32, eps: f32, out: Cols },
    /// Sums of experts, sums, norms and scales of whole rows, one after another.
    Chain { stages: Vec<Stage>, width: u32, eps: f32 },
    /// `RmsNorm` and the `Activate` (SwiGLU) that it is the second operand of.
    GatedRmsNorm {
        x: Cols,
        weight: Option<WeightId>,
        group: u32,
        eps: f32,
        gate: Cols,
        /// The result once more, in f16.
        packed: Option<Cols>,
        out: Cols,
    },
    /// `L2Norm`.
    L2Norm { x: Cols, group: u32, eps: f32, scale: f32, out: Cols },
    /// No operation of the plan: the rows of `x` in f16 for the products that read them, each cut into `parts` equal ones, in a buffer that the plan
    /// does not have ([`Cols`] of `parts` times `gemm::Packed::width`).
    Convert { x: Cols, parts: u32, out: Cols },
    /// `RmsNorm` of the input, `Linear`, `AddBias`, `Add`, as far as they are there.
    Linear {
        x: Cols,
        norm: Option<InputNorm>,
        weight: WeightId,
        bias: Option<WeightId>,
        residual: Option<Cols>,
        out: Cols,
    },
    /// Two `Linear` of the same input, whose `RmsNorm` may be done first, and the `Activate` of their outputs.
    GatedLinear {
        x: Cols,
        norm: Option<InputNorm>,
        gate: WeightId,
        up: WeightId,
        kind: Activation,
        out: Cols,
    },
    /// `Rope`.
    Rope { x: Cols, head_size: u32, table: RopeId, pairing: Pairing, out: Cols },
    /// `KvWrite`.
    KvWrite { k: Cols, v: Cols, kv: KvId },
    /// All between the projections and the attention: the `Slice` that takes query heads from between their gates, norms of heads where there are any, `Rope` of queries and keys, `KvWrite`.
    AttentionInput {
        q: Cols,
        /// Each query head of `q` is followed by its gate.
        gated: bool,
        k: Cols,
        v: Cols,
        norms: Option<qk_norm_rope_kv::HeadNorms<WeightId>>,
        head_size: u32,
        table: RopeId,
        pairing: Pairing,
        kv: KvId,
        out: Cols,
    },
    /// `Attention`.
    Attention {
        q: Cols,
        kv: KvId,
        heads: u32,
        scale: f32,
        softcap: Option<f32>,
        sinks: Option<WeightId>,
        out: Cols,
    },
    /// [`Call::AttentionInput`], whose query heads nobody else reads, `Attention`, and the `SigmoidGate` of its results by the gates that lie between the
    /// query heads, of rows that are apart.
    DecodeAttention {
        q: Cols,
        gated: bool,
        k: Cols,
        v: Cols,
        norms: Option<qk_norm_rope_kv::HeadNorms<WeightId>>,
        table: RopeId,
        pairing: Pairing,
        kv: KvId,
        heads: u32,
        scale: f32,
        softcap: Option<f32>,
        sinks: Option<WeightId>,
        out: Cols,
    },
    /// `Add`.
    Add { a: Cols, b: Cols, out: Cols },
    /// `AddBias`.
    AddBias { x: Cols, bias: WeightId, out: Cols },
    /// `Scale`.
    Scale { x: Cols, by: Scalar, out: Cols },
    /// `Softcap`.
    Softcap { x: Cols, cap: f32, out: Cols },
    /// `Activate`.
    Activate { kind: Activation, gate: Cols, up: Cols, out: Cols },
    /// `SigmoidGate`, where there are `parts` of the `Slice` of `gate` by them.
    SigmoidGate { x: Cols, gate: Cols, parts: Option<Parts>, out: Cols },
    /// `Slice`.
    Slice { x: Cols, stride: u32, first: u32, len: u32, out: Cols },
    /// `Route`, and with several rows the slots by expert, which lie behind the choice.
    Route { logits: Cols, order: RouteOrder, out: Cols },
    /// For a single row: `RmsNorm`, the `Linear` that routes and its `AddBias` where there is one, the `Linear` of a shared expert's gate where there is one, `Route`.
    Decide {
        x: Cols,
        norm: InputNorm,
        normed: Cols,
        router: WeightId,
        bias: Option<WeightId>,
        logits: Cols,
        /// Weights and logit.
        gate: Option<(WeightId, Cols)>,
        order: RouteOrder,
        out: Cols,
    },
    /// `ExpertLinear`, then `ExpertBias` if it is there.
    ExpertLinear { x: Cols, weight: WeightId, bias: Option<WeightId>, choice: Cols, out: Cols },
    /// Two `ExpertLinear` of the same input, each with its `ExpertBias` or both without, and the `Activate` of their outputs. Without `up`
    /// its rows are the second half of the gate's tensor.
    GatedExperts {
        x: Cols,
        gate: WeightId,
        up: Option<WeightId>,
        biases: Option<(WeightId, WeightId)>,
        choice: Cols,
        kind: Activation,
        out: Cols,
    },
    /// `ExpertBias`.
    ExpertBias { x: Cols, bias: WeightId, choice: Cols, out: Cols },
    /// `ExpertSum`.
    ExpertSum { x: Cols, choice: Cols, scale: Option<WeightId>, out: Cols },
    /// `Conv`, and the `L2Norm` of its first columns and of as many behind them: `out` are the rest.
    Conv { x: Cols, weight: WeightId, state: StateId, norms: Option<HeadNorms<Cols>>, out: Cols },
    /// `DeltaNet`, and the `Slice` of both its gates where they are mixed.
    DeltaNet {
        q: Cols,
        k: Cols,
        v: Cols,
        gates: Gates<Cols>,
        dt_bias: WeightId,
        a: WeightId,
        order: HeadOrder,
        state: StateId,
        /// Of a single row: the heads' `RmsNorm` and the `Activate` (SwiGLU) that it is the second operand of.
        norm: Option<delta_net::Norm<Cols, WeightId>>,
        out: Cols,
    },
}

/// An `RmsNorm` of whole rows that a product does to its input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputNorm {
    /// The norm's weight.
    pub weight: WeightId,
    /// Added to the mean of squares.
    pub eps: f32,
    /// What is done first: the product's input is what a sublayer gave.
    pub sublayer: Option<Sublayer>,
}

/// The end of a sublayer whose output is normed before it is added: (`RmsNorm` + `row`) · `scale`, done by the products that read the norm behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sublayer {
    /// Of the norm before the sum.
    pub weight: WeightId,
    /// The row before the sublayer.
    pub row: Cols,
    /// The factor behind the sum.
    pub scale: Option<WeightId>,
    /// The row behind the sublayer: one of the products stores it.
    pub out: Option<Cols>,
}

impl Call {
    /// The columns that the call reads.
    pub fn reads(&self) -> Vec<Cols> {
        match *self {
            Call::Embed { .. } => vec![],
            Call::Linear { x, norm, residual, .. } => {
                [x].into_iter().chain(residual).chain(row_before(norm)).collect()
            }
            Call::GatedLinear { x, norm, .. } => [x].into_iter().chain(row_before(norm)).collect(),
            Call::RmsNorm { x, .. }
            | Call::L2Norm { x, .. }
            | Call::Convert { x, .. }
            | Call::Decide { x, .. }
            | Call::Rope { x, .. }
            | Call::AddBias { x, .. }
            | Call::Scale { x, .. }
            | Call::Softcap { x, .. }
            | Call::Slice { x, .. }
            | Call::Conv { x, .. } => vec![x],
            Call::Chain { ref stages, .. } => stages.iter().flat_map(Stage::reads).collect(),
            Call::GatedRmsNorm { x, gate, .. } => vec![x, gate],
            Call::Add { a, b, .. } => vec![a, b],
            Call::KvWrite { k, v, .. } => vec![k, v],
            Call::AttentionInput { q, k, v, .. } | Call::DecodeAttention { q, k, v, .. } => vec![q, k, v],
            Call::Attention { q, .. } => vec![q],
            Call::Activate { gate, up, .. } => vec![gate, up],
            Call::SigmoidGate { x, gate, .. } => vec![x, gate],
            Call::Route { logits, .. } => vec![logits],
            Call::ExpertLinear { x, choice, .. }
            | Call::GatedExperts { x, choice, .. }
            | Call::ExpertBias { x, choice, .. }
            | Call::ExpertSum { x, choice, .. } => vec![x, choice],
            Call::DeltaNet { q, k, v, gates, norm, .. } => {
                let gates = match gates {
                    Gates::Apart { alpha, beta } => vec![alpha, beta],
                    Gates::Mixed { both, .. } => vec![both],
                };
                [q, k, v].into_iter().chain(gates).chain(norm.map(|n| n.gate)).collect()
            }
        }
    }

    /// The columns that the call writes.
    pub fn writes(&self) -> Vec<Cols> {
        match *self {
            Call::KvWrite { .. } => vec![],
            Call::Decide { normed, logits, gate, out, .. } => {
                [normed, logits, out].into_iter().chain(gate.map(|g| g.1)).collect()
            }
            Call::Chain { ref stages, .. } => stages.iter().flat_map(Stage::writes).collect(),
            Call::GatedRmsNorm { out, packed, .. } => [out].into_iter().chain(packed).collect(),
            Call::Conv { out, norms: Some(n), .. } => vec![out, n.q, n.k],
            Call::Linear { norm, out, .. } | Call::GatedLinear { norm, out, .. } => {
                [out].into_iter().chain(norm.and_then(|n| n.sublayer?.out)).collect()
            }
            Call::Embed { out, .. }
            | Call::RmsNorm { out, .. }
            | Call::L2Norm { out, .. }
            | Call::Convert { out, .. }
            | Call::Rope { out, .. }
            | Call::AttentionInput { out, .. }
            | Call::Attention { out, .. }
            | Call::DecodeAttention { out, .. }
            | Call::Add { out, .. }
            | Call::AddBias { out, .. }
            | Call::Scale { out, .. }
            | Call::Softcap { out, .. }
            | Call::Activate { out, .. }
            | Call::SigmoidGate { out, .. }
            | Call::Slice { out, .. }
            | Call::Route { out, .. }
            | Call::ExpertLinear { out, .. }
            | Call::GatedExperts { out, .. }
            | Call::ExpertBias { out, .. }
            | Call::ExpertSum { out, .. }
            | Call::Conv { out, norms: None, .. } => vec![out],
            Call::DeltaNet { out, norm, .. } => [out].into_iter().chain(norm.map(|n| n.out)).collect(),
        }
    }

    /// The cache that the call touches, and whether it writes it.
    pub fn cache(&self) -> Option<(KvId, bool)> {
        match *self {
            Call::KvWrite { kv, .. } | Call::AttentionInput { kv, .. } | Call::DecodeAttention { kv, .. } => {
                Some((kv, true))
            }
            Call::Attention { kv, .. } => Some((kv, false)),
            _ => None,
        }
    }

    /// The router's logits and the choice of experts, where the call makes one.
    pub fn choice(&self) -> Option<(Cols, Cols)> {
        match *self {
            Call::Route { logits, out, .. } | Call::Decide { logits, out, .. } => Some((logits, out)),
            _ => None,
        }
    }

    /// The recurrent state that the call reads and writes. No two calls of a schedule have the same.
    pub fn state(&self) -> Option<StateId> {
        match *self {
            Call::Conv { state, .. } | Call::DeltaNet { state, .. } => Some(state),
            _ => None,
        }
    }

    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Embed { .. } => "embed",
            Call::RmsNorm { .. } => "rms_norm",
            Call::Chain { .. } => "chain",
            Call::GatedRmsNorm { .. } => "gated_rms_norm",
            Call::L2Norm { .. } => "l2_norm",
            Call::Convert { .. } => "convert",
            Call::Linear { .. } => "linear",
            Call::GatedLinear { .. } => "gated_linear",
            Call::Rope { .. } => "rope",
            Call::KvWrite { .. } => "kv_write",
            Call::AttentionInput { .. } => "attention_input",
            Call::Attention { .. } => "attention",
            Call::DecodeAttention { .. } => "decode_attention",
            Call::Add { .. } => "add",
            Call::AddBias { .. } => "add_bias",
            Call::Scale { .. } => "scale",
            Call::Softcap { .. } => "softcap",
            Call::Activate { .. } => "activate",
            Call::SigmoidGate { .. } => "sigmoid_gate",
            Call::Slice { .. } => "slice",
            Call::Route { .. } => "route",
            Call::Decide { .. } => "decide",
            Call::ExpertLinear { .. } => "expert_linear",
            Call::GatedExperts { .. } => "gated_experts",
            Call::ExpertBias { .. } => "expert_bias",
            Call::ExpertSum { .. } => "expert_sum",
            Call::Conv { .. } => "conv",
            Call::DeltaNet { .. } => "delta_net",
        }
    }
}

fn row_before(norm: Option<InputNorm>) -> Option<Cols> {
    norm.and_then(|n| Some(n.sublayer?.row))
}
