//! Sequences: tokens, the slot of an executor that holds their state, and the pages of their KV cache.
//!
//! A page belongs to whoever holds a [`PageRef`] to it: sequences, and a cache of prefixes. Only whole pages of read tokens are shared, and
//! a sequence writes behind what it has read, so a shared page is never written.

use crate::{Error, PAGE_TOKENS};
use std::sync::{Arc, Mutex, MutexGuard};

/// A text that the model has read so far. Its cache lives in the engine that made it and is freed when this is dropped.
#[derive(Debug)]
pub struct Sequence {
    pool: Pool,
    slot: u32,
    tokens: Vec<u32>,
    held: Vec<PageRef>,
    /// The numbers of the pages held.
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

    /// Cuts the sequence to its first `len` tokens, and to none where a model with recurrent states has read more. Where the cut goes
    /// through a page that someone else holds too, the whole page is given up: the next token would be written into it.
    pub fn truncate(&mut self, len: usize) {
        let page = len / PAGE_TOKENS as usize;
        let len = match len < self.tokens.len() {
            true if self.recurrent => 0,
            true if self.held.get(page).is_some_and(PageRef::is_shared) => page * PAGE_TOKENS as usize,
            _ => len,
        };
        self.tokens.truncate(len);
        let keep = self.tokens.len().div_ceil(PAGE_TOKENS as usize);
        self.pages.truncate(keep);
        while self.held.len() > keep {
            self.held.pop();
        }
    }

    /// The pages of its first `tokens` tokens, whole ones only: what a later sequence can begin with. They stay as they are while
    /// anyone holds them. Empty where the executor keeps no pages.
    pub fn share(&self, tokens: usize) -> Vec<PageRef> {
        let whole = tokens.min(self.tokens.len()) / PAGE_TOKENS as usize;
        self.held[..whole.min(self.held.len())].to_vec()
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

    /// Makes room for `tokens` tokens in all.
    pub(crate) fn reserve(&mut self, tokens: usize) -> Result<(), Error> {
        let need = tokens.div_ceil(PAGE_TOKENS as usize);
        if need <= self.pages.len() {
            return Ok(());
        }
        let more = need - self.pages.len();
        let numbers = self.pool.take(more).map_err(|free| Error::NoPages { needed: more, free })?;
        let page = |&number: &u32| PageRef(Arc::new(Page { pool: self.pool.clone(), number }));
        self.held.extend(numbers.iter().map(page));
        self.pages.extend(numbers);
        Ok(())
    }

    /// Begins with tokens whose keys and values are in these pages.
    pub(crate) fn begin(&mut self, tokens: &[u32], pages: &[PageRef]) {
        self.tokens = tokens.to_vec();
        self.held = pages.to_vec();
        self.pages = pages.iter().map(|p| p.0.number).collect();
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
        while self.held.pop().is_some() {}
        self.pool.lock().slots.push(self.slot);
    }
}

/// A page of the KV cache, kept while this or a clone of it is there.
#[derive(Debug, Clone)]
pub struct PageRef(Arc<Page>);

#[derive(Debug)]
struct Page {
    pool: Pool,
    number: u32,
}

impl PageRef {
    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.0.pool.0, &pool.0)
    }

    /// Whether someone else holds it too.
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.pool.lock().pages.push(self.number);
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
        let pool = self.clone();
        Some(Sequence { pool, slot, tokens: Vec::new(), held: Vec::new(), pages: Vec::new(), recurrent })
    }

    /// Takes `n` pages; where there are fewer, the error says how many.
    fn take(&self, n: usize) -> Result<Vec<u32>, usize> {
        let mut inner = self.lock();
        let from = inner.pages.len().checked_sub(n).ok_or(inner.pages.len())?;
        Ok(inner.pages.drain(from..).rev().collect())
    }

    /// Pages that nobody holds.
    pub(crate) fn free_pages(&self) -> usize {
        self.lock().pages.len()
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
        a.reserve(17).unwrap();
        assert_eq!(a.pages(), [0, 1]);
        a.push(&[7; 17]);
        let mut b = pool.sequence(false).unwrap();
        assert!(pool.sequence(false).is_none());
        b.reserve(32).unwrap();
        assert_eq!(b.pages(), [2, 3]);
        assert!(matches!(b.reserve(33), Err(Error::NoPages { needed: 1, free: 0 })));
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
    fn shared_pages_live_as_long_as_anyone_holds_them_and_are_not_written() {
        let pool = Pool::new(2, 0..4);
        let mut a = pool.sequence(false).unwrap();
        a.reserve(40).unwrap();
        a.push(&[7; 40]);
        let kept = a.share(40);
        assert_eq!(kept.len(), 2, "the third page is not full");
        let mut b = pool.sequence(false).unwrap();
        b.begin(&[7; 32], &kept);
        b.reserve(33).unwrap();
        assert_eq!(b.pages(), [0, 1, 3]);
        a.truncate(20);
        assert_eq!((a.len(), a.pages()), (16, &[0][..]), "position 20 lies in a page that others read");
        a.reserve(17).unwrap();
        assert_eq!(a.pages(), [0, 2]);
        drop((a, b));
        assert_eq!(pool.free_pages(), 2, "two pages are kept");
        drop(kept);
        assert_eq!(pool.free_pages(), 4);
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
