//! Added and control tokens: split out of the text before anything else, leftmost first, the longest of those
//! that start at the same place.
//!
//! `lstrip`, `rstrip` and `single_word` of a Hugging Face added token are not in GGUF and are taken as unset.

use crate::vocab::TokenType;
use std::collections::HashMap;

/// A trie over the bytes of the added and control tokens.
pub(crate) struct SpecialTokens {
    edges: HashMap<(u32, u8), u32>,
    /// The token that ends at a node.
    ends: Vec<Option<End>>,
    first: [bool; 256],
}

#[derive(Clone, Copy)]
struct End {
    id: u32,
    control: bool,
}

/// A token found in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) id: u32,
}

/// Which control tokens may be found in a text.
#[derive(Clone, Copy)]
pub(crate) enum Allowed<'a> {
    /// None: they are text.
    NoControl,
    /// Those that span none of these byte offsets (ascending), at which text from outside was cut.
    Unbroken(&'a [usize]),
}

impl SpecialTokens {
    pub(crate) fn new() -> Self {
        SpecialTokens { edges: HashMap::new(), ends: vec![None], first: [false; 256] }
    }

    pub(crate) fn insert(&mut self, text: &[u8], id: u32, kind: TokenType) {
        let Some(&head) = text.first() else { return };
        self.first[usize::from(head)] = true;
        let mut node = 0;
        for &b in text {
            let fresh = self.ends.len() as u32;
            node = *self.edges.entry((node, b)).or_insert(fresh);
            if node == fresh {
                self.ends.push(None);
            }
        }
        self.ends[node as usize].get_or_insert(End { id, control: kind.is_control() });
    }

    /// The first token at or after `from`.
    pub(crate) fn find(&self, text: &str, from: usize, allowed: Allowed<'_>) -> Option<Found> {
        (from..text.len()).find_map(|start| self.find_at(text, start, allowed))
    }

    /// The longest token that begins at `start`.
    pub(crate) fn find_at(&self, text: &str, start: usize, allowed: Allowed<'_>) -> Option<Found> {
        let bytes = text.as_bytes();
        if !self.first[usize::from(bytes[start])] {
            return None;
        }
        let fits = |&(end, token): &(usize, End)| may_stand(token, start, end, allowed);
        let (end, token) = self.all_at(bytes, start).filter(fits).last()?;
        Some(Found { start, end, id: token.id })
    }

    /// Whether a token begins at `start`, or the text from there on is the beginning of one.
    pub(crate) fn begins_at(&self, text: &str, start: usize) -> bool {
        let bytes = text.as_bytes();
        if !self.first[usize::from(bytes[start])] {
            return false;
        }
        let depth = self.path(bytes, start).count();
        start + depth == bytes.len() || self.all_at(bytes, start).next().is_some()
    }

    /// The tokens that begin at `start`, the shortest first, each with its end.
    fn all_at<'a>(&'a self, bytes: &'a [u8], start: usize) -> impl Iterator<Item = (usize, End)> + 'a {
        let path = self.path(bytes, start).enumerate();
        path.filter_map(move |(depth, node)| Some((start + depth + 1, self.ends[node as usize]?)))
    }

    /// The nodes that the bytes from `start` on lead through.
    fn path<'a>(&'a self, bytes: &'a [u8], start: usize) -> impl Iterator<Item = u32> + 'a {
        bytes[start..].iter().scan(0, |node, &b| {
            *node = *self.edges.get(&(*node, b))?;
            Some(*node)
        })
    }
}

fn may_stand(token: End, start: usize, end: usize, allowed: Allowed<'_>) -> bool {
    if !token.control {
        return true;
    }
    match allowed {
        Allowed::NoControl => false,
        Allowed::Unbroken(breaks) => {
            let next = breaks.partition_point(|&b| b <= start);
            breaks.get(next).is_none_or(|&b| b >= end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> SpecialTokens {
        let mut special = SpecialTokens::new();
        special.insert(b"<a>", 0, TokenType::Control);
        special.insert(b"<a>b", 1, TokenType::Control);
        special.insert(b"\n\n", 2, TokenType::UserDefined);
        special
    }

    #[test]
    fn the_longest_of_the_leftmost_wins() {
        let s = three();
        let all = Allowed::Unbroken(&[]);
        assert_eq!(s.find("x<a>b", 0, all), Some(Found { start: 1, end: 5, id: 1 }));
        assert_eq!(s.find("x<a>c", 0, all), Some(Found { start: 1, end: 4, id: 0 }));
        assert_eq!(s.find("x<a>b\n\n", 0, Allowed::NoControl), Some(Found { start: 5, end: 7, id: 2 }));
    }

    #[test]
    fn a_break_inside_hides_a_control_token_but_not_one_at_its_border() {
        let s = three();
        assert_eq!(s.find("<a>b", 0, Allowed::Unbroken(&[3])), Some(Found { start: 0, end: 3, id: 0 }));
        assert_eq!(s.find("<a>b", 0, Allowed::Unbroken(&[0, 4])), Some(Found { start: 0, end: 4, id: 1 }));
        assert_eq!(s.find("<a>b", 0, Allowed::Unbroken(&[1])), None);
        assert_eq!(s.find("\n\n", 0, Allowed::Unbroken(&[1])), Some(Found { start: 0, end: 2, id: 2 }));
    }
}
