//! Token ids to text, one at a time, never half a character.

use crate::tokenizer::Tokenizer;
use crate::vocab::TokenType;

/// Turns a stream of ids into text. What [`Detokenizer::push`] and [`Detokenizer::finish`] give, joined, is what
/// [`Tokenizer::decode`] gives for the whole.
pub struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// The beginning of a character whose end has not come: at most three bytes.
    held: Vec<u8>,
    /// Whether the tokenizer would have put a space here that was not in the text.
    at_start: bool,
}

impl<'a> Detokenizer<'a> {
    /// For a sequence from its beginning: the space that some tokenizers put in front of a text is taken away.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Detokenizer { tokenizer, held: Vec::new(), at_start: tokenizer.space_prefix() }
    }

    /// For what continues a text, as generated tokens continue a prompt: a leading space is text.
    pub fn continuing(tokenizer: &'a Tokenizer) -> Self {
        Detokenizer { at_start: false, ..Self::new(tokenizer) }
    }

    /// The whole characters that are there now. Bytes that can no longer become UTF-8 are U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        let bytes = self.tokenizer.token_bytes(id);
        if bytes.is_empty() {
            return String::new();
        }
        // Encoding puts its space in front of every stretch of ordinary text.
        let special = self.tokenizer.vocab.kind(id).is_some_and(TokenType::is_special);
        let added = if self.at_start && !special { &b" "[..] } else { b"" };
        self.at_start = special && self.tokenizer.space_prefix();
        self.held.extend_from_slice(bytes.strip_prefix(added).unwrap_or(&bytes));
        self.take_whole()
    }

    /// What is left at the end of the sequence: a U+FFFD for a character that was never completed.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        rest
    }

    fn take_whole(&mut self) -> String {
        let mut text = String::with_capacity(self.held.len());
        let mut kept = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            kept += chunk.valid().len();
            let broken = chunk.invalid();
            if kept + broken.len() == self.held.len() && may_continue(broken) {
                break;
            }
            if !broken.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                kept += broken.len();
            }
        }
        self.held.drain(..kept);
        text
    }
}

/// Whether more bytes could make these a character.
fn may_continue(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(e) if e.error_len().is_none())
}
