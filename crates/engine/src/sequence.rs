//! Sequences: tokens, the slot of an executor that holds their state, and the pages of their KV cache.

use crate::{Error, PAGE_TOKENS};
use std::sync::{Arc, Mutex, MutexGuard};

/// A text that the model has read so far. Its cache lives in the engine that made it and is freed when this is dropped.
#[derive(Debug)]
pub struct Sequence {
    pool: Pool,
    slot: u32,
    tokens: Vec<u32>,
    pages: Vec<u32>,
    /// Recurrent states hold only the end of the text, so it cannot be cut.
    recurrent: bool,
}

impl Sequence {
    /// The tokens that the cache holds.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Number of tokens in the cache: the position of the next one.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Cuts the sequence to its first `len` tokens, and to none where a model with recurrent states has read more.
    pub fn truncate(&mut self, len: usize) {
        let len = match self.recurrent && len < self.tokens.len() {
            true => 0,
            false => len,
        };
        self.tokens.truncate(len);
        let keep = self.tokens.len().div_ceil(PAGE_TOKENS as usize);
        if keep < self.pages.len() {
            let free = self.pages.split_off(keep);
            self.pool.lock().pages.extend(free.into_iter().rev());
        }
    }

    /// Cuts the sequence to what it has in common with `text`, and leaves at least one token of `text` to compute. Returns how
    /// many tokens are reused.
    pub fn reuse(&mut self, text: &[u32]) -> usize {
        let common = self.tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
        self.truncate(common.min(text.len().saturating_sub(1)));
        self.tokens.len()
    }

    /// The executor's slot.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Pages in order of position.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Makes room for `tokens` tokens in all; returns whether pages were added.
    pub(crate) fn reserve(&mut self, tokens: usize) -> Result<bool, Error> {
        let need = tokens.div_ceil(PAGE_TOKENS as usize);
        if need <= self.pages.len() {
            return Ok(false);
        }
        let mut inner = self.pool.lock();
        let more = need - self.pages.len();
        if inner.pages.len() < more {
            let context = (self.pages.len() + inner.pages.len()) * PAGE_TOKENS as usize;
            return Err(Error::ContextFull { tokens, context });
        }
        let from = inner.pages.len() - more;
        self.pages.extend(inner.pages.drain(from..).rev());
        Ok(true)
    }

    /// Notes tokens that entered the cache.
    pub(crate) fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.pool.0, &pool.0)
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        let mut inner = self.pool.lock();
        inner.slots.push(self.slot);
        inner.pages.extend(self.pages.drain(..).rev());
    }
}

/// The slots and pages that no sequence has. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Mutex<Free>>);

#[derive(Debug)]
struct Free {
    slots: Vec<u32>,
    pages: Vec<u32>,
}

impl Pool {
    /// `slots` sequences and `pages` pages, given out in the order of `pages`.
    pub(crate) fn new(slots: u32, pages: impl DoubleEndedIterator<Item = u32>) -> Pool {
        let slots = (0..slots).rev().collect();
        Pool(Arc::new(Mutex::new(Free { slots, pages: pages.rev().collect() })))
    }

    /// A sequence of its own slot; `None` where all are taken.
    pub(crate) fn sequence(&self, recurrent: bool) -> Option<Sequence> {
        let slot = self.lock().slots.pop()?;
        Some(Sequence { pool: self.clone(), slot, tokens: Vec::new(), pages: Vec::new(), recurrent })
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_back_when_a_sequence_is_cut_or_dropped() {
        let pool = Pool::new(2, 0..4);
        let mut a = pool.sequence(false).unwrap();
        assert!(a.reserve(17).unwrap());
        assert_eq!(a.pages(), [0, 1]);
        a.push(&[7; 17]);
        let mut b = pool.sequence(false).unwrap();
        assert!(pool.sequence(false).is_none());
        b.reserve(32).unwrap();
        assert_eq!(b.pages(), [2, 3]);
        assert!(matches!(b.reserve(33), Err(Error::ContextFull { .. })));
        a.truncate(16);
        assert_eq!(a.pages(), [0]);
        b.reserve(33).unwrap();
        assert_eq!(b.pages(), [2, 3, 1], "any page may follow any other");
        drop(b);
        let mut c = pool.sequence(false).unwrap();
        c.reserve(48).unwrap();
        assert_eq!(c.pages(), [2, 3, 1]);
    }

    #[test]
    fn reuse_keeps_the_common_prefix_and_one_token_to_compute() {
        let pool = Pool::new(1, 0..4);
        let mut s = pool.sequence(false).unwrap();
        s.push(&[1, 2, 3, 4]);
        assert_eq!(s.reuse(&[1, 2, 9, 9, 9]), 2);
        assert_eq!(s.reuse(&[1, 2]), 1);
        drop(s);
        let mut s = pool.sequence(true).unwrap();
        s.push(&[1, 2, 3, 4]);
        assert_eq!(s.reuse(&[1, 2, 3, 4, 5]), 4);
        assert_eq!(s.reuse(&[1, 2, 3, 9]), 0, "recurrent states cannot be cut");
    }
}
