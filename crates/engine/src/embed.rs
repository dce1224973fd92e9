//! Embeddings: what the final norm gives for the tokens of a text, averaged.

use crate::engine::{Backend, CpuBackend};
use crate::{Engine, Error};
use zinc_plan::Row;

impl Engine {
    /// The mean of the final norm's output over `tokens`, of length 1 (Euclidean); as many elements as the model's hidden size.
    ///
    /// On Vulkan it reads the text in a sequence of its own.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::ContextFull`], [`Error::TokenOutOfRange`], as [`Engine::sequence`], what the executor says.
    pub fn embed(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.check_tokens(0, tokens)?;
        let mut sum = Sum(vec![0.0; self.model.plan.hidden().map_or(0, |c| c.width as usize)]);
        if let Backend::Cpu(backend) = &self.backend {
            on_cpu(backend, self.summary.context, tokens, &mut sum)?;
        } else {
            let limits = self.step_limits();
            let mut sequence = self.sequence()?;
            for step in tokens.chunks(limits.rows.min(limits.logits)) {
                if let Backend::Vulkan(executor) = &mut self.backend {
                    sum.add(&executor.hidden(&mut sequence, step)?);
                }
                sequence.push(step);
            }
        }
        Ok(sum.unit())
    }
}

fn on_cpu(backend: &CpuBackend, context: u32, tokens: &[u32], sum: &mut Sum) -> Result<(), Error> {
    let mut sequence = [backend.cpu.new_sequence(context)];
    for (i, chunk) in tokens.chunks(backend.chunk).enumerate() {
        let first = i * backend.chunk;
        let row = |(j, &token)| Row { sequence: 0, position: (first + j) as u32, token, wants_logits: true };
        let rows: Vec<Row> = chunk.iter().enumerate().map(row).collect();
        backend.cpu.forward_observed(&rows, &mut sequence, &mut |node, values| {
            if node.label == "final_norm" {
                (0..values.rows()).for_each(|r| sum.add(values.row(r)));
            }
        })?;
    }
    Ok(())
}

/// The sum of rows.
struct Sum(Vec<f64>);

impl Sum {
    /// Adds rows that lie one after the other.
    fn add(&mut self, rows: &[f32]) {
        for row in rows.chunks_exact(self.0.len().max(1)) {
            self.0.iter_mut().zip(row).for_each(|(s, &v)| *s += f64::from(v));
        }
    }

    /// Scaled to length 1: the mean's direction is the sum's.
    fn unit(self) -> Vec<f32> {
        let length = self.0.iter().map(|s| s * s).sum::<f64>().sqrt();
        self.0.into_iter().map(|s| (s / length.max(f64::MIN_POSITIVE)) as f32).collect()
    }
}
