//! The tables of a plan.

use crate::op::Op;
use crate::operand::{ActId, Cols, KvId, RopeId, StateId, WeightId};
use crate::rope::RopeTable;
use zinc_quant::FormatRef;

/// Which rows a buffer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Every row of the batch.
    Batch,
    /// The rows that want logits.
    Logits,
}

/// An activation buffer: `width` f32 a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// For reports: `q`, `ffn_gate`, …
    pub name: &'static str,
    /// Elements a row.
    pub width: u32,
    /// Which rows it has.
    pub rows: Rows,
}

/// A weight: a tensor of the file, or several that lie behind one another (`stack.rs`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// Tensor names in the file. Rows of several matrices, or elements of several vectors, follow one another.
    pub tensors: Vec<String>,
    /// Block format.
    pub format: FormatRef,
    /// Elements of a row (the inner dimension, K).
    pub k: u32,
    /// Rows (M); 1 for vectors.
    pub m: u32,
    /// Experts; 1 for everything else.
    pub experts: u32,
}

impl Weight {
    /// The tensors' names.
    pub fn name(&self) -> String {
        self.tensors.join(" + ")
    }

    /// Bytes of one row in the file.
    pub fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.k as usize)
    }

    /// Rows of all experts together.
    pub fn rows(&self) -> usize {
        self.m as usize * self.experts as usize
    }
}

/// A layer's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvSpec {
    /// KV heads.
    pub heads: u32,
    /// Elements of a key head.
    pub key_size: u32,
    /// Elements of a value head.
    pub value_size: u32,
    /// Key j is visible to query i iff i − j < window.
    pub window: Option<u32>,
}

/// A layer's recurrent state, owned by a sequence, f32, zero at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateSpec {
    /// The last `taps − 1` inputs of a causal convolution.
    Conv {
        /// Channels.
        channels: u32,
        /// Width of the convolution.
        taps: u32,
    },
    /// The matrix of each value head, `value_size` rows of `key_size`.
    DeltaNet {
        /// Value heads.
        heads: u32,
        /// Elements of a key head.
        key_size: u32,
        /// Elements of a value head.
        value_size: u32,
        /// Key heads.
        key_heads: u32,
    },
}

impl StateSpec {
    /// f32 elements a sequence.
    pub fn elements(&self) -> usize {
        match *self {
            StateSpec::Conv { channels, taps } => channels as usize * (taps as usize - 1),
            StateSpec::DeltaNet { heads, key_size, value_size, .. } => {
                heads as usize * key_size as usize * value_size as usize
            }
        }
    }
}

/// An operation with its place in the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Layer, or `None` before the first and after the last.
    pub layer: Option<u32>,
    /// What it computes, for reports: `q`, `ffn_down`, …
    pub label: &'static str,
    /// The operation.
    pub op: Op,
}

/// What a model computes for a row. See the crate's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Activation buffers.
    pub acts: Vec<Act>,
    /// Weights that the operations read; each tensor once.
    pub weights: Vec<Weight>,
    /// Rotary tables.
    pub ropes: Vec<RopeTable>,
    /// KV caches.
    pub kv: Vec<KvSpec>,
    /// Recurrent states.
    pub states: Vec<StateSpec>,
    /// Operations in order of execution.
    pub ops: Vec<Node>,
    /// Logits of the rows that want them, `vocab` wide.
    pub logits: Cols,
}

impl Plan {
    /// The buffer of an id.
    pub fn act(&self, id: ActId) -> &Act {
        &self.acts[id.index()]
    }

    /// The weight of an id.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// The table of an id.
    pub fn rope(&self, id: RopeId) -> &RopeTable {
        &self.ropes[id.index()]
    }

    /// The cache of an id.
    pub fn kv(&self, id: KvId) -> &KvSpec {
        &self.kv[id.index()]
    }

    /// The state of an id.
    pub fn state(&self, id: StateId) -> &StateSpec {
        &self.states[id.index()]
    }

    /// Elements of a row of logits.
    pub fn vocab(&self) -> u32 {
        self.logits.width
    }

    /// What the head reads of a row: the final norm's output, `hidden` wide.
    pub fn hidden(&self) -> Option<Cols> {
        self.ops.iter().rev().find(|n| n.label == "final_norm").and_then(|n| n.op.output())
    }

    /// Buffers that are read after a step: the logits, and what embeddings are made of.
    pub fn kept(&self) -> impl Iterator<Item = Cols> {
        [Some(self.logits), self.hidden()].into_iter().flatten()
    }

    /// For each buffer the first operation that writes it and the last that touches it; `None` where nothing does. The logits live on.
    pub fn lifetimes(&self) -> Vec<Option<(usize, usize)>> {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.acts.len()];
        for (i, node) in self.ops.iter().enumerate() {
            for c in node.op.inputs().into_iter().chain(node.op.output()) {
                let life = lives[c.act.index()].get_or_insert((i, i));
                life.1 = i;
            }
        }
        if let Some(life) = &mut lives[self.logits.act.index()] {
            life.1 = self.ops.len();
        }
        lives
    }
}

/// One row of a batch: a token of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which of the executor's sequences.
    pub sequence: u32,
    /// Position in it; rows of a sequence come in order of position.
    pub position: u32,
    /// Token id.
    pub token: u32,
    /// Whether its logits are wanted.
    pub wants_logits: bool,
}
