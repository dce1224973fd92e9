//! The stages of a chain.

use crate::elementwise::sigmoid_gate::Parts;

/// What is done to a row. Columns are an `M`, vectors of weights a `V`: the compiler's names, or memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stage<M, V> {
    /// The row is `x`.
    Load {
        /// As wide as the row.
        x: M,
    },
    /// The row is `Σ_s weight(s) · factor[expert(s)] · x[s]` over the slots of a choice in their order.
    Experts {
        /// `top_k` times as wide as the row.
        x: M,
        /// `2 · top_k` columns.
        choice: M,
        /// An f32 an expert.
        factor: Option<V>,
    },
    /// Adds `x`.
    Add {
        /// As wide as the row.
        x: M,
    },
    /// Adds `x · sigmoid(gate)`.
    AddGated {
        /// As wide as the row.
        x: M,
        /// One column.
        gate: M,
    },
    /// Multiplies with `sigmoid(gate)`.
    Gate {
        /// As wide as the row, or what its parts are taken from.
        gate: M,
        /// Where gates are parts of wider columns.
        parts: Option<Parts>,
    },
    /// Adds the RMS norm of `x`.
    AddNormed {
        /// As wide as the row.
        x: M,
        /// Of the norm, as wide as the row.
        weight: V,
    },
    /// The row becomes its RMS norm.
    Norm {
        /// As wide as the row.
        weight: V,
    },
    /// Multiplies with a number.
    Scale {
        /// The number; a chain has one.
        by: f32,
    },
    /// Multiplies with an element.
    ScaleBy {
        /// Whose first element it is.
        weight: V,
    },
    /// Stores the row.
    Store {
        /// As wide as the row.
        out: M,
    },
    /// Stores the row's RMS norm, which the row does not become.
    StoreNormed {
        /// As wide as the row.
        weight: V,
        /// A further factor; a chain has one.
        scale: Option<f32>,
        /// As wide as the row.
        out: M,
    },
    /// Stores what the stage before stored once more, in f16.
    Pack {
        /// [`crate::gemm::Packed`].
        out: M,
    },
    /// Stores the product of what was stored last with a vector.
    Dot {
        /// As wide as the row.
        weight: V,
        /// One column.
        out: M,
    },
}

/// An operand of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand<M, V> {
    /// Columns that it reads.
    Read(M),
    /// Weights that it reads.
    Weight(V),
    /// Columns that it writes.
    Write(M),
}

impl<M: Copy, V: Copy> Stage<M, V> {
    /// The operands, in the order of the shader's addresses.
    pub fn operands(&self) -> Vec<Operand<M, V>> {
        use Operand::{Read, Weight, Write};
        match *self {
            Stage::Load { x } | Stage::Add { x } => vec![Read(x)],
            Stage::Experts { x, choice, factor } => {
                [Read(x), Read(choice)].into_iter().chain(factor.map(Weight)).collect()
            }
            Stage::AddGated { x, gate } => vec![Read(x), Read(gate)],
            Stage::Gate { gate, .. } => vec![Read(gate)],
            Stage::AddNormed { x, weight } => vec![Read(x), Weight(weight)],
            Stage::Norm { weight } | Stage::ScaleBy { weight } => vec![Weight(weight)],
            Stage::Scale { .. } => vec![],
            Stage::Store { out } | Stage::Pack { out } => vec![Write(out)],
            Stage::StoreNormed { weight, out, .. } | Stage::Dot { weight, out } => {
                vec![Weight(weight), Write(out)]
            }
        }
    }

    /// The columns that it reads.
    pub fn reads(&self) -> Vec<M> {
        let read = |o| if let Operand::Read(m) = o { Some(m) } else { None };
        self.operands().into_iter().filter_map(read).collect()
    }

    /// The columns that it writes.
    pub fn writes(&self) -> Vec<M> {
        let written = |o| if let Operand::Write(m) = o { Some(m) } else { None };
        self.operands().into_iter().filter_map(written).collect()
    }

    /// The same with other names for columns and weights.
    ///
    /// # Errors
    /// Those of `m`.
    pub fn map<N, W, E>(&self, m: impl Fn(M) -> Result<N, E>, v: impl Fn(V) -> W) -> Result<Stage<N, W>, E> {
        Ok(match *self {
            Stage::Load { x } => Stage::Load { x: m(x)? },
            Stage::Experts { x, choice, factor } => {
                Stage::Experts { x: m(x)?, choice: m(choice)?, factor: factor.map(v) }
            }
            Stage::Add { x } => Stage::Add { x: m(x)? },
            Stage::AddGated { x, gate } => Stage::AddGated { x: m(x)?, gate: m(gate)? },
            Stage::AddNormed { x, weight } => Stage::AddNormed { x: m(x)?, weight: v(weight) },
            Stage::Norm { weight } => Stage::Norm { weight: v(weight) },
            Stage::Scale { by } => Stage::Scale { by },
            Stage::ScaleBy { weight } => Stage::ScaleBy { weight: v(weight) },
            Stage::Store { out } => Stage::Store { out: m(out)? },
            Stage::StoreNormed { weight, scale, out } => {
                Stage::StoreNormed { weight: v(weight), scale, out: m(out)? }
            }
            Stage::Pack { out } => Stage::Pack { out: m(out)? },
            Stage::Dot { weight, out } => Stage::Dot { weight: v(weight), out: m(out)? },
            Stage::Gate { gate, parts } => Stage::Gate { gate: m(gate)?, parts },
        })
    }

    /// The shader's number of it.
    pub(super) fn code(&self) -> u32 {
        match self {
            Stage::Load { .. } => 1,
            Stage::Experts { factor: None, .. } => 2,
            Stage::Experts { factor: Some(_), .. } => 3,
            Stage::Add { .. } => 4,
            Stage::AddGated { .. } => 5,
            Stage::AddNormed { .. } => 6,
            Stage::Norm { .. } => 7,
            Stage::Scale { .. } => 8,
            Stage::ScaleBy { .. } => 9,
            Stage::Store { .. } => 10,
            Stage::StoreNormed { scale: None, .. } => 11,
            Stage::StoreNormed { scale: Some(_), .. } => 12,
            Stage::Pack { .. } => 13,
            Stage::Dot { .. } => 14,
            Stage::Gate { .. } => 15,
        }
    }

    /// The number that it multiplies with.
    pub(super) fn scale(&self) -> Option<f32> {
        match *self {
            Stage::Scale { by } => Some(by),
            Stage::StoreNormed { scale, .. } => scale,
            _ => None,
        }
    }
}
