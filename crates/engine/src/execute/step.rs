//! Steps: programs that were recorded once, what they read, and results that belong to one step.

use super::{Executor, record};
use crate::compile::{Head, Shape};
use crate::{Candidates, Error, OpTime, Sampler, Sequence, Want};
use zinc_kernels::RowInfo;
use zinc_kernels::sample::argmax::NO_TOKEN;
use zinc_kernels::sample::top_k::TopK;
use zinc_vulkan::{Commands, Recorder, RecorderOptions, Slice, Ticket};

/// Where a step's rows come from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// The host: these tokens, after what the sequence holds.
    Host(&'a [u32]),
    /// The step before: the token it chose, at this position.
    Device {
        /// The position.
        position: u32,
    },
}

/// What a step does with its logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tail {
    /// Nothing.
    None,
    /// Copies all rows to the host.
    Rows,
    /// Argmax, and the token becomes the next step's row.
    Greedy,
    /// The largest few and the log-sum-exp, to the host.
    Candidates,
}

/// What distinguishes recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub shape: Shape,
    pub tail: Tail,
    /// The input slot that it begins with; `None` where the step before left its rows.
    pub input: Option<usize>,
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
    step: u64,
    logits: Option<Slice>,
}

/// What results are set to before a step: no kernel writes this NaN.
const POISON: u32 = 0xffff_dead;

impl Executor {
    /// Submits a step. Room for its tokens must have been reserved.
    pub(super) fn submit(
        &mut self,
        sequence: &Sequence,
        source: Source<'_>,
        head: Head,
        tail: Tail,
    ) -> Result<Ticket, Error> {
        let (rows, end, input) = match source {
            Source::Host(tokens) => {
                let slot = self.write_inputs(sequence, tokens)?;
                (tokens.len() as u32, (sequence.len() + tokens.len()) as u32, Some(slot))
            }
            Source::Device { position } => (1, position + 1, None),
        };
        let key = Key { shape: Shape { rows, head }, tail, input, keys: self.key_bucket(end) };
        if !self.programs.contains_key(&key) {
            let program = self.record(key, false)?;
            self.programs.insert(key, program);
        }
        self.poison(tail, key.shape.logit_rows())?;
        let program = &self.programs[&key];
        let ticket = self.device.submit(&[&program.commands])?;
        if tail == Tail::Greedy || tail == Tail::Candidates {
            self.decode_stats = program.commands.stats();
        }
        self.steps += 1;
        self.submissions += u64::from(program.commands.stats().parts);
        self.held = Held { step: self.steps, logits: program.logits.clone() };
        self.chosen_steps += u64::from(tail == Tail::Greedy);
        if let Some(slot) = input {
            self.input_tickets[slot] = Some(ticket.clone());
        }
        Ok(ticket)
    }

    /// Writes rows and page table into the next input slot, once the step that read it last is done.
    fn write_inputs(&mut self, sequence: &Sequence, tokens: &[u32]) -> Result<usize, Error> {
        let slot = self.next_input;
        self.next_input = (slot + 1) % self.buffers.inputs.len();
        if let Some(ticket) = self.input_tickets[slot].take() {
            ticket.wait()?;
        }
        let infos: Vec<RowInfo> = tokens
            .iter()
            .enumerate()
            .map(|(i, &token)| {
                let position = (sequence.len() + i) as u32;
                RowInfo { token, position, sequence: sequence.slot(), flags: 0 }
            })
            .collect();
        let first = sequence.slot() as usize * self.extents.max_pages() as usize;
        self.page_table[first..first + sequence.pages().len()].copy_from_slice(sequence.pages());
        let (rows, pages) = &self.buffers.inputs[slot];
        let offset = rows.len() - size_of_val(infos.as_slice()) as u64;
        rows.write(offset, bytemuck::cast_slice(&infos))?;
        pages.write_as(&self.page_table)?;
        Ok(slot)
    }

