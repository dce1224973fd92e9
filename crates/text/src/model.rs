//! The two ways to spell text that holds no special tokens: byte-level BPE, and pieces (sentencepiece) with `▁`
//! for spaces and bytes for what no piece covers.

use crate::merge::{Merge, Merger, Symbol};
use crate::merges::MergeTable;
use crate::pretokenize::{Pretokenizer, Splitter};
use crate::vocab::{NONE, Vocab};
use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Byte-level BPE.
pub(crate) struct ByteLevel {
    pub(crate) pre: &'static Pretokenizer,
    pub(crate) splitter: Splitter,
    pub(crate) merges: MergeTable,
    /// The token of each single byte, or [`NONE`].
    pub(crate) bytes: Box<[u32; 256]>,
}

impl ByteLevel {
    pub(crate) fn encode(&self, text: &str, vocab: &Vocab, out: &mut Vec<u32>) {
        let text = if self.pre.nfc { nfc(text) } else { Cow::Borrowed(text) };
        let mut cache = self.splitter.cache();
        let mut merger = Merger::default();
        for word in self.splitter.split(&text, &mut cache) {
            let word = &text.as_bytes()[word];
            if self.pre.whole_words
                && let Some(id) = vocab.find(word)
            {
                out.push(id);
                continue;
            }
            merger.clear();
            word.iter().for_each(|&b| merger.push(1, self.bytes[usize::from(b)]));
            merger.run(|left, right| self.merges.get(left.id, right.id));
            // A byte without a token is dropped, as Hugging Face's BPE does when there is no unknown token.
            out.extend(merger.symbols().map(|s| s.id).filter(|&id| id != NONE));
        }
    }
}

fn nfc(text: &str) -> Cow<'_, str> {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfc().collect()),
    }
}

/// How pieces find what they merge to.
pub(crate) enum PieceMerges {
    /// Any two pieces that together spell a piece, best score first (sentencepiece); these are the scores by id.
    Scores(Vec<f32>),
    /// A table, as byte-level BPE has it.
    Table(MergeTable),
}

/// A sentencepiece-like vocabulary.
pub(crate) struct Pieces {
    pub(crate) merges: PieceMerges,
    pub(crate) splitter: Option<Splitter>,
    /// The `<0xXX>` tokens, or [`NONE`].
    pub(crate) bytes: Box<[u32; 256]>,
    pub(crate) unknown: Option<u32>,
    /// Whether a text gets a space in front.
    pub(crate) space_prefix: bool,
}

/// What a space is written as.
pub(crate) const SPACE: &str = "▁";

impl Pieces {
    pub(crate) fn encode(&self, text: &str, vocab: &Vocab, out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut text = text.replace(' ', SPACE);
        if self.space_prefix {
            text.insert_str(0, SPACE);
        }
        let words = match &self.splitter {
            Some(splitter) => splitter.split(&text, &mut splitter.cache()),
            None => std::iter::once(0..text.len()).collect(),
        };
        let mut merger = Merger::default();
        for word in words {
            self.encode_word(&text[word], vocab, &mut merger, out);
        }
    }

    fn encode_word(&self, word: &str, vocab: &Vocab, merger: &mut Merger, out: &mut Vec<u32>) {
        merger.clear();
        let mut utf8 = [0; 4];
        for c in word.chars() {
            let bytes = c.encode_utf8(&mut utf8).as_bytes();
            merger.push(bytes.len(), vocab.find(bytes).unwrap_or(NONE));
        }
        match &self.merges {
            PieceMerges::Table(table) => merger.run(|left, right| table.get(left.id, right.id)),
            PieceMerges::Scores(scores) => merger.run(|left, right| {
                let id = vocab.find(&word.as_bytes()[left.start as usize..right.end as usize])?;
                Some(Merge { priority: priority(scores[id as usize], left), id })
            }),
        }
        let mut unknown_before = false;
        for symbol in merger.symbols() {
            unknown_before = if symbol.id != NONE {
                out.push(symbol.id);
                false
            } else {
                let bytes = &word.as_bytes()[symbol.start as usize..symbol.end as usize];
                self.fall_back(bytes, unknown_before, out)
            };
        }
    }

    /// Spells a character that is no piece in bytes. Where the vocabulary has none, a run of such characters is
    /// one unknown token; says whether it came to that.
    fn fall_back(&self, bytes: &[u8], unknown_before: bool, out: &mut Vec<u32>) -> bool {
        let ids = bytes.iter().map(|&b| self.bytes[usize::from(b)]);
        if ids.clone().all(|id| id != NONE) {
            out.extend(ids);
            return false;
        }
        if !unknown_before {
            out.extend(self.unknown);
        }
        true
    }
}

/// Better scores first. Several ways to spell one piece differ by the length of the left part, the longest first:
/// the order in which Hugging Face derives a merge table from a sentencepiece model.
fn priority(score: f32, left: &Symbol) -> u64 {
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending) << 32 | u64::from(u32::MAX - (left.end - left.start))
}
