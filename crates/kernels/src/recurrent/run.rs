//! The parts of a step as recurrent kernels see them.
//!
//! A step has the rows whose logits nobody wants first, then those with logits, both by part. So a part's rows are at most two runs of
//! neighbours. States lie in slots; a step reads a part's states from one slot and writes them to another, or to the same one.

use bytemuck::{Pod, Zeroable};

/// Instead of a slot: zero where states are read, nothing where they are written.
pub const NO_STATE: u32 = u32::MAX;

/// A part of a step.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct Run {
    /// Slot of the states before the rows, or [`NO_STATE`] for a sequence that begins.
    pub from: u32,
    /// Slot of the states after them, or [`NO_STATE`] for rows that only fill up a step; their outputs are 0.
    pub to: u32,
    /// Row of the first token.
    pub first: u32,
    /// Rows from there on.
    pub count: u32,
    /// Row of the token after those.
    pub second: u32,
    /// Rows in all; 0 where the table has no such part.
    pub total: u32,
}

impl Run {
    /// Bytes of an entry of the table.
    pub const BYTES: u64 = size_of::<Run>() as u64;

    /// The batch's row of token `i`.
    pub fn row(&self, i: u32) -> u32 {
        if i < self.count { self.first + i } else { self.second + (i - self.count) }
    }
}

/// A part before it has a place in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRows {
    /// As [`Run::from`].
    pub from: u32,
    /// As [`Run::to`].
    pub to: u32,
    /// Rows among those without logits.
    pub plain: u32,
    /// Rows among those with logits.
    pub with_logits: u32,
}

/// The table of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunTable {
    /// The parts, rows that only fill up the step first.
    pub runs: Vec<Run>,
    /// For each row the index of its part.
    pub row_parts: Vec<u32>,
}

impl RunTable {
    /// The table of `parts` behind `filler` rows of nobody.
    pub fn new(filler: u32, parts: &[PartRows]) -> RunTable {
        let nobody = PartRows { from: NO_STATE, to: NO_STATE, plain: filler, with_logits: 0 };
        let all: Vec<PartRows> =
            (filler > 0).then_some(nobody).into_iter().chain(parts.iter().copied()).collect();
        let mut second = all.iter().map(|p| p.plain).sum();
        let (mut first, mut runs) = (0, Vec::with_capacity(all.len()));
        for p in &all {
            let (count, total) = (p.plain, p.plain + p.with_logits);
            runs.push(Run { from: p.from, to: p.to, first, count, second, total });
            first += p.plain;
            second += p.with_logits;
        }
        let mut row_parts = vec![0; second as usize];
        for (i, run) in runs.iter().enumerate() {
            (0..run.total).for_each(|t| row_parts[run.row(t) as usize] = i as u32);
        }
        RunTable { runs, row_parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_part_and_parts_are_in_order() {
        let part = |to, plain, with_logits| PartRows { from: NO_STATE, to, plain, with_logits };
        let table = RunTable::new(2, &[part(5, 3, 1), part(7, 0, 2), part(6, 2, 0)]);
        assert_eq!(table.row_parts, [0, 0, 1, 1, 1, 3, 3, 1, 2, 2]);
        let rows = |i: usize| {
            let run = table.runs[i];
            (0..run.total).map(|t| run.row(t)).collect::<Vec<_>>()
        };
        assert_eq!(
            [rows(0), rows(1), rows(2), rows(3)],
            [vec![0, 1], vec![2, 3, 4, 7], vec![8, 9], vec![5, 6]]
        );
        assert_eq!(table.runs[0].to, NO_STATE);
        assert_eq!(RunTable::new(0, &[part(0, 0, 1)]).row_parts, [0]);
    }
}
