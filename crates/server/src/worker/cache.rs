//! What was computed for earlier requests, for those that begin alike.

use super::tree::PrefixTree;
use zinc_engine::{Engine, PAGE_TOKENS, Sequence};

/// Prefixes that are kept. Where the executor has pages, in a tree that shares them with all that run; else (on the CPU executor, for
/// models with recurrent states) as the sequences of requests that are done, the least recently used first.
#[derive(Debug, Default)]
pub struct PrefixCache {
    tree: PrefixTree,
    idle: Vec<Sequence>,
}

impl PrefixCache {
    /// A sequence for a prompt that begins with what is known of it. `None` where all are in use.
    pub fn take(&mut self, engine: &Engine, prompt: &[u32]) -> Option<Sequence> {
        if !engine.shares_pages() {
            return self.take_idle(engine, prompt);
        }
        // One token is left to compute: it gives the first logits.
        let pages = self.tree.find(&prompt[..prompt.len() - 1]);
        let tokens = &prompt[..pages.len() * PAGE_TOKENS as usize];
        engine.sequence_of(tokens, &pages).ok()
    }

    fn take_idle(&mut self, engine: &Engine, prompt: &[u32]) -> Option<Sequence> {
        let common = |s: &Sequence| common(s.tokens(), prompt);
        let lengths = self.idle.iter().map(common).enumerate();
        let best = lengths.max_by_key(|&(i, n)| (n, self.idle.len() - i));
        let mut sequence = match best {
            Some((i, n)) if n > 0 => self.idle.remove(i),
            _ => match engine.sequence() {
                Ok(fresh) => fresh,
                Err(_) if !self.idle.is_empty() => self.idle.remove(0),
                Err(_) => return None,
            },
        };
        sequence.reuse(prompt);
        Some(sequence)
    }

    /// Whether a prompt does better to wait for `other`, which is being read: they have more in common than is known.
    pub fn should_wait(&self, engine: &Engine, prompt: &[u32], other: &[u32]) -> bool {
        let shared = common(&prompt[..prompt.len() - 1], other) / PAGE_TOKENS as usize;
        shared > 0 && engine.shares_pages() && shared * PAGE_TOKENS as usize > self.tree.known(prompt)
    }

    /// Notes what a sequence that goes on has computed.
    pub fn note(&mut self, engine: &Engine, sequence: &Sequence) {
        if engine.shares_pages() {
            self.tree.add(sequence.tokens(), sequence.share(sequence.len()));
        }
    }

    /// Keeps what a sequence has computed that is done.
    pub fn keep(&mut self, engine: &Engine, sequence: Sequence) {
        if engine.shares_pages() {
            self.note(engine, &sequence);
        } else if !sequence.is_empty() {
            self.idle.push(sequence);
        }
    }

    /// Forgets prefixes until `pages` pages are free, and returns how many pages were given up. Sequences that run never need more than
    /// there are, so this is always enough.
    pub fn make_room(&mut self, engine: &Engine, pages: usize) -> usize {
        let before = self.tree.len();
        while engine.shares_pages() && engine.free_pages() < pages && self.tree.forget_one() {}
        before - self.tree.len()
    }

    /// Pages kept.
    pub fn pages(&self) -> usize {
        let idle = self.idle.iter().map(|s| s.len().div_ceil(PAGE_TOKENS as usize));
        self.tree.len() + idle.sum::<usize>()
    }
}

/// How many tokens two texts have in common at their beginning.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
