//! Byte-pair merging: the pair of neighbours with the best priority is joined until none is left.
//!
//! Neighbours are a linked list, candidates a heap, so that a word of n symbols costs O(n log n).

use crate::vocab::NONE;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of the text and the token it has become so far ([`NONE`]: not in the vocabulary, never merged).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) id: u32,
    prev: u32,
    next: u32,
}

/// What two neighbours may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merge {
    /// Lower is merged first.
    pub(crate) priority: u64,
    pub(crate) id: u32,
}

/// Ordered by priority, then from the left; the ids tell whether it is still true when its turn comes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: u64,
    left: u32,
    left_id: u32,
    right_id: u32,
    merged: u32,
}

/// Work space, reused from word to word.
#[derive(Default)]
pub(crate) struct Merger {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl Merger {
    /// Starts a new word.
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
        self.heap.clear();
    }

    /// Adds the next symbol of the word, `len` bytes long.
    pub(crate) fn push(&mut self, len: usize, id: u32) {
        let at = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, |s| s.end);
        if let Some(last) = self.symbols.last_mut() {
            last.next = at;
        }
        let prev = if at == 0 { NONE } else { at - 1 };
        self.symbols.push(Symbol { start, end: start + len as u32, id, prev, next: NONE });
    }

    /// Merges all that can be merged; `lookup` says what two neighbours may become.
    pub(crate) fn run(&mut self, lookup: impl Fn(&Symbol, &Symbol) -> Option<Merge>) {
        for left in 0..self.symbols.len() as u32 {
            self.consider(left, &lookup);
        }
        while let Some(Reverse(c)) = self.heap.pop() {
            let left = self.symbols[c.left as usize];
            if left.id != c.left_id || left.next == NONE {
                continue;
            }
            let right = self.symbols[left.next as usize];
            if right.id != c.right_id {
                continue;
            }
            self.symbols[left.next as usize].id = NONE;
            let joined = &mut self.symbols[c.left as usize];
            (joined.end, joined.id, joined.next) = (right.end, c.merged, right.next);
            if right.next != NONE {
                self.symbols[right.next as usize].prev = c.left;
            }
            self.consider(c.left, &lookup);
            if left.prev != NONE {
                self.consider(left.prev, &lookup);
            }
        }
    }

    fn consider(&mut self, left: u32, lookup: &impl Fn(&Symbol, &Symbol) -> Option<Merge>) {
        let a = &self.symbols[left as usize];
        if a.next == NONE || a.id == NONE {
            return;
        }
        let b = &self.symbols[a.next as usize];
        if b.id == NONE {
            return;
        }
        if let Some(Merge { priority, id }) = lookup(a, b) {
            let (left_id, right_id) = (a.id, b.id);
            self.heap.push(Reverse(Candidate { priority, left, left_id, right_id, merged: id }));
        }
    }

    /// What is left, in order.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        let first = self.symbols.first();
        std::iter::successors(first, |s| self.symbols.get(s.next as usize))
    }
}
