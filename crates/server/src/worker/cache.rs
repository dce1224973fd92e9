//! What was computed for earlier requests, for those that begin alike.

use super::tree::PrefixTree;
use zinc_engine::{Engine, PAGE_TOKENS, Sequence};

/// Prefixes that are kept. Where the executor has pages, in a tree that shares them with all that run; else (on the CPU executor) as the
/// sequences of requests that are done, the least recently used first.
///
/// Recurrent states are kept at few places of the tree, at ends of pages: near the end of a prompt, where prompts part that begin alike, and
/// at the last page of an answer.
#[derive(Debug, Default)]
pub struct PrefixCache {
    tree: PrefixTree,
    idle: Vec<Sequence>,
}

/// A sequence for a prompt.
#[derive(Debug)]
pub struct Taken {
    /// It begins with what is known of the prompt.
    pub sequence: Sequence,
    /// After how many tokens of the prompt recurrent states are worth keeping: a step is to end there.
    pub keep_at: Vec<usize>,
}

/// Tokens at the end of a prompt that the next one of a conversation may lack, though it begins like it: those by which a template
/// opens an answer.
const OPENING: usize = 8;

impl PrefixCache {
    /// A sequence for a prompt that begins with what is known of it. `None` where all are in use.
    pub fn take(&mut self, engine: &Engine, prompt: &[u32]) -> Option<Taken> {
        let page = PAGE_TOKENS as usize;
        // One token is left to compute: it gives the first logits.
        let before_last = &prompt[..prompt.len() - 1];
        if !engine.shares_pages() {
            let sequence = self.take_idle(engine, prompt)?;
            return Some(Taken { sequence, keep_at: Vec::new() });
        }
        if !engine.is_recurrent() {
            let pages = self.tree.find(before_last);
            let sequence = engine.sequence_of(&prompt[..pages.len() * page], &pages, None).ok()?;
            return Some(Taken { sequence, keep_at: Vec::new() });
        }
        // Where this prompt parts from one that was read, and near its end.
        let keep_at = vec![self.tree.known(before_last), prompt.len().saturating_sub(OPENING) / page * page];
        let (pages, states) = self.tree.find_states(before_last).unzip();
        let pages = pages.unwrap_or_default();
        let sequence = engine.sequence_of(&prompt[..pages.len() * page], &pages, states.as_ref()).ok()?;
        Some(Taken { sequence, keep_at })
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
        let known = match engine.is_recurrent() {
            true => self.tree.known_states(prompt),
            false => self.tree.known(prompt),
        };
        shared > 0 && engine.shares_pages() && shared * PAGE_TOKENS as usize > known
    }

    /// Notes what a sequence that goes on has computed. Of a model with recurrent states, those at the end of a page are kept; while it
    /// answers, those of the last page alone.
    pub fn note(&mut self, engine: &Engine, sequence: &mut Sequence, answers: bool) {
        if !engine.shares_pages() {
            return;
        }
        self.tree.add(sequence.tokens(), sequence.share(sequence.len()));
        let len = sequence.len();
        if engine.is_recurrent() && len.is_multiple_of(PAGE_TOKENS as usize) {
            while engine.spare_states() == 0 && self.tree.forget_states() {}
            sequence.keep();
            if let Some(states) = sequence.share_states(len) {
                self.tree.add_states(sequence.tokens(), states, answers);
            }
            sequence.give_up(|_| true); // they are the tree's now
        }
    }

    /// Keeps what a sequence has computed that is done.
    pub fn keep(&mut self, engine: &Engine, sequence: Sequence) {
        if engine.shares_pages() {
            self.tree.add(sequence.tokens(), sequence.share(sequence.len()));
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
