//! What the last step chose: its choices of experts keep their memory.

use super::Executor;
use crate::{Error, Routing};

impl Executor {
    /// The experts that the last step's rows chose, if it had so many tokens and rows of logits. Nothing is run.
    pub fn routing(&mut self, tokens: usize, logit_rows: usize) -> Result<Vec<Routing>, Error> {
        let shape = self.widths.shape(tokens as u32, logit_rows as u32, false);
        let schedule = self.schedule(shape, false)?;
        let mut all = Vec::new();
        for step in &schedule.steps {
            let Some((logits, out)) = step.call.choice() else { continue };
            let Some(place) = schedule.scratch.places[out.act.index()] else { continue };
            let (stride, top_k) = (place.stride as usize, out.width as usize / 2);
            let bytes = u64::from(place.rows) * u64::from(place.stride) * 4;
            let choices: Vec<f32> =
                self.device.download_as(&self.buffers.scratch.slice(place.offset, bytes)?)?;
            let mut slots = vec![0; logits.width as usize];
            // The tokens are the last rows; those before them only fill up the step.
            let fillers = (place.rows as usize).saturating_sub(tokens);
            for row in choices.chunks_exact(stride).skip(fillers) {
                for &expert in &row[out.first as usize..][..top_k] {
                    if let Some(count) = slots.get_mut(expert as usize) {
                        *count += 1;
                    }
                }
            }
            all.push(Routing { layer: step.layer, rows: place.rows as usize - fillers, slots });
        }
        Ok(all)
    }
}
