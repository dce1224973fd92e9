//! Prefixes that were computed, by their exact tokens: a tree whose edges are the tokens of a page.

use std::collections::{BTreeSet, HashMap};
use zinc_engine::{PAGE_TOKENS, PageRef};

/// Tokens of a page.
const TOKENS: usize = PAGE_TOKENS as usize;

/// The pages of prefixes. One that is used or continued counts as new; the leaf that was not for the longest time goes first.
#[derive(Debug, Default)]
pub struct PrefixTree {
    nodes: HashMap<u64, Node>,
    /// From a node (0: the beginning) and the tokens of a page to the node after it.
    edges: HashMap<(u64, [u32; TOKENS]), u64>,
    /// The nodes that nothing continues, by when they were last used.
    leaves: BTreeSet<(u64, u64)>,
    clock: u64,
    last: u64,
}

#[derive(Debug)]
struct Node {
    page: PageRef,
    edge: (u64, [u32; TOKENS]),
    used: u64,
    children: usize,
}

impl PrefixTree {
    /// Pages held.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The pages of the longest known beginning of `tokens`, whole pages only.
    pub fn find(&mut self, tokens: &[u32]) -> Vec<PageRef> {
        self.clock += 1;
        let mut pages = Vec::new();
        for id in self.path(tokens) {
            self.touch(id);
            pages.extend(self.nodes.get(&id).map(|n| n.page.clone()));
        }
        pages
    }

    /// How many tokens of `tokens` are known; nothing counts as used.
    pub fn known(&self, tokens: &[u32]) -> usize {
        self.path(tokens).len() * TOKENS
    }

    /// Adds a text that was computed: `pages` are those of its first whole pages of tokens. What is known stays as it is.
    pub fn add(&mut self, tokens: &[u32], pages: Vec<PageRef>) {
        self.clock += 1;
        let mut at = 0;
        for (block, page) in blocks(tokens).zip(pages) {
            at = match self.edges.get(&(at, block)) {
                Some(&next) => {
                    self.touch(next);
                    next
                }
                None => self.grow(at, block, page),
            };
        }
    }

    /// Forgets the leaf that was not used for the longest time; whether there was one.
    pub fn forget_one(&mut self) -> bool {
        let Some((_, id)) = self.leaves.pop_first() else { return false };
        let Some(node) = self.nodes.remove(&id) else { return false };
        self.edges.remove(&node.edge);
        if let Some(parent) = self.nodes.get_mut(&node.edge.0) {
            parent.children -= 1;
            if parent.children == 0 {
                self.leaves.insert((parent.used, node.edge.0));
            }
        }
        true
    }

    /// The nodes along `tokens`.
    fn path(&self, tokens: &[u32]) -> Vec<u64> {
        let mut at = 0;
        let next = |block| {
            at = *self.edges.get(&(at, block))?;
            Some(at)
        };
        blocks(tokens).map_while(next).collect()
    }

    fn touch(&mut self, id: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if self.leaves.remove(&(node.used, id)) {
            self.leaves.insert((self.clock, id));
        }
        node.used = self.clock;
    }

    fn grow(&mut self, parent: u64, block: [u32; TOKENS], page: PageRef) -> u64 {
        self.last += 1;
        let (id, edge) = (self.last, (parent, block));
        self.edges.insert(edge, id);
        self.nodes.insert(id, Node { page, edge, used: self.clock, children: 0 });
        self.leaves.insert((self.clock, id));
        if let Some(parent_node) = self.nodes.get_mut(&parent) {
            parent_node.children += 1;
            self.leaves.remove(&(parent_node.used, parent));
        }
        id
    }
}

fn blocks(tokens: &[u32]) -> impl Iterator<Item = [u32; TOKENS]> {
    tokens.as_chunks::<TOKENS>().0.iter().copied()
}
