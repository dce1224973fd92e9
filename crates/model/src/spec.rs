//! A model as plain data: dimensions, rules, and which tensor is what.

use zinc_plan::{Activation, HeadOrder, Pairing, RopeId, RopeTable, RouteOrder, Weight, WeightId};

/// A decoder-only transformer. Weights are indices into `weights`, rotary tables into `ropes`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The architecture's name in GGUF files.
    pub architecture: &'static str,
    /// Context that the model was trained for, in tokens.
    pub context_length: u32,
    /// Elements of the residual stream.
    pub hidden: u32,
    /// Tokens of the vocabulary.
    pub vocab: u32,
    /// Added to the mean square in every RMS norm.
    pub norm_eps: f32,
    /// Token embeddings, `[hidden, vocab]`.
    pub embed: WeightId,
    /// Factor on the embeddings.
    pub embed_scale: f32,
    /// The layers in order.
    pub layers: Vec<LayerSpec>,
    /// Norm before the head.
    pub final_norm: WeightId,
    /// Output matrix, `[hidden, vocab]`; `embed` itself where the head is tied.
    pub head: WeightId,
    /// Logits become `cap · tanh(logits / cap)`.
    pub softcap: Option<f32>,
    /// Rotary tables.
    pub ropes: Vec<RopeTable>,
    /// The tensors of the file that the model uses.
    pub weights: Vec<Weight>,
}

impl ModelSpec {
    /// Whether the head is the embedding table.
    pub fn tied(&self) -> bool {
        self.head == self.embed
    }

    /// The tensor of an id.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }
}

/// One layer: `x += post(mixer(norm(x)))`, `x += post(ffn(norm(x)))`, `x *= output_scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Norm before the mixer.
    pub norm: WeightId,
    /// What mixes the rows of a sequence.
    pub mixer: Mixer,
    /// Norm of the mixer's output, before it is added.
    pub post_norm: Option<WeightId>,
    /// Norm before the FFN.
    pub ffn_norm: WeightId,
    /// What acts on each row alone.
    pub ffn: Ffn,
    /// Norm of the FFN's output, before it is added.
    pub ffn_post_norm: Option<WeightId>,
    /// The layer's output times this scalar.
    pub output_scale: Option<WeightId>,
}

/// What mixes the rows of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum Mixer {
    /// Softmax attention.
    Attention(Attention),
    /// Gated delta net.
    DeltaNet(DeltaNet),
}

/// A matrix with an optional bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    /// The matrix.
    pub weight: WeightId,
    /// A bias an output column.
    pub bias: Option<WeightId>,
}

impl From<WeightId> for Projection {
    fn from(weight: WeightId) -> Self {
        Projection { weight, bias: None }
    }
}

/// Softmax attention with grouped KV heads.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a query or key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
    /// Query projection; with `gated`, each head's query is followed by its gate.
    pub q: Projection,
    /// Key projection.
    pub k: Projection,
    /// Value projection; where absent, values are the raw key projection, before its norm and rotation.
    pub v: Option<Projection>,
    /// Output projection.
    pub o: Projection,
    /// Norm of each query head.
    pub q_norm: Option<WeightId>,
    /// Norm of each key head.
    pub k_norm: Option<WeightId>,
    /// Whether each value head is normed, without a weight.
    pub v_norm: bool,
    /// Whether the output is multiplied by the sigmoid of a gate.
    pub gated: bool,
    /// Rotary table.
    pub rope: RopeId,
    /// Which dimensions are turned together.
    pub pairing: Pairing,
    /// Factor on the scores.
    pub scale: f32,
    /// Key j is visible to query i iff i − j < window.
    pub window: Option<u32>,
    /// One more logit a head in the softmax.
    pub sinks: Option<WeightId>,
}

/// Gated delta net: a causal convolution and a matrix state a value head.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaNet {
    /// Key heads.
    pub key_heads: u32,
    /// Elements of a key head.
    pub key_size: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Elements of a value head.
    pub value_size: u32,
    /// Width of the convolution.
    pub taps: u32,
    /// Which key head a value head uses.
    pub order: HeadOrder,
    /// Projection to queries, keys and values.
    pub qkv: WeightId,
    /// Projection to the output gate.
    pub z: WeightId,
    /// Projections to decay and learning rate.
    pub inputs: RecurrentInputs,
    /// Convolution, `[taps, channels]`.
    pub conv: WeightId,
    /// Added to alpha, an element a value head.
    pub dt_bias: WeightId,
    /// Decay rate, −exp(A_log), an element a value head.
    pub a: WeightId,
    /// Norm of each value head's output.
    pub norm: WeightId,
    /// Output projection.
    pub out: WeightId,
}

/// How alpha and beta, a column each a value head, are projected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentInputs {
    /// One matrix each.
    Separate {
        /// Rows are alpha.
        alpha: WeightId,
        /// Rows are beta.
        beta: WeightId,
    },
    /// One matrix; the rows of each key head are the betas of its value heads, then their alphas.
    Fused(WeightId),
}

/// What acts on each row alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Ffn {
    /// One gated FFN.
    Dense(Dense),
    /// Routed experts.
    Moe(Moe),
}

/// `down · act(gate · x, up · x)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dense {
    /// Gate matrix.
    pub gate: WeightId,
    /// Up matrix.
    pub up: WeightId,
    /// Down matrix.
    pub down: WeightId,
    /// Activation.
    pub activation: Activation,
}

/// Routed experts, perhaps with an expert that every row uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Moe {
    /// Experts.
    pub experts: u32,
    /// Experts that a row uses.
    pub top_k: u32,
    /// How the chosen ones are weighted.
    pub order: RouteOrder,
    /// Norm of the residual stream that the router reads; where absent it reads the FFN's input.
    pub router_norm: Option<RouterNorm>,
    /// Router.
    pub router: Projection,
    /// Norm of the residual stream that the experts read; where absent they read the FFN's input.
    pub input_norm: Option<WeightId>,
    /// Gate and up matrices of all experts.
    pub gate_up: GateUp,
    /// Down matrices of all experts.
    pub down: Projection,
    /// Activation.
    pub activation: Activation,
    /// Factor on each expert's output.
    pub expert_scale: Option<WeightId>,
    /// Norm of the experts' sum.
    pub post_norm: Option<WeightId>,
    /// A dense FFN beside the experts.
    pub shared: Option<SharedExpert>,
}

/// `scale · rms_norm(residual, weight)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouterNorm {
    /// Weight of the norm.
    pub weight: WeightId,
    /// Constant factor.
    pub scale: f32,
}

/// Gate and up matrices of all experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateUp {
    /// Two tensors.
    Separate {
        /// Gate.
        gate: Projection,
        /// Up.
        up: Projection,
    },
    /// One tensor: the first half of an expert's rows is its gate, the second half its up.
    Fused(WeightId),
}

/// A dense FFN beside the experts, reading the FFN's input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedExpert {
    /// The FFN.
    pub dense: Dense,
    /// Norm of its output.
    pub post_norm: Option<WeightId>,
    /// Its output times the sigmoid of this product, one column.
    pub gate: Option<WeightId>,
}
