//! The rows of a step from the host, and what each part of it gets.

use super::step::{Source, Tail};
use super::{Executor, POISON, widths};
use crate::batch::{LogitRow, Part, PartOutput};
use crate::compile::Shape;
use crate::{Candidates, Error, Logits, Want};
use zinc_kernels::RowInfo;
use zinc_kernels::recurrent::PartRows;
use zinc_kernels::sample::top_k::{TopK, row_words};

/// Rows in the order of the device: those whose logits nobody wants, then those with logits, both by part. Rows of one sequence stay
/// in order of position.
pub struct Batch {
    /// The rows.
    pub rows: Vec<RowInfo>,
    /// How many of them, the last ones, want logits.
    pub logit_rows: u32,
    /// Where each part's recurrent states are, and how many rows it has.
    pub parts: Vec<PartRows>,
}

impl Batch {
    /// Whether each row is the only one of its sequence.
    fn is_apart(&self) -> bool {
        self.rows.iter().enumerate().all(|(i, row)| self.rows[..i].iter().all(|r| r.sequence != row.sequence))
    }
}

impl Executor {
    /// The shape of a batch's step.
    pub(super) fn shape_of(&self, batch: &Batch) -> Shape {
        let rows = batch.rows.len() as u32;
        let decodes = rows == batch.logit_rows && rows <= widths::APART;
        self.widths.shape(rows, batch.logit_rows, decodes && batch.is_apart())
    }

    /// The rows of these parts; notes the sequences' pages. Room for the tokens must have been reserved.
    pub(super) fn batch(&mut self, parts: &[Part<'_>]) -> Batch {
        let all = || parts.iter().flat_map(|p| p.rows());
        let order = all().filter(|r| !r.wants_logits).chain(all().filter(|r| r.wants_logits));
        let info = |r: zinc_plan::Row| RowInfo {
            token: r.token,
            position: r.position,
            sequence: r.sequence,
            flags: 0,
        };
        for part in parts {
            let first = part.sequence.slot() as usize * self.extents.max_pages() as usize;
            let pages = part.sequence.pages();
            self.page_table[first..first + pages.len()].copy_from_slice(pages);
        }
        let states = |p: &Part<'_>| {
            let ((from, to), with_logits) = (p.sequence.state_slots(), p.logit_rows() as u32);
            PartRows { from, to, plain: p.tokens.len() as u32 - with_logits, with_logits }
        };
        let logit_rows = parts.iter().map(|p| p.logit_rows() as u32).sum();
        let parts = parts.iter().filter(|p| !p.tokens.is_empty()).map(states).collect();
        Batch { rows: order.map(info).collect(), logit_rows, parts }
    }

    /// One step of rows of any sequences: what each part wants. There must be at most [`Executor::chunk`] rows, and logits of at
    /// most [`Executor::logit_rows`].
    pub fn forward(&mut self, parts: &mut [Part<'_>]) -> Result<Vec<PartOutput>, Error> {
        for part in parts.iter_mut() {
            part.sequence.reserve(part.sequence.len() + part.tokens.len())?;
        }
        let batch = self.batch(parts);
        let wants = |want: &[Want]| parts.iter().any(|p| want.contains(&p.want));
        let tail =
            Tail::Host { rows: wants(&[Want::Last, Want::All]), candidates: wants(&[Want::Candidates]) };
        let ticket = self.submit(Source::Host(&batch), tail)?;
        let logit_rows = self.held.logit_rows;
        let mut values = Vec::new();
        // Where nothing is wanted nobody waits: the next step does, on the device.
        if batch.logit_rows > 0 {
            ticket.wait()?;
        }
        if let Tail::Host { rows: true, .. } = tail {
            values = self.read_rows(logit_rows)?;
        }
        let vocab = self.extents.vocab as usize;
        let mut row = (logit_rows - batch.logit_rows) as usize;
        let output = |part: &Part<'_>| {
            let n = part.logit_rows();
            let first = row;
            row += n;
            match part.want {
                Want::None => Ok(PartOutput::Nothing),
                Want::Last | Want::All => {
                    let values = values[first * vocab..(first + n) * vocab].to_vec();
                    Ok(PartOutput::Logits(Logits { vocab, values }))
                }
                Want::Candidates => {
                    let row = LogitRow { step: self.steps, row: first as u32 };
                    Ok(PartOutput::Candidates { best: self.read_candidates(row)?, row })
                }
            }
        };
        parts.iter().map(output).collect()
    }

    /// Spoils the result buffers, so that what is read afterwards is this step's.
    pub(super) fn poison(&self, tail: Tail, logit_rows: u32) -> Result<(), Error> {
        let Tail::Host { rows, candidates } = tail else { return Ok(()) };
        for row in 0..u64::from(logit_rows) {
            if rows {
                let at = row * u64::from(self.extents.vocab) * 4;
                self.buffers.logits.write(at, &POISON.to_le_bytes())?;
            }
            if candidates {
                let at = row * u64::from(row_words(super::buffers::CANDIDATES)) * 4;
                self.buffers.candidates.write(at, &POISON.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// The candidates of a row of the last step.
    pub(super) fn read_candidates(&self, row: LogitRow) -> Result<Candidates, Error> {
        let stale = Error::StaleResult { step: row.step, held: self.held.step };
        if row.step != self.held.step || !self.held.candidates || row.row >= self.held.logit_rows {
            return Err(stale);
        }
        let bytes = u64::from(row_words(super::buffers::CANDIDATES)) * 4;
        let words: Vec<u32> = self.buffers.candidates.slice(u64::from(row.row) * bytes, bytes)?.read_as()?;
        if words[0] == POISON {
            return Err(stale);
        }
        let found = TopK::read(&words).ok_or(crate::NotFinite)?;
        let vocab = self.extents.vocab as usize;
        Ok(Candidates { tokens: found.candidates, log_sum_exp: f64::from(found.log_sum_exp), vocab })
    }

    /// A row of logits that the last step did not copy. It lies in scratch memory, which the next step overwrites.
    pub fn logit_row(&mut self, row: LogitRow) -> Result<Vec<f32>, Error> {
        let bytes = u64::from(self.extents.vocab) * 4;
        let logits = match &self.held.logits {
            Some(logits) if self.held.step == row.step => logits.slice(u64::from(row.row) * bytes, bytes)?,
            _ => return Err(Error::StaleResult { step: row.step, held: self.held.step }),
        };
        self.poison(Tail::Host { rows: true, candidates: false }, 1)?;
        let to = self.buffers.logits.slice(0, bytes)?;
        self.run("logits", |recorder| Ok(recorder.copy(&logits, &to)?))?;
        self.submissions += 1;
        self.read_rows(1)
    }

    /// The first `rows` rows of logits that the last step, or a copy after it, gave the host.
    pub(super) fn read_rows(&self, rows: u32) -> Result<Vec<f32>, Error> {
        let row = u64::from(self.extents.vocab) * 4;
        let values: Vec<f32> = self.buffers.logits.slice(0, u64::from(rows) * row)?.read_as()?;
        match values.chunks(self.extents.vocab as usize).any(|r| r[0].to_bits() == POISON) {
            true => Err(Error::StaleResult { step: self.steps, held: self.steps - 1 }),
            false => Ok(values),
        }
    }
}
