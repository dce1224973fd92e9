//! Hidden rows: what the final norm gave for the tokens of a step.

use super::Executor;
use super::step::{Source, Tail};
use crate::batch::Part;
use crate::{Error, Sequence, Want};

impl Executor {
    /// Reads tokens after what the sequence holds, in one step, and gives the final norm's output of each, row after row. There must be
    /// at most [`Executor::logit_rows`] of them.
    ///
    /// # Errors
    /// [`Error::Option`] where the final norm's output is not stored; what the device says.
    pub fn hidden(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        sequence.reserve(sequence.len() + tokens.len())?;
        let batch = self.batch(&[Part { sequence, tokens, want: Want::All }]);
        let shape = self.shape_of(&batch);
        let tail = Tail::Host { rows: false, candidates: false };
        self.submit(Source::Host(&batch), tail)?.wait()?;
        let schedule = self.schedule(shape, false)?;
        let stored = self.plan.hidden().and_then(|c| Some((c, schedule.scratch.places[c.act.index()]?)));
        let Some((cols, place)) = stored else {
            let message = "this model's final norm is not stored on the device\nhint: `--backend cpu` computes embeddings";
            return Err(Error::Option(message.into()));
        };
        // The tokens are the last rows of a batch.
        let (width, stride) = (cols.width as usize, u64::from(place.stride));
        let first = u64::from(place.rows) - tokens.len() as u64;
        let offset = place.offset + 4 * first * stride;
        let rows = self.buffers.scratch.slice(offset, 4 * tokens.len() as u64 * stride)?;
        let values: Vec<f32> = self.device.download_as(&rows)?;
        let of_row = |row: &[f32]| row[cols.first as usize..][..width].to_vec();
        Ok(values.chunks_exact(stride as usize).flat_map(of_row).collect())
    }
}
