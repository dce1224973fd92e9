//! The vocabulary: the bytes of every token in one block, and a table from bytes to ids.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// No token.
pub(crate) const NONE: u32 = u32::MAX;

/// What kind of token this is, as `tokenizer.ggml.token_type` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenType {
    /// Ordinary text.
    Normal,
    /// Stands for what the vocabulary cannot spell.
    Unknown,
    /// Structure that only a chat template may write: turn borders, begin and end of text.
    Control,
    /// Added to the vocabulary by the model's makers; matched in any text before it is split.
    UserDefined,
    /// A hole in the vocabulary.
    Unused,
    /// One byte, written `<0xXX>`.
    Byte,
}

impl TokenType {
    /// From the number in the file; `None` for a number that means nothing. Old files write 0 for ordinary tokens.
    pub fn from_code(code: i64) -> Option<Self> {
        Some(match code {
            0 | 1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Whether only a template may write it.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::Control | Self::Unknown)
    }

    /// Whether it is matched in raw text, before merging.
    pub(crate) fn is_special(self) -> bool {
        self.is_control() || self == Self::UserDefined
    }
}

/// Token bytes and types, and the way back from bytes to id.
///
/// The bytes are those that the merge algorithm works on: the raw bytes of a byte-level token, the text
/// with `▁` for spaces of a sentencepiece one.
pub(crate) struct Vocab {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    types: Vec<TokenType>,
    /// Open addressing, a power of two long, at most half full.
    slots: Vec<u32>,
    hasher: RandomState,
    longest: usize,
}

impl Vocab {
    pub(crate) fn with_capacity(tokens: usize) -> Self {
        Vocab {
            bytes: Vec::with_capacity(tokens * 8),
            ends: Vec::with_capacity(tokens),
            types: Vec::with_capacity(tokens),
            slots: vec![NONE; (tokens * 2).next_power_of_two().max(16)],
            hasher: RandomState::new(),
            longest: 0,
        }
    }

    /// Adds the next token. With `findable`, [`Vocab::find`] will give it for its bytes (the first of equals wins).
    /// At most as many tokens as the capacity may be added.
    pub(crate) fn push(&mut self, bytes: &[u8], kind: TokenType, findable: bool) {
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        self.types.push(kind);
        if findable && !bytes.is_empty() {
            let slot = self.slot(bytes);
            if self.slots[slot] == NONE {
                self.slots[slot] = id;
                self.longest = self.longest.max(bytes.len());
            }
        }
    }

    /// The token that is spelt like this.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let id = self.slots[self.slot(bytes)];
        (id != NONE).then_some(id)
    }

    /// Where these bytes are, or the free place where they belong.
    fn slot(&self, bytes: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(bytes) as usize & mask;
        while self.slots[slot] != NONE && self.bytes(self.slots[slot]) != bytes {
            slot = (slot + 1) & mask;
        }
        slot
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of a token; empty for an id outside the vocabulary.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..end]
    }

    pub(crate) fn kind(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }
}

/// The character by which byte-level vocabularies write a byte: printable Latin-1 stands for itself, the other
/// bytes for U+0100 onwards in order (Radford et al., GPT-2, `bytes_to_unicode`).
pub(crate) fn byte_of_char(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Appends the bytes that a byte-level spelling stands for; `false` (and nothing appended) if it is not one.
pub(crate) fn unspell(text: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for c in text.chars() {
        let Some(b) = byte_of_char(c) else {
            out.truncate(start);
            return false;
        };
        out.push(b);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut seen = [false; 256];
        for b in (0..0x200).filter_map(char::from_u32).filter_map(byte_of_char) {
            assert!(!std::mem::replace(&mut seen[usize::from(b)], true));
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(byte_of_char('Ġ'), Some(b' '));
        assert_eq!(byte_of_char('Ċ'), Some(b'\n'));
    }

    #[test]
    fn tokens_are_found_by_their_bytes() {
        let mut v = Vocab::with_capacity(3);
        v.push(b"a", TokenType::Normal, true);
        v.push(b"bc", TokenType::Control, false);
        v.push(b"a", TokenType::Normal, true);
        assert_eq!((v.find(b"a"), v.find(b"bc"), v.find(b"abc")), (Some(0), None, None));
        assert_eq!((v.bytes(1), v.bytes(9)), (&b"bc"[..], &b""[..]));
    }
}
