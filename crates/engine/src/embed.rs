//! Embeddings: what the final norm gives for the tokens of a text, averaged.

use crate::engine::Backend;
use crate::{Engine, Error};
use zinc_plan::Row;

impl Engine {
    /// The mean of the final norm's output over `tokens`, of length 1 (Euclidean); as many elements as the model's hidden size.
    ///
    /// # Errors
    /// [`Error::Option`] where a device runs the model: its hidden states stay there. [`Error::EmptyPrompt`],
    /// [`Error::ContextFull`], [`Error::TokenOutOfRange`], what the executor says.
    pub fn embed(&self, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        let Backend::Cpu(backend) = &self.backend else {
            let message =
                "embeddings are computed by the CPU executor alone so far\nhint: use `--backend cpu`";
            return Err(Error::Option(message.into()));
        };
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.check_tokens(0, tokens)?;
        let mut sequence = [backend.cpu.new_sequence(self.summary.context)];
        let mut sum: Vec<f64> = Vec::new();
        for (i, chunk) in tokens.chunks(backend.chunk).enumerate() {
            let first = i * backend.chunk;
            let row =
                |(j, &token)| Row { sequence: 0, position: (first + j) as u32, token, wants_logits: true };
            let rows: Vec<Row> = chunk.iter().enumerate().map(row).collect();
            backend.cpu.forward_observed(&rows, &mut sequence, &mut |node, values| {
                if node.label == "final_norm" {
                    sum.resize(values.width, 0.0);
                    for row in (0..values.rows()).map(|r| values.row(r)) {
                        sum.iter_mut().zip(row).for_each(|(s, &v)| *s += f64::from(v));
                    }
                }
            })?;
        }
        let length = sum.iter().map(|s| s * s).sum::<f64>().sqrt();
        Ok(sum.into_iter().map(|s| (s / length.max(f64::MIN_POSITIVE)) as f32).collect())
    }
}
