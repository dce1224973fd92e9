//! Sequences whose requests are done: the next request that begins with the same tokens goes on from there.

use zinc_engine::{Engine, Sequence};

/// Idle sequences, the least recently used first.
#[derive(Debug, Default)]
pub struct PrefixCache {
    idle: Vec<Sequence>,
}

impl PrefixCache {
    /// A sequence for a prompt, cut to what it has in common with it. `None` where all are in use.
    pub fn take(&mut self, engine: &Engine, prompt: &[u32]) -> Option<Sequence> {
        let common = |s: &Sequence| s.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let best = (0..self.idle.len())
            .map(|i| (common(&self.idle[i]), i))
            .max_by_key(|&(n, i)| (n, self.idle.len() - i));
        let mut sequence = match best {
            Some((n, i)) if n > 0 => self.idle.remove(i),
            _ => match engine.sequence() {
                Ok(fresh) => fresh,
                Err(_) if !self.idle.is_empty() => self.idle.remove(0),
                Err(_) => return None,
            },
        };
        sequence.reuse(prompt);
        Some(sequence)
    }

    /// Tokens of each sequence.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.idle.iter().map(Sequence::len)
    }

    /// Keeps a sequence for later.
    pub fn keep(&mut self, sequence: Sequence) {
        if !sequence.is_empty() {
            self.idle.push(sequence);
        }
    }
}
