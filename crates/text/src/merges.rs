//! Which neighbours may merge, and in which order: the table of a BPE vocabulary.

use crate::Error;
use crate::merge::Merge;
use crate::vocab::Vocab;
use std::collections::HashMap;
use zinc_gguf::Strings;

/// Metadata key of the table.
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";

/// Pairs of ids, what they become, and their rank.
pub(crate) struct MergeTable(HashMap<u64, Merge>);

fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl MergeTable {
    /// Reads `left right` lines in order of rank. `spell` turns a side into the bytes that `vocab` knows it by.
    /// A line with a side or a result that is no ordinary token can never apply and is left out.
    pub(crate) fn parse(
        lines: &Strings,
        vocab: &Vocab,
        spell: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<Self, Error> {
        let mut table = HashMap::with_capacity(lines.len());
        let mut bytes = Vec::new();
        for (rank, line) in lines.iter().enumerate() {
            // A side is never empty, so a space in front belongs to the left one.
            let cut = line.bytes().skip(1).position(|b| b == b' ').map(|p| p + 1);
            let Some(cut) = cut else {
                let reason = format!("has no pair in line {rank}: `{}`", line.escape_debug());
                return Err(Error::BadValue { key: MERGES, reason });
            };
            bytes.clear();
            spell(&line[..cut], &mut bytes);
            let middle = bytes.len();
            spell(&line[cut + 1..], &mut bytes);
            let (left, right) = (vocab.find(&bytes[..middle]), vocab.find(&bytes[middle..]));
            if let (Some(left), Some(right), Some(id)) = (left, right, vocab.find(&bytes)) {
                table.entry(key(left, right)).or_insert(Merge { priority: rank as u64, id });
            }
        }
        Ok(MergeTable(table))
    }

    pub(crate) fn get(&self, left: u32, right: u32) -> Option<Merge> {
        self.0.get(&key(left, right)).copied()
    }
}
