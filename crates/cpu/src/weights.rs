//! A plan's tensors: matrices stay as they are in the file, vectors are decoded once.

use crate::error::Error;
use std::sync::Arc;
use zinc_gguf::{Gguf, TensorInfo};
use zinc_plan::{Op, Plan, Weight, WeightId};
use zinc_quant::FormatRef;

pub(crate) struct Weights {
    gguf: Arc<Gguf>,
    /// By `WeightId`.
    infos: Vec<TensorInfo>,
    /// By `WeightId`: the values of what is read as a vector, empty for matrices.
    vectors: Vec<Vec<f32>>,
}

/// Rows of blocks.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) format: FormatRef,
    pub(crate) k: usize,
    pub(crate) rows: usize,
    row_bytes: usize,
}

impl<'a> Matrix<'a> {
    fn new(bytes: &'a [u8], weight: &Weight) -> Self {
        let (format, k, row_bytes) = (weight.format, weight.k as usize, weight.row_bytes());
        Matrix { bytes, format, k, rows: weight.rows(), row_bytes }
    }

    /// Decodes rows from `first` on; `out` is whole rows.
    pub(crate) fn decode(&self, first: usize, out: &mut [f32]) {
        let rows = out.len() / self.k;
        self.format.decode_row(&self.bytes[first * self.row_bytes..][..rows * self.row_bytes], out);
    }

    /// The rows `first .. first + rows`.
    pub(crate) fn part(&self, first: usize, rows: usize) -> Matrix<'a> {
        Matrix { bytes: &self.bytes[first * self.row_bytes..][..rows * self.row_bytes], rows, ..*self }
    }
}

impl Weights {
    pub(crate) fn new(gguf: Arc<Gguf>, plan: &Plan) -> Result<Self, Error> {
        let infos = plan.weights.iter().map(|w| find(&gguf, w)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = vec![vec![]; infos.len()];
        for node in &plan.ops {
            let matrix = match node.op {
                Op::Embed { .. } | Op::Linear { .. } | Op::ExpertLinear { .. } => continue,
                _ => node.op.weights(),
            };
            for id in matrix {
                let (weight, info) = (plan.weight(id), &infos[id.index()]);
                let matrix = Matrix::new(gguf.data(info), weight);
                let values = &mut vectors[id.index()];
                *values = vec![0.0; matrix.rows * matrix.k];
                matrix.decode(0, values);
            }
        }
        Ok(Weights { gguf, infos, vectors })
    }

    /// The values of a vector, or of a small matrix row after row.
    pub(crate) fn vector(&self, id: WeightId) -> &[f32] {
        &self.vectors[id.index()]
    }

    /// A matrix; of all experts one after the other, where it has several.
    pub(crate) fn matrix(&self, plan: &Plan, id: WeightId) -> Matrix<'_> {
        Matrix::new(self.gguf.data(&self.infos[id.index()]), plan.weight(id))
    }
}

fn find(gguf: &Gguf, weight: &Weight) -> Result<TensorInfo, Error> {
    let fits = |info: &&TensorInfo| {
        info.ggml_type.id() == weight.format.ggml_type
            && info.dims[0] == u64::from(weight.k)
            && info.elements() == weight.rows() as u64 * u64::from(weight.k)
    };
    let missing = || Error::Weight { tensor: weight.tensor.clone() };
    gguf.tensor(&weight.tensor).filter(fits).cloned().ok_or_else(missing)
}
