//! Batches: rows of any sequences in one step.

use crate::engine::Backend;
use crate::{Candidates, Engine, Error, Logits, Sequence, Want};
use zinc_plan::Row;

/// A sequence's share of a batch.
#[derive(Debug)]
pub struct Part<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// Tokens to read after what it holds.
    pub tokens: &'a [u32],
    /// What is wanted of them.
    pub want: Want,
}

/// What a part wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum PartOutput {
    /// For [`Want::None`].
    Nothing,
    /// For [`Want::Last`] and [`Want::All`]: a row for each token that wants one.
    Logits(Logits),
    /// For [`Want::Candidates`].
    Candidates {
        /// The likeliest tokens of the last row.
        best: Candidates,
        /// That row, for [`Engine::logit_row`] where the candidates do not decide.
        row: LogitRow,
    },
}

/// What one step takes; a batch that keeps within is one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// Rows.
    pub rows: usize,
    /// Of these, rows whose logits or candidates are wanted.
    pub logits: usize,
}

/// A row of logits of the engine's last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogitRow {
    pub(crate) step: u64,
    pub(crate) row: u32,
}

impl Part<'_> {
    /// Rows of logits that it wants; they are those of its last tokens.
    pub(crate) fn logit_rows(&self) -> usize {
        self.want.logit_rows(self.tokens.len())
    }

    /// Its rows in order of position.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let (first, slot) = (self.sequence.len() as u32, self.sequence.slot());
        self.tokens.iter().enumerate().map(move |(i, &token)| Row {
            sequence: slot,
            position: first + i as u32,
            token,
            wants_logits: self.want.of_token(i, self.tokens.len()),
        })
    }
}

impl PartOutput {
    /// What a part has that was given nothing so far.
    fn empty(want: Want, vocab: usize) -> PartOutput {
        match want {
            Want::Last | Want::All => PartOutput::Logits(Logits { vocab, values: Vec::new() }),
            Want::None | Want::Candidates => PartOutput::Nothing,
        }
    }

    /// Adds what a later step gave.
    fn add(&mut self, later: PartOutput) {
        match (self, later) {
            (PartOutput::Logits(all), PartOutput::Logits(more)) => all.values.extend(more.values),
            (_, PartOutput::Nothing) => {}
            (this, later) => *this = later,
        }
    }
}

impl Engine {
    /// Reads the parts' tokens, rows of different sequences in the same steps, and gives each part what it wants. Every part gets
    /// the bits that it would get alone.
    ///
    /// Parts of more tokens than a step has rows for are read in several steps, in the order of the parts.
    ///
    /// # Errors
    /// Before anything is read: [`Error::ContextFull`], [`Error::TokenOutOfRange`], [`Error::ForeignSequence`],
    /// [`Error::EmptyPrompt`] where candidates are wanted of no token. Later: what the executor says; sequences then hold the tokens
    /// of the steps that were done.
    pub fn forward_batch(&mut self, parts: &mut [Part<'_>]) -> Result<Vec<PartOutput>, Error> {
        for part in parts.iter() {
            self.check(part.sequence, part.tokens)?;
            if part.tokens.is_empty() && part.want == Want::Candidates {
                return Err(Error::EmptyPrompt);
            }
        }
        let vocab = self.summary.vocab as usize;
        let mut outputs: Vec<_> = parts.iter().map(|p| PartOutput::empty(p.want, vocab)).collect();
        let mut done = vec![0; parts.len()];
        loop {
            let taken = self.take(parts, &done);
            let mut step: Vec<Part<'_>> = Vec::new();
            let mut of = Vec::new();
            for (i, part) in parts.iter_mut().enumerate().filter(|(i, _)| taken[*i] > 0) {
                let (tokens, last) =
                    (&part.tokens[done[i]..][..taken[i]], done[i] + taken[i] == part.tokens.len());
                let want = if last || part.want == Want::All { part.want } else { Want::None };
                step.push(Part { sequence: &mut *part.sequence, tokens, want });
                of.push(i);
            }
            if step.is_empty() {
                return Ok(outputs);
            }
            let given = match &mut self.backend {
                Backend::Cpu(cpu) => cpu.forward(&step)?,
                Backend::Vulkan(executor) => executor.forward(&mut step)?,
            };
            for ((part, given), i) in step.into_iter().zip(given).zip(of) {
                outputs[i].add(given);
                part.sequence.push(part.tokens);
                done[i] += part.tokens.len();
            }
        }
    }

    /// What one step takes.
    pub fn step_limits(&self) -> StepLimits {
        match &self.backend {
            Backend::Cpu(cpu) => StepLimits { rows: cpu.chunk, logits: cpu.chunk },
            Backend::Vulkan(executor) => {
                StepLimits { rows: executor.chunk() as usize, logits: executor.logit_rows() as usize }
            }
        }
    }

    /// How many tokens of each part the next step reads, where `done` of each were read.
    fn take(&self, parts: &[Part<'_>], done: &[usize]) -> Vec<usize> {
        let StepLimits { mut rows, mut logits } = self.step_limits();
        let take = |(part, &done): (&Part<'_>, &usize)| {
            let left = part.tokens.len() - done;
            let mut n = left.min(rows);
            match part.want {
                Want::None => {}
                Want::All => {
                    n = n.min(logits);
                    logits -= n;
                }
                Want::Last | Want::Candidates if n == left && n > 0 && logits == 0 => n -= 1,
                Want::Last | Want::Candidates => logits -= usize::from(n == left && n > 0),
            }
            rows -= n;
            n
        };
        parts.iter().zip(done).map(take).collect()
    }

    /// A full row of the last step, for a sampler whose candidates did not decide.
    ///
    /// # Errors
    /// [`Error::StaleResult`] once another step has run.
    pub fn logit_row(&mut self, row: LogitRow) -> Result<Vec<f32>, Error> {
        match &mut self.backend {
            Backend::Cpu(cpu) => cpu.logit_row(row),
            Backend::Vulkan(executor) => executor.logit_row(row),
        }
    }
}
