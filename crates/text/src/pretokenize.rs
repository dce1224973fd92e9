//! Pretokenizers: how a text is cut into words before merging, by the name in `tokenizer.ggml.pre`.
//!
//! The patterns are those of the models' own `tokenizer.json`, unabridged. They end in `|\s+(?!\S)|\s+`, which
//! means: a run of white space gives its last character to the word that follows. That tail is done by hand,
//! so that the rest is a regular language, matched in linear time whatever the text.

use crate::Error;
use regex_automata::meta::{Cache, Regex};
use regex_automata::{Anchored, Input};
use std::ops::Range;

/// One way to cut text. To add one, add a line to [`PRETOKENIZERS`].
#[derive(Debug)]
pub(crate) struct Pretokenizer {
    /// Names in `tokenizer.ggml.pre`.
    pub(crate) names: &'static [&'static str],
    /// Patterns, applied one after the other to the pieces that the one before left.
    stages: &'static [&'static str],
    /// Whether text is normalised to NFC first.
    pub(crate) nfc: bool,
    /// Whether a word that is a token as a whole is taken without merging.
    pub(crate) whole_words: bool,
    /// Whether texts begin with a BOS where the file does not say.
    pub(crate) adds_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// All that `tokenizer.ggml.pre` may name.
#[rustfmt::skip]
const PRETOKENIZERS: &[Pretokenizer] = &[
    Pretokenizer { names: &["llama-bpe", "llama3", "llama-v3"], stages: &[LLAMA3], nfc: false, whole_words: true, adds_bos: true },
    Pretokenizer { names: &["qwen2"], stages: &[QWEN2], nfc: true, whole_words: false, adds_bos: false },
    Pretokenizer { names: &["qwen35"], stages: &[QWEN35], nfc: true, whole_words: false, adds_bos: false },
    Pretokenizer { names: &["gpt-4o"], stages: &[GPT4O], nfc: false, whole_words: true, adds_bos: false },
    Pretokenizer { names: &["smollm"], stages: &[r"\p{N}", GPT2], nfc: false, whole_words: false, adds_bos: false },
    Pretokenizer { names: &["gpt-2"], stages: &[GPT2], nfc: false, whole_words: false, adds_bos: false },
];

/// Gemma 4 has no `tokenizer.ggml.pre`: lines and runs of line feeds are merged each for itself.
pub(crate) const LINES: Pretokenizer =
    Pretokenizer { names: &[], stages: &[r"[^\n]+|\n+"], nfc: false, whole_words: false, adds_bos: false };

impl Pretokenizer {
    /// By name; the error lists the known ones.
    pub(crate) fn find(name: &str) -> Result<&'static Pretokenizer, Error> {
        PRETOKENIZERS.iter().find(|p| p.names.contains(&name)).ok_or_else(|| Error::UnknownPretokenizer {
            name: name.into(),
            known: PRETOKENIZERS
                .iter()
                .filter_map(|p| p.names.first())
                .map(|n| format!("`{n}`"))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    pub(crate) fn compile(&self) -> Splitter {
        Splitter { stages: self.stages.iter().map(|s| Stage::compile(s)).collect() }
    }
}

/// A compiled [`Pretokenizer`].
pub(crate) struct Splitter {
    stages: Vec<Stage>,
}

/// Work space of a search.
pub(crate) struct SplitCache(Vec<Cache>);

struct Stage {
    regex: Regex,
    space_tail: bool,
}

/// Pattern index of the white space that the tail is about.
const SPACES: usize = 1;

impl Splitter {
    pub(crate) fn cache(&self) -> SplitCache {
        SplitCache(self.stages.iter().map(|s| s.regex.create_cache()).collect())
    }

    /// Byte ranges of the words of `text`; they cover it without gaps.
    pub(crate) fn split(&self, text: &str, cache: &mut SplitCache) -> Vec<Range<usize>> {
        let mut pieces: Vec<_> = std::iter::once(0..text.len()).collect();
        for (stage, cache) in self.stages.iter().zip(&mut cache.0) {
            let mut finer = Vec::with_capacity(pieces.len().max(text.len() / 4));
            for piece in pieces {
                stage.split(&text[piece.clone()], piece.start, cache, &mut finer);
            }
            pieces = finer;
        }
        pieces
    }
}

impl Stage {
    fn compile(pattern: &str) -> Self {
        let (patterns, space_tail) = match pattern.strip_suffix(r"|\s+(?!\S)|\s+") {
            Some(regular) => (vec![regular, r"\s+"], true),
            None => (vec![pattern], false),
        };
        let regex = Regex::new_many(&patterns).unwrap_or_else(|e| unreachable!("pattern of the table: {e}"));
        Stage { regex, space_tail }
    }

    /// Cuts `text` into matches and what lies between them; the ranges are moved by `offset`.
    fn split(&self, text: &str, offset: usize, cache: &mut Cache, out: &mut Vec<Range<usize>>) {
        let mut gap = 0;
        let mut at = 0;
        while at < text.len() {
            let input = Input::new(text).range(at..).anchored(Anchored::Yes);
            let found = self.regex.search_half_with(cache, &input).filter(|m| m.offset() > at);
            let Some(m) = found else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let mut end = m.offset();
            if self.space_tail && m.pattern().as_usize() == SPACES && end < text.len() {
                let last = text[at..end].chars().next_back().map_or(0, char::len_utf8);
                if end - last > at {
                    end -= last;
                }
            }
            if gap < at {
                out.push(offset + gap..offset + at);
            }
            out.push(offset + at..offset + end);
            (at, gap) = (end, end);
        }
        if gap < text.len() {
            out.push(offset + gap..offset + text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(pre: &str, text: &'a str) -> Vec<&'a str> {
        let splitter = Pretokenizer::find(pre).unwrap().compile();
        let mut cache = splitter.cache();
        splitter.split(text, &mut cache).into_iter().map(|r| &text[r]).collect()
    }

    #[test]
    fn white_space_gives_its_last_character_to_the_next_word() {
        assert_eq!(words("llama-bpe", "a   b"), ["a", "  ", " b"]);
        assert_eq!(words("llama-bpe", "a \t1"), ["a", " ", "\t", "1"]);
        assert_eq!(words("llama-bpe", "a   "), ["a", "   "]);
        assert_eq!(words("llama-bpe", "a  \n  b"), ["a", "  \n", " ", " b"]);
        assert_eq!(words("gpt-2", "a \n\n b"), ["a", " \n\n", " b"]);
    }

    #[test]
    fn digits_marks_and_case_are_cut_as_each_model_does() {
        assert_eq!(words("llama-bpe", "12345"), ["123", "45"]);
        assert_eq!(words("qwen2", "12"), ["1", "2"]);
        assert_eq!(words("smollm", "a  12"), ["a", "  ", "1", "2"]);
        assert_eq!(words("gpt-2", " 123abc"), [" 123", "abc"]);
        assert_eq!(words("qwen2", "हिन्दी"), ["ह", "िन", "्द", "ी"]);
        assert_eq!(words("qwen35", "हिन्दी"), ["हिन्दी"]);
        assert_eq!(words("gpt-4o", "HTTPServer'S"), ["HTTPServer'S"]);
        assert_eq!(words("gpt-4o", "camelCase"), ["camel", "Case"]);
        assert_eq!(words("qwen2", "it'ſ"), ["it", "'ſ"]);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let e = Pretokenizer::find("new-model").unwrap_err().to_string();
        assert!(e.contains("`new-model`") && e.contains("`qwen35`") && e.contains("--pretokenizer"), "{e}");
    }
}
