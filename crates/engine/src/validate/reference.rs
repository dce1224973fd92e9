//! The CPU executor beside a device: the same plan from the same file.

use super::{Caches, Chunk};
use crate::execute::KvRows;
use crate::{Error, Want};
use std::collections::HashMap;
use std::sync::Arc;
use zinc_cpu::{Cpu, Sequence};
use zinc_gguf::Gguf;
use zinc_plan::{Cols, KvId, Plan, Row, StateId};

/// Tokens of the history that are read at a time.
const CHUNK: usize = 64;

/// The reference and the state of one sequence.
pub(crate) struct Reference {
    cpu: Cpu,
    sequence: [Sequence; 1],
    /// What the state is of.
    tokens: Vec<u32>,
}

/// Outputs of a chunk's operations, by their columns.
pub(super) struct Outputs {
    values: HashMap<Cols, Vec<f32>>,
    /// Rows of the chunk.
    rows: usize,
}

impl Outputs {
    /// A row of the chunk; `None` where these columns are no operation's output, or not of this row.
    pub(super) fn row(&self, c: Cols, row: usize) -> Option<&[f32]> {
        let (values, width) = (self.values.get(&c)?, c.width as usize);
        // Buffers with fewer rows than the chunk have its last ones.
        let row = row.checked_sub(self.rows - values.len() / width)?;
        values.get(row * width..(row + 1) * width)
    }
}

impl Reference {
    pub(super) fn new(gguf: Arc<Gguf>, plan: &Plan, context: u32) -> Result<Reference, Error> {
        let cpu = Cpu::new(gguf, plan.clone())?;
        let sequence = [cpu.new_sequence(context)];
        Ok(Reference { cpu, sequence, tokens: Vec::new() })
    }

    /// Makes the state that of these tokens.
    pub(super) fn catch_up(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let common = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = self.sequence[0].truncate(common as u32) as usize;
        self.tokens.truncate(kept);
        for part in tokens[kept..].chunks(CHUNK) {
            self.cpu.forward(&self.rows(part, Want::None), &mut self.sequence)?;
            self.tokens.extend(part);
        }
        Ok(())
    }

    /// Reads a chunk.
    pub(super) fn forward(&mut self, tokens: &[u32], want: Want) -> Result<Chunk, Error> {
        let logits = self.cpu.forward(&self.rows(tokens, want), &mut self.sequence)?.into_vec();
        let first = self.tokens.len();
        self.tokens.extend(tokens);
        let kv = (0..self.cpu.plan().kv.len() as u32).map(|id| {
            let collect = |part: fn(&Sequence, KvId, usize) -> &[f32]| {
                (first..self.tokens.len())
                    .flat_map(|p| part(&self.sequence[0], KvId(id), p))
                    .copied()
                    .collect()
            };
            KvRows { keys: collect(Sequence::keys), values: collect(Sequence::values) }
        });
        let states =
            (0..self.cpu.plan().states.len() as u32).map(|id| self.sequence[0].state(StateId(id)).to_vec());
        Ok(Chunk {
            logits,
            caches: Caches { kv: kv.collect(), states: states.collect() },
            chosen: Vec::new(),
        })
    }

    /// What every operation gives for a chunk; the state stays as it is.
    pub(super) fn observe(&mut self, tokens: &[u32], want: Want) -> Result<Outputs, Error> {
        let before = self.sequence.clone();
        let mut values = HashMap::new();
        let rows = self.rows(tokens, want);
        self.cpu.forward_observed(&rows, &mut self.sequence, &mut |node, out| {
            if let Some(c) = node.op.output() {
                values.insert(c, out.data.to_vec());
            }
        })?;
        self.sequence = before;
        Ok(Outputs { values, rows: tokens.len() })
    }

    fn rows(&self, tokens: &[u32], want: Want) -> Vec<Row> {
        let row = |(i, &token): (usize, &u32)| Row {
            sequence: 0,
            position: (self.tokens.len() + i) as u32,
            token,
            wants_logits: want.of_token(i, tokens.len()),
        };
        tokens.iter().enumerate().map(row).collect()
    }
}