    /// Spoils the result buffers, so that what is read afterwards is this step's.
    pub(super) fn poison(&self, tail: Tail, logit_rows: u32) -> Result<(), Error> {
        match tail {
            Tail::None | Tail::Greedy => {}
            Tail::Candidates => self.buffers.candidates.write(0, &POISON.to_le_bytes())?,
            Tail::Rows => {
                for row in 0..u64::from(logit_rows) {
                    self.buffers
                        .logits
                        .write(row * u64::from(self.extents.vocab) * 4, &POISON.to_le_bytes())?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn record(&mut self, key: Key, timestamps: bool) -> Result<Program, Error> {
        let schedule = self.schedule(key.shape, false)?;
        let label = format!("step of {} rows", key.shape.rows);
        let options = RecorderOptions { label, timestamps, simultaneous: true, max_cost: None };
        let mut recorder = self.device.recorder(&options)?;
        if let Some(slot) = key.input {
            let (rows, pages) = &self.buffers.inputs[slot];
            let bytes = u64::from(key.shape.rows) * RowInfo::BYTES;
            let offset = rows.len() - bytes;
            recorder.copy(&rows.slice(offset, bytes)?, &self.buffers.rows.slice(offset, bytes)?)?;
            recorder.copy(pages, &self.buffers.pages)?;
        }
        let recording = record::Recording::new(self, &schedule, key.keys)?;
        for step in &schedule.steps {
            recording.step(&mut recorder, step)?;
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
            Tail::None => Ok(()),
            Tail::Rows => Ok(recorder.copy(logits, &self.buffers.logits.slice(0, logits.len())?)?),
            Tail::Greedy => recording.greedy(recorder),
            Tail::Candidates => recording.candidates(recorder),
        }
    }

    /// One step of one sequence: the logits of the rows that want them.
    pub fn forward(
        &mut self,
        sequence: &mut Sequence,
        tokens: &[u32],
        want: Want,
    ) -> Result<Vec<f32>, Error> {
        sequence.reserve(sequence.len() + tokens.len())?;
        let (head, tail) = match want {
            Want::None => (Head::None, Tail::None),
            Want::Last => (Head::Last, Tail::Rows),
            Want::All => (Head::All, Tail::Rows),
        };
        let ticket = self.submit(sequence, Source::Host(tokens), head, tail)?;
        if want == Want::None {
            return Ok(Vec::new()); // the next step waits for it on the device
        }
        ticket.wait()?;
        self.read_rows(Shape { rows: tokens.len() as u32, head }.logit_rows())
    }

    /// Reads `feed` and chooses the next token; whether it took the full row.
    pub fn sample(
        &mut self,
        sequence: &mut Sequence,
        feed: &[u32],
        sampler: &mut Sampler,
    ) -> Result<(u32, bool), Error> {
        sequence.reserve(sequence.len() + feed.len())?;
        self.submit(sequence, Source::Host(feed), Head::Last, Tail::Candidates)?.wait()?;
        let step = self.steps;
        if let Some(token) = sampler.sample_candidates(&self.read_candidates()?) {
            return Ok((token, false));
        }
        Ok((sampler.sample(&self.full_row(step)?)?, true))
    }

    pub(super) fn read_candidates(&self) -> Result<Candidates, Error> {
        let words: Vec<u32> = self.buffers.candidates.read_as()?;
        if words[0] == POISON {
            return Err(Error::StaleResult { step: self.steps, held: self.steps - 1 });
        }
        let found = TopK::read(&words).ok_or(crate::NotFinite)?;
        let vocab = self.extents.vocab as usize;
        Ok(Candidates { tokens: found.candidates, log_sum_exp: f64::from(found.log_sum_exp), vocab })
    }

    /// The logits of a step that did not copy them. They lie in scratch memory, which the next step overwrites.
    pub(super) fn full_row(&mut self, step: u64) -> Result<Vec<f32>, Error> {
        let logits = match &self.held {
            Held { step: held, logits: Some(logits) } if *held == step => logits.clone(),
            held => return Err(Error::StaleResult { step, held: held.step }),
        };
        self.poison(Tail::Rows, 1)?;
        let mut recorder =
            self.device.recorder(&RecorderOptions { label: "logits".into(), ..Default::default() })?;
        recorder.copy(&logits, &self.buffers.logits.slice(0, logits.len())?)?;
        let commands = recorder.finish()?;
        self.device.submit(&[&commands])?.wait()?;
        self.submissions += 1;
        self.read_rows(1)
    }

    pub(super) fn read_rows(&self, rows: u32) -> Result<Vec<f32>, Error> {
        let row = u64::from(self.extents.vocab) * 4;
        let values: Vec<f32> = self.buffers.logits.slice(0, u64::from(rows) * row)?.read_as()?;
        match values.chunks(self.extents.vocab as usize).any(|r| r[0].to_bits() == POISON) {
            true => Err(Error::StaleResult { step: self.steps, held: self.steps - 1 }),
            false => Ok(values),
        }
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

    /// Times each dispatch of a step of `rows` rows at the end of the sequence; its tokens are not kept.
    pub fn profile_step(&mut self, sequence: &mut Sequence, rows: u32) -> Result<Vec<OpTime>, Error> {
        sequence.reserve(sequence.len() + rows as usize)?;
        let slot = self.write_inputs(sequence, &vec![0; rows as usize])?;
        let shape = Shape { rows, head: Head::Last };
        let keys = self.key_bucket(sequence.len() as u32 + rows);
        let program = self.record(Key { shape, tail: Tail::Candidates, input: Some(slot), keys }, true)?;
        // The first submission warms up; the second is the one that counts.
        self.device.submit(&[&program.commands])?.wait()?;
        self.device.submit(&[&program.commands])?.wait()?;
        self.steps += 2;
        self.submissions += 2;
        self.held = Held { step: self.steps, logits: None };
        let timings = program.commands.timings()?;
        Ok(timings
            .into_iter()
            .map(|t| OpTime { label: t.label, nanoseconds: t.nanoseconds as u64 })
            .collect())
    }
}
