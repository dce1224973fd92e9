//! How many rows steps have: few widths, so that every shape is compiled at load and recordings stay few.

use crate::compile::{Compiler, Schedule, Shape, Target};
use crate::{Fallback, Unsupported};
use std::collections::HashMap;
use std::sync::Arc;
use zinc_plan::Plan;

/// Rows of steps; a batch of another number is padded. From 64 on products are bound by arithmetic, so that padding costs time in
/// proportion: the widths lie an eighth to a quarter apart, and are multiples of half a tile's columns where tiles are wide.
const WIDTHS: [u32; 38] = [
    1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
    704, 768, 832, 896, 960, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048,
];
/// Rows with logits, beside none and as many as a width may have.
const LOGIT_WIDTHS: [u32; 5] = [1, 4, 16, 64, 256];
/// Most rows of steps that there are for rows that are apart, too: those of sequences that are decoded side by side.
pub const APART: u32 = 16;
/// Bytes of logits that a step computes at most, where a single row has less.
const LOGIT_BYTES: u64 = 64 << 20;

/// The shapes of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widths {
    /// Ascending.
    rows: Vec<u32>,
    logit_rows: u32,
}

/// The schedule of every shape.
pub type Schedules = HashMap<Shape, Arc<Schedule>>;

impl Widths {
    /// Widths up to `chunk` rows, for logits of `vocab` elements.
    pub fn new(chunk: u32, vocab: u32) -> Widths {
        let mut rows: Vec<u32> = WIDTHS.into_iter().filter(|&w| w < chunk).collect();
        rows.push(chunk.max(1));
        let fits = |w: &&u32| u64::from(**w) * u64::from(vocab) * 4 <= LOGIT_BYTES;
        let logit_rows = rows.iter().rev().find(fits).copied().unwrap_or(1);
        Widths { rows, logit_rows }
    }

    /// The widths, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Rows of a step at most.
    pub fn widest(&self) -> u32 {
        self.rows[self.rows.len() - 1]
    }

    /// Rows with logits of a step at most.
    pub fn logit_rows(&self) -> u32 {
        self.logit_rows
    }

    /// The shapes of steps of `rows` rows, by rows with logits.
    fn shapes_of(&self, rows: u32) -> impl Iterator<Item = Shape> {
        let most = rows.min(self.logit_rows);
        let fewer = LOGIT_WIDTHS.into_iter().filter(move |&w| w < most);
        let all = [most, 0].into_iter().chain(fewer).map(move |n| Shape::new(rows, n));
        let apart = (2..=APART).contains(&rows) && most == rows;
        all.chain(apart.then_some(Shape::apart(rows)))
    }

    /// Every shape that can occur.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> {
        self.rows.iter().flat_map(|&rows| self.shapes_of(rows))
    }

    /// The narrowest shape that holds so many rows, of which so many want logits; `apart` if each is the only one of its sequence.
    pub fn shape(&self, rows: u32, logit_rows: u32, apart: bool) -> Shape {
        let rows = self.rows.iter().copied().find(|&w| w >= rows).unwrap_or(rows);
        let holds = |s: &Shape| s.logit_rows >= logit_rows && (apart || !s.apart || rows == 1);
        let narrowest = self.shapes_of(rows).filter(holds).min_by_key(|s| (s.logit_rows, !s.apart));
        narrowest.unwrap_or(Shape::new(rows, logit_rows))
    }
}

/// Compiles every shape up to `chunk` rows. Where a width does not compile, the widths below it are taken, and why is said.
///
/// # Errors
/// [`Unsupported`] where not even one row compiles.
pub fn compile_all(
    plan: &Plan,
    target: &Target<'_>,
    chunk: u32,
) -> Result<(Widths, Schedules, Vec<Fallback>), Unsupported> {
    let widths = Widths::new(chunk, plan.vocab());
    let mut compiler = Compiler::new(plan, target);
    let mut schedules = Schedules::new();
    let mut works = 0;
    for &rows in &widths.rows {
        let compiled = widths.shapes_of(rows).map(|s| Ok((s, Arc::new(compiler.compile(s)?))));
        match compiled.collect::<Result<Vec<_>, Unsupported>>() {
            Ok(of_width) => schedules.extend(of_width),
            Err(no) if works == 0 => return Err(no),
            Err(no) => {
                let Unsupported { op, layer, label, format, reason, .. } = no;
                let fallback = Fallback { rows, op, layer, label, format, reason };
                return Ok((Widths::new(works, plan.vocab()), schedules, vec![fallback]));
            }
        }
        works = rows;
    }
    Ok((widths, schedules, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_a_shape_that_is_compiled() {
        for (chunk, vocab) in
            [(1, 500), (7, 500), (32, 150_000), (64, 262_144), (512, 262_144), (100, 1 << 25)]
        {
            let widths = Widths::new(chunk, vocab);
            let shapes: Vec<Shape> = widths.shapes().collect();
            assert_eq!(widths.widest(), chunk);
            for rows in 1..=chunk {
                for logit_rows in 0..=rows.min(widths.logit_rows()) {
                    let s = widths.shape(rows, logit_rows, false);
                    assert!(!s.apart || rows == 1);
                    let apart = widths.shape(rows, logit_rows, true);
                    assert_eq!((apart.rows, apart.logit_rows), (s.rows, s.logit_rows));
                    assert!(shapes.contains(&apart));
                    assert!(s.rows >= rows && s.logit_rows >= logit_rows && s.logit_rows <= s.rows);
                    assert!(shapes.contains(&s), "{chunk}: {rows} rows, {logit_rows} with logits");
                    assert_eq!(s.logit_rows == 0, logit_rows == 0, "no head where no logits are wanted");
                }
            }
        }
        assert_eq!(Widths::new(512, 262_144).logit_rows(), 64);
        assert_eq!(Widths::new(512, 1 << 25).logit_rows(), 1);
        assert!(Widths::new(512, 150_000).shapes().count() < 130);
        assert!(Widths::new(2048, 150_000).shapes().count() < 240);
    }
}
