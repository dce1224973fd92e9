//! Steps: programs that were recorded once, what they read, and results that belong to one step.

use super::batch::Batch;
use super::{Executor, cost, record};
use crate::batch::{Part, PartOutput};
use crate::compile::{Schedule, Shape};
use crate::{Error, OpTime, Sampler, Sequence, Want};
use zinc_kernels::RowInfo;
use zinc_kernels::recurrent::{PartRows, RunTable};
use zinc_kernels::sample::argmax::NO_TOKEN;
use zinc_vulkan::{Commands, Recorder, RecorderOptions, Slice, Ticket};

/// Where a step's rows come from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The host.
    Host(&'a Batch),
    /// The step before: the token it chose, at this position.
    Device {
        /// The position.
        position: u32,
        /// The slots of recurrent states that the step reads and writes, where there are any.
        states: Option<(u32, u32)>,
    },
}

/// What a step does with its logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tail {
    /// Gives the host results.
    Host {
        /// All rows.
        rows: bool,
        /// The largest few and the log-sum-exp of each row.
        candidates: bool,
    },
    /// Argmax, and the token becomes the next step's row.
    Greedy,
}

/// What a recording begins with, of an input slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Input {
    /// Nothing: the step before left its row.
    None,
    /// Where recurrent states are; the step before left its row.
    Parts(usize),
    /// Rows, page table, and where recurrent states are.
    All(usize),
}

/// What distinguishes recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub shape: Shape,
    pub tail: Tail,
    pub input: Input,
    /// Keys that attention looks at, at most.
    pub keys: u32,
}

/// A recorded step.
pub(super) struct Program {
    pub commands: Commands,
    /// Its rows of logits.
    pub logits: Option<Slice>,
}

/// The step whose results the buffers hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub step: u64,
    pub logit_rows: u32,
    /// Whether it gave candidates.
    pub candidates: bool,
    pub logits: Option<Slice>,
}

impl Executor {
    /// Submits a step. Room for its tokens must have been reserved.
    pub(super) fn submit(&mut self, source: Source<'_>, tail: Tail) -> Result<Ticket, Error> {
        let (shape, end, input) = match source {
            Source::Host(batch) => {
                let shape = self.shape_of(batch);
                let slot = self.write_inputs(batch, shape)?;
                let end = batch.rows.iter().map(|r| r.position + 1).max();
                (shape, end.unwrap_or(0), Input::All(slot))
            }
            Source::Device { position, states } => {
                let input = match states {
                    Some(slots) => Input::Parts(self.write_parts(slots)?),
                    None => Input::None,
                };
                (Shape::new(1, 1), position + 1, input)
            }
        };
        let key = Key { shape, tail, input, keys: self.key_bucket(end) };
        if !self.programs.contains(&key) {
            let program = self.record(key, false)?;
            self.programs.insert(key, program);
        }
        self.poison(tail, shape.logit_rows)?;
        self.steps += 1;
        let Some(program) = self.programs.get(&key) else {
            return Err(Error::StaleResult { step: self.steps, held: self.held.step });
        };
        self.held = Held::default(); // a failed submission leaves nothing to read
        let ticket = self.device.submit(&[&program.commands])?;
        if shape.logit_rows > 0 {
            self.decode_stats = program.commands.stats();
        }
        self.submissions += u64::from(program.commands.stats().parts);
        self.held = Held {
            step: self.steps,
            logit_rows: shape.logit_rows,
            candidates: matches!(tail, Tail::Host { candidates: true, .. }),
            logits: program.logits.clone(),
        };
        self.chosen_steps += u64::from(tail == Tail::Greedy);
        if let Input::Parts(slot) | Input::All(slot) = input {
            self.input_tickets[slot] = Some(ticket.clone());
        }
        Ok(ticket)
    }

    /// The next input slot, once the step that read it last is done.
    fn free_input(&mut self) -> Result<usize, Error> {
        let slot = self.next_input;
        self.next_input = (slot + 1) % self.buffers.inputs.len();
        if let Some(ticket) = self.input_tickets[slot].take() {
            ticket.wait()?;
        }
        Ok(slot)
    }

    /// Writes the table of a step of one row of one part, which reads and writes these slots, into the next input slot.
    fn write_parts(&mut self, (from, to): (u32, u32)) -> Result<usize, Error> {
        let slot = self.free_input()?;
        let table = RunTable::new(0, &[PartRows { from, to, plain: 0, with_logits: 1 }]);
        self.buffers.inputs[slot].parts.write(0, &self.extents.part_table(&table))?;
        Ok(slot)
    }

    /// Writes rows and page table into the next input slot. Rows that fill up the shape come first: token 0 at position 0 of a sequence
    /// whose page nobody reads.
    pub(super) fn write_inputs(&mut self, batch: &Batch, shape: Shape) -> Result<usize, Error> {
        let slot = self.free_input()?;
        let input = &self.buffers.inputs[slot];
        let filler = RowInfo { sequence: self.extents.sequences, ..RowInfo::default() };
        let mut infos = vec![filler; shape.rows as usize - batch.rows.len()];
        if !self.plan.states.is_empty() {
            let table = RunTable::new(infos.len() as u32, &batch.parts);
            input.parts.write(0, &self.extents.part_table(&table))?;
        }
        infos.extend_from_slice(&batch.rows);
        let offset = input.rows.len() - size_of_val(infos.as_slice()) as u64;
        input.rows.write(offset, bytemuck::cast_slice(&infos))?;
        input.pages.write_as(&self.page_table)?;
        Ok(slot)
    }

