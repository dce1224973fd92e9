//! Validate mode: the same tokens from the same state by batched prefill, a token a step, and on the CPU.
//!
//! It goes step by step: the rows of a step are read one by one, the caches' rows are spoiled, recurrent states go back to what they were
//! before, and the step is run as batched prefill runs it, in the same pages. So it needs no second sequence, the state is that of batched prefill afterwards, and
//! a fault is found in the step that has it. Then that step is run again with all activations kept, and compared operation by
//! operation.

#[cfg(feature = "fault-injection")]
mod fault;
mod measure;
mod reference;
mod report;
mod search;
#[cfg(test)]
mod tests;

use crate::engine::Backend;
use crate::execute::{Chosen, Executor, KvRows};
use crate::{Engine, Error, Part, PartOutput, Precision, Sequence, Want};
#[cfg(feature = "fault-injection")]
pub use fault::Fault;
use measure::Pair;
pub use measure::{Choice, Measure, Routes, Spot, Tolerance, divergence, log_sum_exp};
pub(crate) use reference::Reference;
pub use report::{Against, Comparison, FirstDifference, ValidationReport};
use search::part_of;
use std::time::Instant;
use zinc_plan::Op;

/// What to compare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Compare with the CPU executor too.
    pub reference: bool,
    /// Compare the logits after every token, not only after the last. Steps are then as wide as for all logits.
    pub all_logits: bool,
    /// A fault to put into batched prefill.
    #[cfg(feature = "fault-injection")]
    pub fault: Option<Fault>,
}

/// What a path gives for the tokens of a step.
pub(crate) struct Chunk {
    /// Rows that want logits.
    logits: Vec<f32>,
    caches: Caches,
    /// Experts, where the path tells them.
    chosen: Vec<Chosen>,
}

/// What a path leaves behind.
pub(crate) struct Caches {
    /// Rows of the caches, by `KvId`.
    kv: Vec<KvRows>,
    /// Recurrent states after the last row, by `StateId`.
    states: Vec<Vec<f32>>,
}

impl Engine {
    /// Reads `tokens` after what the sequence holds by batched prefill, a token a step and, if asked for, on the CPU, and compares
    /// logits, the order of the best tokens, and the caches. Afterwards the sequence holds the tokens, as batched prefill leaves them;
    /// where the report is not `ok`, it holds what it held before.
    ///
    /// # Errors
    /// [`Error::Option`] where there are no two paths to compare; what the executors say.
    pub fn validate(
        &mut self,
        sequence: &mut Sequence,
        tokens: &[u32],
        options: &ValidateOptions,
    ) -> Result<ValidationReport, Error> {
        self.check(sequence, tokens)?;
        let mut report = self.empty_report(sequence, options)?;
        if options.reference && self.reference.is_none() {
            let context = self.summary.context;
            self.reference = Some(Box::new(Reference::new(self.gguf.clone(), &self.model.plan, context)?));
        }
        let want = if options.all_logits { Want::All } else { Want::Last };
        let Backend::Vulkan(executor) = &mut self.backend else { return Err(nothing_to_compare("")) };
        let (started, start) = (Instant::now(), sequence.len());
        let reference = self.reference.as_deref_mut().filter(|_| options.reference);
        let mut run = Run {
            executor,
            reference,
            sequence,
            start,
            #[cfg(feature = "fault-injection")]
            fault: fault::place(options.fault.as_ref(), tokens.len())?,
        };
        let result = run.all(tokens, want, &mut report);
        if result.is_err() || !report.ok {
            sequence.truncate(start);
        }
        result?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Where the model was loaded in validate mode: compares what the sequence does not hold of a prompt, as [`Engine::validate`], and
    /// leaves it before the prompt's last step, which gives the first token too. `None` in other modes: nothing was done.
    ///
    /// # Errors
    /// [`Error::Validation`] where paths differ; as [`Engine::validate`].
    pub fn validate_prompt(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
    ) -> Result<Option<ValidationReport>, Error> {
        let Some(options) = self.validate.clone() else { return Ok(None) };
        let report = self.validate(sequence, &prompt[sequence.len()..], &options)?;
        if !report.ok {
            return Err(Error::Validation(Box::new(report)));
        }
        sequence.truncate(sequence.len() - report.steps.last().copied().unwrap_or_default());
        Ok(Some(report))
    }

    fn empty_report(
        &self,
        sequence: &Sequence,
        options: &ValidateOptions,
    ) -> Result<ValidationReport, Error> {
        let path = self.prefill_path();
        if self.summary.backend == "cpu" {
            return Err(nothing_to_compare("the CPU executor runs the model, and it is the reference"));
        }
        if path.chunk == 1 && !options.reference {
            return Err(nothing_to_compare("prompts go one token a step here"));
        }
        let fast = self.summary.policy == Precision::Fast.name();
        let limit = |against| Comparison::new(against, Tolerance::of(against, fast, self.summary.kv_type));
        let mut comparisons = vec![limit(Against::PerToken)];
        if options.reference {
            comparisons.push(limit(Against::CpuReference));
        }
        Ok(ValidationReport {
            ok: true,
            n_tokens: 0,
            history: sequence.len(),
            path,
            steps: Vec::new(),
            policy: self.summary.policy,
            kv_type: self.summary.kv_type,
            comparisons,
            first: None,
            not_found: None,
            seconds: 0.0,
        })
    }
}

/// Why there are no two paths.
pub(crate) fn nothing_to_compare(why: &str) -> Error {
    Error::Option(format!(
        "validate compares batched prefill with other paths, and there is nothing to compare: {why}\nhint: leave out `--prefill validate`"
    ))
}

/// A validation under way.
struct Run<'a> {
    executor: &'a mut Executor,
    reference: Option<&'a mut Reference>,
    sequence: &'a mut Sequence,
    /// Where it began.
    start: usize,
    /// What batched prefill gets wrong, and in which row.
    #[cfg(feature = "fault-injection")]
    fault: Option<(&'a Fault, usize)>,
}

impl Run<'_> {
    /// Step by step until one fails.
    fn all(&mut self, tokens: &[u32], want: Want, report: &mut ValidationReport) -> Result<(), Error> {
        if let Some(reference) = self.reference.as_deref_mut() {
            reference.catch_up(self.sequence.tokens())?;
        }
        let mut left = tokens;
        while !left.is_empty() && report.ok {
            let mut rows = left.len().min(self.executor.chunk() as usize);
            if want == Want::All {
                rows = rows.min(self.executor.logit_rows() as usize);
            }
            let (part, rest) = left.split_at(rows);
            let want = if want == Want::Last && !rest.is_empty() { Want::None } else { want };
            self.step(part, want, report)?;
            report.n_tokens += part.len();
            report.steps.push(part.len());
            left = rest;
        }
        Ok(())
    }

