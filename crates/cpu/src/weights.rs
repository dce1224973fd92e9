//! A plan's tensors: matrices stay as they are in the file, or side by side, vectors are decoded once.

use crate::error::Error;
use std::sync::Arc;
use zinc_gguf::{Gguf, TensorInfo};
use zinc_plan::{Op, Plan, Weight, WeightId};
use zinc_quant::FormatRef;

pub(crate) struct Weights {
    gguf: Arc<Gguf>,
    /// By `WeightId`.
    bytes: Vec<Bytes>,
    /// By `WeightId`: the values of what is read as a vector, empty for matrices.
    vectors: Vec<Vec<f32>>,
}

/// Where a weight's bytes are.
enum Bytes {
    /// A tensor of the file.
    Tensor(TensorInfo),
    /// Several, one behind the other.
    Joined(Vec<u8>),
}

impl Bytes {
    fn of(gguf: &Gguf, weight: &Weight) -> Result<Bytes, Error> {
        let infos = weight.tensors.iter().map(|name| {
            let fits = |info: &&TensorInfo| {
                let elements = weight.rows() as u64 * u64::from(weight.k);
                info.ggml_type.id() == weight.format.ggml_type && info.elements() <= elements
            };
            gguf.tensor(name).filter(fits).ok_or_else(|| Error::Weight { tensor: name.clone() })
        });
        let infos = infos.collect::<Result<Vec<_>, _>>()?;
        let bytes = match infos[..] {
            [info] => Bytes::Tensor(info.clone()),
            _ => Bytes::Joined(infos.iter().map(|info| gguf.data(info)).collect::<Vec<_>>().concat()),
        };
        match bytes.get(gguf).len() == weight.row_bytes() * weight.rows() {
            true => Ok(bytes),
            false => Err(Error::Weight { tensor: weight.name() }),
        }
    }

    fn get<'a>(&'a self, gguf: &'a Gguf) -> &'a [u8] {
        match self {
            Bytes::Tensor(info) => gguf.data(info),
            Bytes::Joined(bytes) => bytes,
        }
    }
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
        let bytes = plan.weights.iter().map(|w| Bytes::of(&gguf, w)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = vec![vec![]; bytes.len()];
        for node in &plan.ops {
            let matrix = match node.op {
                Op::Embed { .. } | Op::Linear { .. } | Op::ExpertLinear { .. } => continue,
                _ => node.op.weights(),
            };
            for id in matrix {
                let matrix = Matrix::new(bytes[id.index()].get(&gguf), plan.weight(id));
                let values = &mut vectors[id.index()];
                *values = vec![0.0; matrix.rows * matrix.k];
                matrix.decode(0, values);
            }
        }
        Ok(Weights { gguf, bytes, vectors })
    }

    /// The values of a vector, or of a small matrix row after row.
    pub(crate) fn vector(&self, id: WeightId) -> &[f32] {
        &self.vectors[id.index()]
    }

    /// A matrix; of all experts one after the other, where it has several.
    pub(crate) fn matrix(&self, plan: &Plan, id: WeightId) -> Matrix<'_> {
        Matrix::new(self.bytes[id.index()].get(&self.gguf), plan.weight(id))
    }
}
