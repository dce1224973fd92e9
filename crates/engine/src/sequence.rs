//! Sequences: tokens, the pages of their KV cache, the slots of their recurrent states.
//!
//! A page belongs to whoever holds a [`PageRef`] to it: sequences, and a cache of prefixes. Only whole pages of read tokens are shared, and
//! a sequence writes behind what it has read, so a shared page is never written.
//!
//! A step reads recurrent states from one slot and writes them to another, so keeping them costs no copy: the slot is left as it is, and
//! the sequence writes to a new one.

use crate::{Error, PAGE_TOKENS};
use std::sync::{Arc, Mutex, MutexGuard};
use zinc_kernels::recurrent::NO_STATE;

/// A text that the model has read so far. Its cache lives in the engine that made it and is freed when this is dropped.
#[derive(Debug)]
pub struct Sequence {
    pool: Pool,
    slot: u32,
    tokens: Vec<u32>,
    held: Vec<PageRef>,
    /// The numbers of the pages held.
    pages: Vec<u32>,
    /// Recurrent states hold only the end of the text, so it can be cut only where they were kept.
    recurrent: bool,
    /// Where they are, on an executor that keeps them in slots.
    states: Option<States>,
}

/// Where recurrent states are.
#[derive(Debug)]
struct States {
    /// The slot that the next step writes. Nobody else reads it, but `now` may be it.
    own: StateRef,
    /// The slot of the states after the sequence's tokens; `None` where it has none.
    now: Option<StateRef>,
    /// Earlier states by number of tokens, ascending.
    kept: Vec<(usize, StateRef)>,
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