    pub(super) fn record(&mut self, key: Key, timestamps: bool) -> Result<Program, Error> {
        let schedule = self.schedule(key.shape, false)?;
        self.record_schedule(&schedule, &self.buffers.scratch, key, timestamps)
    }

    /// Records a schedule whose activations lie in `scratch`.
    pub(super) fn record_schedule(
        &self,
        schedule: &Schedule,
        scratch: &Slice,
        key: Key,
        timestamps: bool,
    ) -> Result<Program, Error> {
        let label = format!("step of {} rows", key.shape.rows);
        let options = RecorderOptions { label, timestamps, simultaneous: true, max_cost: Some(cost::MOST) };
        let mut recorder = self.device.recorder(&options)?;
        if let Input::All(slot) = key.input {
            let input = &self.buffers.inputs[slot];
            let bytes = u64::from(key.shape.rows) * RowInfo::BYTES;
            let offset = input.rows.len() - bytes;
            recorder.copy(&input.rows.slice(offset, bytes)?, &self.buffers.rows.slice(offset, bytes)?)?;
            recorder.copy(&input.pages, &self.buffers.pages)?;
        }
        if let Input::Parts(slot) | Input::All(slot) = key.input {
            let input = &self.buffers.inputs[slot];
            let bytes = self.extents.part_bytes(key.shape.rows);
            if bytes > 0 {
                recorder.copy(&input.parts.slice(0, bytes)?, &self.buffers.parts.all.slice(0, bytes)?)?;
            }
        }
        let recording = record::Recording::new(self, schedule, key.keys, scratch);
        for step in &schedule.steps {
            recorder.cost(cost::of(&self.plan, key.shape, key.keys, &step.call))?;
            recording.step(&mut recorder, step)?;
            #[cfg(feature = "fault-injection")]
            recording.spoil(&mut recorder, step)?;
        }
        let logits = recording.logits()?;
        if let Some(logits) = &logits {
            self.record_tail(&mut recorder, &recording, key, logits)?;
        }
        Ok(Program { commands: recorder.finish()?, logits })
    }

    fn record_tail(
        &self,
        recorder: &mut Recorder,
        recording: &record::Recording<'_>,
        key: Key,
        logits: &Slice,
    ) -> Result<(), Error> {
        match key.tail {
            Tail::Greedy => recording.greedy(recorder),
            Tail::Host { rows, candidates } => {
                if rows {
                    recorder.copy(logits, &self.buffers.logits.slice(0, logits.len())?)?;
                }
                if candidates {
                    recording.candidates(recorder)?;
                }
                Ok(())
            }
        }
    }

    /// Reads `feed` and chooses the next token; whether it took the full row.
    pub fn sample(
        &mut self,
        sequence: &mut Sequence,
        feed: &[u32],
        sampler: &mut Sampler,
    ) -> Result<(u32, bool), Error> {
        let mut outputs = self.forward(&mut [Part { sequence, tokens: feed, want: Want::Candidates }])?;
        let Some(PartOutput::Candidates { best, row }) = outputs.pop() else {
            return Err(Error::EmptyPrompt);
        };
        if let Some(token) = sampler.sample_candidates(&best) {
            return Ok((token, false));
        }
        Ok((sampler.sample(&self.logit_row(row)?)?, true))
    }

    /// Number of tokens that the GPU was asked to choose so far.
    pub(super) fn chosen_count(&self) -> u64 {
        self.chosen_steps
    }

    /// Takes the token of greedy step number `step` from the ring. Its step must be done.
    pub(super) fn chosen(&mut self, step: u64) -> Result<u32, Error> {
        let offset = step % u64::from(super::buffers::RING) * 4;
        let token: Vec<u32> = self.buffers.ring.slice(offset, 4)?.read_as()?;
        self.buffers.ring.write(offset, &u32::MAX.to_le_bytes())?;
        match token[0] {
            token if token < self.extents.vocab => Ok(token),
            NO_TOKEN => Err(crate::NotFinite.into()),
            _ => Err(Error::StaleResult { step: step + 1, held: step }),
        }
    }

    /// Times each dispatch of a step of these tokens at the end of the sequence; they are not kept.
    pub fn profile_step(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<OpTime>, Error> {
        let rows = tokens.len() as u32;
        sequence.reserve(sequence.len() + rows as usize)?;
        if !sequence.protect() {
            return Err(crate::sequence::no_checkpoint());
        }
        let keys = self.key_bucket(sequence.len() as u32 + rows);
        let batch = self.batch(&[Part { sequence, tokens, want: Want::Candidates }]);
        let shape = self.widths.shape(rows, 1, false);
        let input = Input::All(self.write_inputs(&batch, shape)?);
        let tail = Tail::Host { rows: false, candidates: true };
        let program = self.record(Key { shape, tail, input, keys }, true)?;
        // The first submission warms up; the second is the one that counts.
        self.device.submit(&[&program.commands])?.wait()?;
        self.device.submit(&[&program.commands])?.wait()?;
        self.steps += 2;
        self.submissions += 2;
        self.held = Held { step: self.steps, ..Held::default() };
        let timings = program.commands.timings()?;
        Ok(timings
            .into_iter()
            .map(|t| OpTime { label: t.label, nanoseconds: t.nanoseconds as u64 })
            .collect())
    }
}
