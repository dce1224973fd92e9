//! On a failure: which operation is the first whose output is out of tolerance.

use super::measure::{Tolerance, bad_element};
use super::report::{Against, FirstDifference};
use super::{Caches, Run};
use crate::compile::Step;
use crate::execute::Observed;
use crate::{Error, Want};
use zinc_plan::{Cols, KvId, StateId};

/// A row of an operation's output from the other path.
type OtherRow<'a> = dyn Fn(Cols, usize) -> Option<&'a [f32]> + 'a;

/// Both paths through a chunk.
struct Paths<'a> {
    against: Against,
    tolerance: Tolerance,
    batched: &'a Observed,
    batched_caches: &'a Caches,
    other: Box<OtherRow<'a>>,
    other_caches: Caches,
    /// Buffers of the plan: those behind them, in f16, are a path's own.
    acts: usize,
    rows: usize,
    /// Position of the first row.
    begin: usize,
}

impl Run<'_> {
    /// Runs the chunk again with all activations kept, and compares operation by operation in order. The sequence ends before the
    /// chunk, as it began.
    pub(super) fn search(
        &mut self,
        against: Against,
        tolerance: Tolerance,
        tokens: &[u32],
        want: Want,
    ) -> Result<Option<FirstDifference>, Error> {
        let step = self.sequence.len() - self.start;
        let batched = self.spoiled(tokens.len(), want, |run| run.observe(tokens, want))?;
        let (rows, begin) = (tokens.len(), self.sequence.len());
        let (single, outputs);
        let (other, other_caches): (Box<OtherRow<'_>>, Caches) = match against {
            Against::PerToken => {
                let (steps, caches) = self.observe_singles(tokens, want)?;
                single = steps;
                (Box::new(|c, row| single.get(row)?.row(c, 0)), caches)
            }
            Against::CpuReference => {
                let Some(reference) = self.reference.as_deref_mut() else { return Ok(None) };
                reference.catch_up(self.sequence.tokens())?;
                outputs = reference.observe(tokens, want)?;
                (Box::new(|c, row| outputs.row(c, row)), reference.forward(tokens, Want::None)?.caches)
            }
        };
        let (batched, batched_caches) = (&batched.0, &batched.1);
        let acts = self.executor.plan().acts.len();
        let paths =
            Paths { against, tolerance, batched, batched_caches, other, other_caches, acts, rows, begin };
        let first = paths.first(&self.executor.plan().ops);
        Ok(first.map(|f| FirstDifference { row: step + f.row, ..f }))
    }

    /// A step with all activations kept, and what it left in caches and states. The sequence stays as it is.
    fn observe(&mut self, tokens: &[u32], want: Want) -> Result<(Observed, Caches), Error> {
        let start = self.sequence.len();
        self.make_room(tokens.len())?;
        let observed = self.executor.observe(self.sequence, tokens, want)?;
        Ok((observed, self.caches(start, start + tokens.len())?))
    }

    /// The same, a token at a time.
    fn observe_singles(&mut self, tokens: &[u32], want: Want) -> Result<(Vec<Observed>, Caches), Error> {
        let start = self.sequence.len();
        self.make_room(tokens.len())?;
        let mut steps = Vec::new();
        for (i, &token) in tokens.iter().enumerate() {
            let want = if want.of_token(i, tokens.len()) { Want::Last } else { Want::None };
            steps.push(self.executor.observe(self.sequence, &[token], want)?);
            self.sequence.push(&[token]);
        }
        let caches = self.caches(start, self.sequence.len())?;
        self.sequence.truncate(start);
        Ok((steps, caches))
    }
}

impl Paths<'_> {
    /// The first call with an output out of tolerance, in order of execution. Its row is that of the step.
    fn first(&self, ops: &[zinc_plan::Node]) -> Option<FirstDifference> {
        // A conversion is no operation of the plan, and what it makes is compared with what the products make of it.
        self.batched.schedule.steps.iter().filter(|step| !step.ops.is_empty()).find_map(|step| {
            let (row, bad) = (0..self.rows).find_map(|row| Some((row, self.bad(step, row)?)))?;
            // A call with several outputs is named by the one that differs.
            let several = step.call.writes().len() > 1;
            let own = step.ops.iter().find(|&&i| several && ops[i].op.output() == bad.output);
            let (layer, label) = own.map_or((step.layer, step.label), |&i| (ops[i].layer, ops[i].label));
            Some(FirstDifference {
                against: self.against,
                layer,
                op: label.into(),
                call: step.call.name().into(),
                fused: step.ops.iter().map(|&i| ops[i].label.to_string()).collect(),
                part: bad.part,
                row,
                position: self.begin + row,
                element: bad.element,
                got: bad.got,
                want: bad.want,
                step_rows: self.rows,
            })
        })
    }

    /// What is out of tolerance in a row of a call's outputs. Outputs that the other path fused away, or does not compute for this
    /// row, are left out: what they feed is compared.
    fn bad(&self, step: &Step, row: usize) -> Option<Bad> {
        let compare = |output: Option<Cols>, part: &'static str, got: &[f32], want: &[f32]| {
            let element = bad_element(got, want, self.tolerance)?;
            Some(Bad { output, part, element, got: got[element], want: want[element] })
        };
        let outputs = step
            .call
            .writes()
            .into_iter()
            .filter(|c| c.act.index() < self.acts)
            .find_map(|c| compare(Some(c), "output", self.batched.row(c, row)?, (self.other)(c, row)?));
        if let (None, Some(StateId(id)), true) = (&outputs, step.call.state(), row + 1 == self.rows) {
            let [got, want] =
                [self.batched_caches, &self.other_caches].map(|c| c.states[id as usize].as_slice());
            return compare(None, "state", got, want);
        }
        let Some((KvId(id), true)) = step.call.cache() else { return outputs };
        let (got, want) = (&self.batched_caches.kv[id as usize], &self.other_caches.kv[id as usize]);
        let rows = |values| part_of(values, row, self.rows);
        outputs
            .or_else(|| compare(None, "keys", rows(&got.keys), rows(&want.keys)))
            .or_else(|| compare(None, "values", rows(&got.values), rows(&want.values)))
    }
}

/// An element out of tolerance.
struct Bad {
    /// Columns that it is of; `None` in a cache.
    output: Option<Cols>,
    part: &'static str,
    element: usize,
    got: f32,
    want: f32,
}

/// A row of a cache's rows.
pub(super) fn part_of(values: &[f32], row: usize, rows: usize) -> &[f32] {
    let width = values.len() / rows;
    &values[row * width..(row + 1) * width]
}