    /// Cuts the sequence to its first `len` tokens; where a model with recurrent states has read more, to as many of them as it had
    /// when they were last kept ([`Sequence::keep`]). Where the cut goes through a page that someone else holds too, the whole page is
    /// given up: the next token would be written into it.
    pub fn truncate(&mut self, len: usize) {
        let page = len / PAGE_TOKENS as usize;
        let len = match len < self.tokens.len() {
            true if self.recurrent => self.cut_states(len),
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

    /// Goes back to the latest kept states of at most `len` tokens whose last page nobody else holds, and returns of how many they are.
    fn cut_states(&mut self, len: usize) -> usize {
        let Some(states) = &mut self.states else { return 0 };
        let held = &self.held;
        let usable = |n: usize| {
            n.is_multiple_of(PAGE_TOKENS as usize)
                || held.get(n / PAGE_TOKENS as usize).is_none_or(|p| !p.is_shared())
        };
        while states.kept.pop_if(|(n, _)| *n > len || !usable(*n)).is_some() {}
        states.now = states.kept.last().map(|(_, state)| state.clone());
        states.kept.last().map_or(0, |(n, _)| *n)
    }

    /// Keeps the recurrent states of this position, so that the sequence can be cut here later. Where there is no memory for more, it
    /// gives up those that it kept first; `false` where there is none at all. Models without recurrent states keep every position.
    pub fn keep(&mut self) -> bool {
        if !self.recurrent || self.is_empty() {
            return true;
        }
        while !self.protect() {
            match &mut self.states {
                Some(states) if !states.kept.is_empty() => drop(states.kept.remove(0)),
                _ => return false,
            }
        }
        let len = self.len();
        let Some(States { now: Some(now), kept, .. }) = &mut self.states else { return false };
        if kept.last().is_none_or(|(n, _)| *n < len) {
            kept.push((len, now.clone()));
        }
        true
    }

    /// How many tokens the kept states are of, ascending.
    pub fn kept(&self) -> impl Iterator<Item = usize> {
        self.states.iter().flat_map(|s| s.kept.iter().map(|(n, _)| *n))
    }

    /// The kept states of exactly `tokens` tokens.
    pub fn share_states(&self, tokens: usize) -> Option<KeptStates> {
        let kept = &self.states.as_ref()?.kept;
        let (_, state) = kept.iter().find(|(n, _)| *n == tokens)?;
        Some(KeptStates { state: state.clone(), tokens })
    }

    /// Gives up kept states, by how many tokens they are of.
    pub fn give_up(&mut self, unwanted: impl Fn(usize) -> bool) {
        if let Some(states) = &mut self.states {
            states.kept.retain(|(n, _)| !unwanted(*n));
        }
    }

    /// Sees to it that the next step leaves the present states as they are; `false` where there is no memory for that, or where
    /// the executor has no slots.
    pub(crate) fn protect(&mut self) -> bool {
        match &mut self.states {
            None => !self.recurrent,
            Some(States { own, now: Some(now), .. }) if now.is(own) => match self.pool.take_state() {
                Some(fresh) => {
                    *own = fresh;
                    true
                }
                None => false,
            },
            Some(_) => true,
        }
    }

    /// Slots of recurrent states that the next steps can write in turn, the next one's first, at most `steps`: so many of the latest states
    /// are there at a time. For them the sequence gives up what it kept, but for the latest. None where the executor has no slots.
    pub(crate) fn turns(&mut self, steps: usize) -> Vec<StateRef> {
        let Some(states) = &mut self.states else { return Vec::new() };
        let mut turns = vec![states.own.clone()];
        while turns.len() < steps {
            match self.pool.take_state() {
                Some(state) => turns.push(state),
                None if states.kept.len() > 1 => drop(states.kept.remove(0)),
                None => break,
            }
        }
        turns
    }

    /// The step whose tokens are noted next wrote its states to this slot, one of [`Sequence::turns`].
    pub(crate) fn took(&mut self, turn: StateRef) {
        if let Some(states) = &mut self.states {
            states.own = turn;
        }
    }

    /// The slots of recurrent states that the next step reads and writes; see [`zinc_kernels::recurrent::Run`].
    pub(crate) fn state_slots(&self) -> (u32, u32) {
        let number = |state: Option<&StateRef>| state.map_or(NO_STATE, StateRef::number);
        let states = self.states.as_ref();
        (number(states.and_then(|s| s.now.as_ref())), number(states.map(|s| &s.own)))
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

    /// Begins with tokens whose keys and values are in these pages, and after which recurrent states are these.
    pub(crate) fn begin(&mut self, tokens: &[u32], pages: &[PageRef], after: Option<&KeptStates>) {
        if let (Some(states), Some(after)) = (&mut self.states, after) {
            states.now = Some(after.state.clone());
            states.kept = vec![(after.tokens, after.state.clone())];
        }
        self.tokens = tokens.to_vec();
        self.held = pages.to_vec();
        self.pages = pages.iter().map(|p| p.0.number).collect();
    }

    /// Notes tokens that entered the cache.
    pub(crate) fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        if let Some(states) = self.states.as_mut().filter(|_| !tokens.is_empty()) {
            states.now = Some(states.own.clone());
        }
    }

    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.pool.0, &pool.0)
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        while self.held.pop().is_some() {}
        self.states = None; // before its slot: who takes that needs one of states too
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

/// A slot of recurrent states, kept while this or a clone of it is there.
#[derive(Debug, Clone)]
pub(crate) struct StateRef(Arc<StateSlot>);

#[derive(Debug)]
struct StateSlot {
    pool: Pool,
    number: u32,
}

impl StateRef {
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    fn is(&self, other: &StateRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Recurrent states after the first tokens of a sequence, kept while this or a clone of it is there.
#[derive(Debug, Clone)]
pub struct KeptStates {
    state: StateRef,
    tokens: usize,
}

impl KeptStates {
    /// How many tokens they are of.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub(crate) fn belongs_to(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.state.0.pool.0, &pool.0)
    }
}

impl Drop for StateSlot {
    fn drop(&mut self) {
        self.pool.lock().states.push(self.number);
    }
}

/// Why something that needs kept states cannot be done.
pub(crate) fn no_checkpoint() -> Error {
    let message =
        "there is no memory to keep the recurrent states of the sequence beside those of a new step";
    Error::Option(format!("{message}\nhint: give checkpoints more memory, or end other sequences"))
}

/// The slots and pages that no sequence has. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Mutex<Free>>);

#[derive(Debug)]
struct Free {
    slots: Vec<u32>,
    pages: Vec<u32>,
    /// Slots of recurrent states.
    states: Vec<u32>,
    /// Whether sequences need one.
    has_states: bool,
}

impl Pool {
    /// `slots` sequences and `pages` pages, given out in the order of `pages`.
    pub(crate) fn new(slots: u32, pages: impl DoubleEndedIterator<Item = u32>) -> Pool {
        let slots = (0..slots).rev().collect();
        Pool(Arc::new(Mutex::new(Free {
            slots,
            pages: pages.rev().collect(),
            states: Vec::new(),
            has_states: false,
        })))
    }

    /// With `slots` slots of recurrent states: at least one for each sequence, or none at all.
    pub(crate) fn with_states(self, slots: u32) -> Pool {
        {
            let mut free = self.lock();
            (free.states, free.has_states) = ((0..slots).rev().collect(), slots > 0);
        }
        self
    }

    /// A sequence of its own slot; `None` where all are taken.
    pub(crate) fn sequence(&self, recurrent: bool) -> Option<Sequence> {
        let (slot, own) = {
            let mut free = self.lock();
            let own = if free.has_states { Some(free.states.pop()?) } else { None };
            (free.slots.pop(), own)
        };
        let own = own.map(|number| StateRef(Arc::new(StateSlot { pool: self.clone(), number })));
        let (slot, pool) = (slot?, self.clone());
        let states = own.map(|own| States { own, now: None, kept: Vec::new() });
        let (tokens, held, pages) = (Vec::new(), Vec::new(), Vec::new());
        Some(Sequence { pool, slot, tokens, held, pages, recurrent, states })
    }

    /// A slot of states beyond those that sequences which do not exist yet will need.
    fn take_state(&self) -> Option<StateRef> {
        let number = {
            let mut free = self.lock();
            let spare = free.states.len() > free.slots.len();
            spare.then(|| free.states.pop()).flatten()?
        };
        Some(StateRef(Arc::new(StateSlot { pool: self.clone(), number })))
    }

    /// Takes `n` pages; where there are fewer, the error says how many.
    fn take(&self, n: usize) -> Result<Vec<u32>, usize> {
        let mut inner = self.lock();
        let from = inner.pages.len().checked_sub(n).ok_or(inner.pages.len())?;
        Ok(inner.pages.drain(from..).rev().collect())
    }

    /// Slots of recurrent states beyond those that sequences need.
    pub(crate) fn spare_states(&self) -> usize {
        let free = self.lock();
        free.states.len().saturating_sub(free.slots.len())
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
        b.begin(&[7; 32], &kept, None);
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
    fn a_recurrent_sequence_is_cut_where_its_states_were_kept() {
        let pool = Pool::new(2, 0..8).with_states(4);
        let mut a = pool.sequence(true).unwrap();
        let (from, own) = a.state_slots();
        assert_eq!(from, NO_STATE, "it begins with nothing");
        a.push(&[7; 5]);
        assert_eq!(a.state_slots(), (own, own), "states are replaced where nobody keeps them");
        assert!(a.keep() && a.keep());
        let (from, to) = a.state_slots();
        assert!(from == own && to != own, "kept states are not written");
        a.push(&[7; 5]);
        assert!(a.keep());
        a.push(&[8; 10]);
        assert_eq!(a.kept().collect::<Vec<_>>(), [5, 10]);
        // Two of four slots are kept, one is its own, and one is for a sequence that does not exist yet.
        assert!(a.keep());
        assert_eq!(a.kept().collect::<Vec<_>>(), [10, 20], "the first ones make room");
        let b = pool.sequence(true).unwrap();
        assert!(a.state_slots().1 != b.state_slots().1);
        a.push(&[9]);
        a.truncate(15);
        assert_eq!((a.len(), a.state_slots().0), (10, to));
        a.truncate(3);
        assert_eq!((a.len(), a.state_slots().0), (0, NO_STATE));
        drop((a, b));
        assert_eq!(pool.lock().states.len(), 4);
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
