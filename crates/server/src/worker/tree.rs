//! Prefixes that were computed, by their exact tokens: a tree whose edges are the tokens of a page.

use std::collections::{BTreeSet, HashMap};
use zinc_engine::{KeptStates, PAGE_TOKENS, PageRef};

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
    states: Option<NodeStates>,
}

/// Recurrent states after a node's tokens.
#[derive(Debug)]
struct NodeStates {
    states: KeptStates,
    /// Not needed any more once later ones are there.
    passing: bool,
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

    /// As [`PrefixTree::find`], for models with recurrent states: the beginning ends where some were kept.
    pub fn find_states(&mut self, tokens: &[u32]) -> Option<(Vec<PageRef>, KeptStates)> {
        let n = self.known_states(tokens);
        let pages = self.find(&tokens[..n]);
        let node = self.nodes.get(self.path(&tokens[..n]).last()?)?;
        Some((pages, node.states.as_ref()?.states.clone()))
    }

    /// After how many tokens of `tokens` states are known at last; nothing counts as used.
    pub fn known_states(&self, tokens: &[u32]) -> usize {
        let has_states = |id: &u64| self.nodes.get(id).is_some_and(|n| n.states.is_some());
        self.path(tokens).iter().rposition(has_states).map_or(0, |i| (i + 1) * TOKENS)
    }

    /// Adds the states after a text of whole pages that was added. `passing` ones make room for those of later tokens.
    pub fn add_states(&mut self, tokens: &[u32], states: KeptStates, passing: bool) {
        let mut path = self.path(tokens);
        let Some(last) = path.pop().filter(|_| (path.len() + 1) * TOKENS == tokens.len()) else { return };
        for id in path {
            if let Some(node) = self.nodes.get_mut(&id) {
                node.states.take_if(|s| s.passing);
            }
        }
        if let Some(node) = self.nodes.get_mut(&last) {
            let passing = passing && node.states.as_ref().is_none_or(|s| s.passing);
            node.states = Some(NodeStates { states, passing });
        }
    }

    /// Forgets the states that were not used for the longest time; whether there were any.
    pub fn forget_states(&mut self) -> bool {
        let with_states = self.nodes.values_mut().filter(|n| n.states.is_some());
        let oldest = with_states.min_by_key(|n| (n.used, n.edge.0));
        oldest.is_some_and(|node| node.states.take().is_some())
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
        self.nodes.insert(id, Node { page, edge, used: self.clock, children: 0, states: None });
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