    /// A step by all paths.
    fn step(&mut self, tokens: &[u32], want: Want, report: &mut ValidationReport) -> Result<(), Error> {
        let begin = self.sequence.len();
        self.keep()?;
        let single = self.per_token(tokens, want)?;
        self.sequence.truncate(begin);
        let batched = self.spoiled(tokens.len(), want, |run| run.batched(tokens, want))?;
        let wanted = want.logit_rows(tokens.len());
        let rows = StepRows {
            begin,
            count: tokens.len(),
            wanted,
            layers: self.layers(),
            state_layers: self.state_layers(),
        };
        for c in &mut report.comparisons {
            match (c.against, self.reference.as_deref_mut()) {
                (Against::PerToken, _) => c.add(&batched, &single, &rows),
                (Against::CpuReference, Some(reference)) => {
                    c.add(&batched, &reference.forward(tokens, want)?, &rows)
                }
                (Against::CpuReference, None) => {}
            }
        }
        let Some(bad) = report.comparisons.iter().find(|c| !c.ok) else { return Ok(()) };
        report.ok = false;
        let (against, tolerance) = (bad.against, bad.tolerance);
        self.sequence.truncate(begin);
        match self.search(against, tolerance, tokens, want) {
            Ok(Some(first)) => report.first = Some(first),
            Ok(None) => {
                let why = "no operation differs while every activation has memory of its own";
                report.not_found = Some(why.into());
            }
            Err(e) => report.not_found = Some(e.to_string()),
        }
        Ok(())
    }

    /// Keeps recurrent states, so that the sequence can be cut here, and to where it began.
    fn keep(&mut self) -> Result<(), Error> {
        let (start, begin) = (self.start, self.sequence.len());
        self.sequence.give_up(|n| n > start && n < begin);
        let first_is_kept = |s: &Sequence| start == 0 || s.kept().any(|n| n == start);
        let recurrent = !self.executor.plan().states.is_empty();
        match self.sequence.keep() && (!recurrent || first_is_kept(self.sequence)) {
            true => Ok(()),
            false => Err(crate::sequence::no_checkpoint()),
        }
    }

    /// What the last step, or those before it too, left of these positions.
    fn caches(&self, begin: usize, end: usize) -> Result<Caches, Error> {
        let kv = self.executor.read_kv(self.sequence, begin..end)?;
        Ok(Caches { kv, states: self.executor.read_states(self.sequence)? })
    }

    fn per_token(&mut self, tokens: &[u32], want: Want) -> Result<Chunk, Error> {
        let begin = self.sequence.len();
        self.make_room(tokens.len())?;
        let (mut logits, mut chosen) = (Vec::new(), Vec::new());
        for (i, token) in tokens.iter().enumerate() {
            let want = if want.of_token(i, tokens.len()) { Want::Last } else { Want::None };
            logits.extend(self.forward(&[*token], want)?);
            let of_token = self.executor.read_choices(1, want.logit_rows(1))?;
            chosen.extend(of_token.into_iter().map(|c| Chosen { token: i, ..c }));
        }
        Ok(Chunk { logits, caches: self.caches(begin, self.sequence.len())?, chosen })
    }

    fn batched(&mut self, tokens: &[u32], want: Want) -> Result<Chunk, Error> {
        let begin = self.sequence.len();
        self.make_room(tokens.len())?;
        let logits = self.forward(tokens, want)?;
        let chosen = self.executor.read_choices(tokens.len(), want.logit_rows(tokens.len()))?;
        Ok(Chunk { logits, caches: self.caches(begin, self.sequence.len())?, chosen })
    }

    /// One step: its rows of logits.
    fn forward(&mut self, tokens: &[u32], want: Want) -> Result<Vec<f32>, Error> {
        let output = self.executor.forward(&mut [Part { sequence: self.sequence, tokens, want }])?.pop();
        self.sequence.push(tokens);
        match output {
            Some(PartOutput::Logits(logits)) => Ok(logits.values),
            _ => Ok(Vec::new()),
        }
    }

    /// Pages and states for the next tokens, spoiled.
    fn make_room(&mut self, tokens: usize) -> Result<(), Error> {
        let begin = self.sequence.len();
        self.sequence.reserve(begin + tokens)?;
        self.executor.poison_kv(self.sequence, begin)?;
        self.executor.poison_states(self.sequence)
    }

    /// Runs a batched step of so many rows, with the fault that was asked for if its row is among them.
    #[cfg(feature = "fault-injection")]
    fn spoiled<T>(
        &mut self,
        rows: usize,
        want: Want,
        step: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let first = self.sequence.len() - self.start;
        let Some((fault, row)) = self.fault.filter(|(_, row)| (first..first + rows).contains(row)) else {
            return step(self);
        };
        self.sequence.reserve(self.sequence.len() + rows)?;
        self.executor.spoil(fault, self.sequence, row - first, (rows, want.logit_rows(rows)))?;
        let result = step(self);
        self.executor.heal()?;
        result
    }

    /// Runs a batched step.
    #[cfg(not(feature = "fault-injection"))]
    fn spoiled<T>(
        &mut self,
        _rows: usize,
        _want: Want,
        step: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        step(self)
    }

    /// The layer that writes each cache.
    fn layers(&self) -> Vec<Option<u32>> {
        let ops = &self.executor.plan().ops;
        let writer = |id| ops.iter().find(|n| matches!(n.op, Op::KvWrite { kv, .. } if kv.index() == id));
        (0..self.executor.plan().kv.len()).map(|id| writer(id).and_then(|n| n.layer)).collect()
    }

    /// The layer of each recurrent state.
    fn state_layers(&self) -> Vec<Option<u32>> {
        let plan = self.executor.plan();
        let user = |id| {
            let uses = |op: &Op| matches!(op, Op::Conv { state, .. } | Op::DeltaNet { state, .. } if state.index() == id);
            plan.ops.iter().find(|n| uses(&n.op))
        };
        (0..plan.states.len()).map(|id| user(id).and_then(|n| n.layer)).collect()
    }
}

/// What rows of a step are.
struct StepRows {
    /// Position of the first.
    begin: usize,
    /// Tokens.
    count: usize,
    /// The last so many want logits.
    wanted: usize,
    /// The layer of each cache.
    layers: Vec<Option<u32>>,
    /// The layer of each recurrent state.
    state_layers: Vec<Option<u32>>,
}

impl Comparison {
    /// Adds the rows of a step.
    fn add(&mut self, got: &Chunk, want: &Chunk, step: &StepRows) {
        let (begin, count) = (step.begin, step.count);
        for i in 0..step.wanted {
            let (got, want) = (part_of(&got.logits, i, step.wanted), part_of(&want.logits, i, step.wanted));
            let position = begin + count - step.wanted + i;
            self.logits.add(&Pair { position, layer: None, got, want }, self.tolerance, true);
            self.choice.add(got, want, self.tolerance);
        }
        for ((got, want), &layer) in got.caches.kv.iter().zip(&want.caches.kv).zip(&step.layers) {
            for row in 0..count {
                let position = begin + row;
                let keys = (part_of(&got.keys, row, count), part_of(&want.keys, row, count));
                let values = (part_of(&got.values, row, count), part_of(&want.values, row, count));
                for (measure, (got, want)) in [(&mut self.keys, keys), (&mut self.values, values)] {
                    measure.add(&Pair { position, layer, got, want }, self.tolerance, false);
                }
            }
        }
        let states = got.caches.states.iter().zip(&want.caches.states).zip(&step.state_layers);
        for ((got, want), &layer) in states {
            let position = begin + count - 1;
            self.states.add(&Pair { position, layer, got, want }, self.tolerance, false);
        }
        self.routes.add(&got.chosen, &want.chosen);
        self.judge();
    }
}
