//! Looking inside: the rows of the caches, and the outputs of every call of a step that keeps them. Validate mode is made of it.

use super::step::{Held, Input, Key, Tail};
use super::{Executor, Schedule};
use crate::batch::Part;
use crate::compile::Place;
use crate::{Error, KvType, PAGE_TOKENS, Sequence, Want};
use std::ops::Range;
use std::sync::Arc;
use zinc_kernels::kv::{decode_row, page_bytes, row_ranges};
use zinc_kernels::recurrent::NO_STATE;
use zinc_plan::{Cols, KvSpec, StateSpec};
use zinc_vulkan::{Commands, MemoryKind, Recorder, RecorderOptions, Slice};

/// What no kernel writes: a NaN as two f16 (scales of blocks too) and as one f32.
const UNWRITTEN: u32 = 0xffff_ffff;

/// Keys and values of some positions of one cache, position after position, head after head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KvRows {
    /// `heads · key_size` elements a position.
    pub keys: Vec<f32>,
    /// `heads · value_size` elements a position.
    pub values: Vec<f32>,
}

/// The experts that a layer chose for a token of a step, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The layer.
    pub layer: Option<u32>,
    /// Number of the token in its step.
    pub token: usize,
    /// Numbers of experts.
    pub experts: Vec<u32>,
}

/// A step that was run with all its activations kept.
pub struct Observed {
    /// What was run.
    pub schedule: Arc<Schedule>,
    /// Its scratch memory after the step.
    scratch: Vec<f32>,
    /// Tokens that it read; rows before them fill up the shape.
    tokens: usize,
}

impl Observed {
    /// These columns for a token; `None` where the schedule does not compute them for it.
    pub fn row(&self, c: Cols, token: usize) -> Option<&[f32]> {
        let place = self.schedule.scratch.places[c.act.index()]?;
        // The tokens are the last rows of the batch, and buffers with fewer rows than the batch have its last ones.
        let row = (place.rows as usize + token).checked_sub(self.tokens)?;
        let start = place.offset as usize / 4 + row * place.stride as usize + c.first as usize;
        self.scratch.get(start..start + c.width as usize)
    }
}

impl Executor {
    /// What the caches hold at these positions of a sequence, by `KvId`.
    pub fn read_kv(&self, sequence: &Sequence, positions: Range<usize>) -> Result<Vec<KvRows>, Error> {
        let (first, pages) = pages_of(sequence, &positions);
        let page_bytes: Vec<(u64, u64)> =
            self.plan.kv.iter().map(|s| crate::memory::page_bytes(s, self.kv_type)).collect();
        let all: u64 = page_bytes.iter().map(|(k, v)| k + v).sum::<u64>() * pages.len() as u64;
        let host = self.device.alloc(MemoryKind::Readback, all, "rows of caches")?.all();
        let mut at = 0;
        self.run("rows of caches", |recorder| {
            for ((k, v), &(kb, vb)) in self.buffers.kv.iter().zip(&page_bytes) {
                for (cache, bytes) in [(k, kb), (v, vb)] {
                    for &page in pages {
                        let page = cache.slice(u64::from(page) * bytes, bytes)?;
                        recorder.copy(&page, &host.slice(at, bytes)?)?;
                        at += bytes;
                    }
                }
            }
            Ok(())
        })?;
        let mut bytes = host.read()?;
        let skip = positions.start - first;
        let mut take = |spec: &KvSpec, size: u32, page: u64| {
            let rest = bytes.split_off(page as usize * pages.len());
            let part = std::mem::replace(&mut bytes, rest);
            position_rows(&part, self.kv_type, spec.heads as usize, size as usize, skip, positions.len())
        };
        let rows = self.plan.kv.iter().zip(&page_bytes);
        Ok(rows
            .map(|(s, &(kb, vb))| KvRows { keys: take(s, s.key_size, kb), values: take(s, s.value_size, vb) })
            .collect())
    }

    /// The experts that the last step chose, which had so many tokens and rows of logits. Nothing where no row was computed.
    pub fn read_choices(&mut self, tokens: usize, logit_rows: usize) -> Result<Vec<Chosen>, Error> {
        let shape = self.widths.shape(tokens as u32, logit_rows as u32, false);
        let schedule = self.schedule(shape, false)?;
        let mut places = Vec::new();
        for step in &schedule.steps {
            if let Some((_, out)) = step.call.choice()
                && let Some(place) = schedule.scratch.places[out.act.index()]
            {
                places.push((step.layer, out, place));
            }
        }
        let bytes = |place: &Place| u64::from(place.stride) * u64::from(place.rows) * 4;
        let all: u64 = places.iter().map(|(.., place)| bytes(place)).sum();
        if all == 0 {
            return Ok(Vec::new());
        }
        let host = self.device.alloc(MemoryKind::Readback, all, "choices")?.all();
        let mut at = 0;
        self.run("choices", |recorder| {
            for (.., place) in &places {
                let choice = self.buffers.scratch.slice(place.offset, bytes(place))?;
                recorder.copy(&choice, &host.slice(at, choice.len())?)?;
                at += choice.len();
            }
            Ok(())
        })?;
        let values: Vec<f32> = host.read_as()?;
        let (mut chosen, mut begin) = (Vec::new(), 0);
        for (layer, out, place) in places {
            // The tokens are the last rows of the batch; some layers choose for the last of them alone.
            let rows = (place.rows as usize).min(tokens);
            for row in place.rows as usize - rows..place.rows as usize {
                let start = begin + row * place.stride as usize + out.first as usize;
                let mut experts: Vec<u32> =
                    values[start..start + out.width as usize / 2].iter().map(|&e| e as u32).collect();
                experts.sort_unstable();
                chosen.push(Chosen { layer, token: tokens + row - place.rows as usize, experts });
            }
            begin += place.stride as usize * place.rows as usize;
        }
        Ok(chosen)
    }

    /// The recurrent states as the sequence's last step left them, by `StateId`.
    pub fn read_states(&self, sequence: &Sequence) -> Result<Vec<Vec<f32>>, Error> {
        let (_, slot) = sequence.state_slots();
        if slot == NO_STATE {
            return Ok(Vec::new());
        }
        let host =
            self.device.alloc(MemoryKind::Readback, crate::memory::state_bytes(&self.plan), "states")?;
        let (host, mut at) = (host.all(), 0);
        self.run("states", |recorder| {
            for state in self.states_in(slot)? {
                recorder.copy(&state, &host.slice(at, state.len())?)?;
                at += state.len();
            }
            Ok(())
        })?;
        let mut values: Vec<f32> = host.read_as()?;
        let mut take = |n: usize| {
            let rest = values.split_off(n);
            std::mem::replace(&mut values, rest)
        };
        Ok(self.plan.states.iter().map(|s| take(s.elements())).collect())
    }

    /// Spoils the slot that the next step writes the recurrent states to, if they are read from another one.
    pub fn poison_states(&self, sequence: &Sequence) -> Result<(), Error> {
        let (from, to) = sequence.state_slots();
        if from == to {
            return Ok(());
        }
        self.run("spoil states", |recorder| {
            self.states_in(to)?.iter().try_for_each(|state| Ok(recorder.fill(state, UNWRITTEN)?))
        })
    }

    /// The states of a slot, by `StateId`.
    fn states_in(&self, slot: u32) -> Result<Vec<Slice>, Error> {
        let of = |(spec, all): (&StateSpec, &Slice)| {
            let bytes = spec.elements() as u64 * 4;
            Ok(all.slice(u64::from(slot) * bytes, bytes)?)
        };
        self.plan.states.iter().zip(&self.buffers.states).map(of).collect()
    }

    /// Spoils the caches from a position to the end of the sequence's pages, so that a row that a step forgets to write does not
    /// pass for one that it wrote.
    pub fn poison_kv(&self, sequence: &Sequence, from: usize) -> Result<(), Error> {
        let end = sequence.pages().len() * PAGE_TOKENS as usize;
        let (first, pages) = pages_of(sequence, &(from..end));
        let specs = self.plan.kv.iter();
        let sizes: Vec<u32> = specs.flat_map(|s| [s.key_size, s.value_size]).collect();
        let Some(&largest) = sizes.iter().max() else { return Ok(()) };
        // Copied, for what is filled must be whole words, and scales are not.
        let bytes = page_bytes(self.kv_type, 1, largest);
        let unwritten = self.device.alloc(MemoryKind::Device, bytes, "what no kernel writes")?.all();
        self.run("spoil caches", |recorder| {
            recorder.fill(&unwritten, UNWRITTEN)?;
            for (spec, (k, v)) in self.plan.kv.iter().zip(&self.buffers.kv) {
                for (cache, size) in [(k, spec.key_size), (v, spec.value_size)] {
                    let head = page_bytes(self.kv_type, 1, size);
                    let last = row_ranges(self.kv_type, size, PAGE_TOKENS - 1);
                    for (i, &page) in pages.iter().enumerate() {
                        let skip = if i == 0 { (from - first) as u32 } else { 0 };
                        for h in 0..u64::from(spec.heads) {
                            let start = (u64::from(page) * u64::from(spec.heads) + h) * head;
                            for (from, to) in row_ranges(self.kv_type, size, skip).iter().zip(&last) {
                                let rows = cache.slice(start + from.start, to.end - from.start)?;
                                recorder.copy(&unwritten.slice(0, rows.len())?, &rows)?;
                            }
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Runs a step whose every activation keeps its memory, in scratch memory of its own. Room must have been reserved.
    ///
    /// # Errors
    /// What the device says; too little memory for the activations above all.
    pub fn observe(
        &mut self,
        sequence: &mut Sequence,
        tokens: &[u32],
        want: Want,
    ) -> Result<Observed, Error> {
        let keys = self.key_bucket((sequence.len() + tokens.len()) as u32);
        let batch = self.batch(&[Part { sequence, tokens, want }]);
        let shape = self.shape_of(&batch);
        let slot = self.write_inputs(&batch, shape)?;
        let schedule = self.schedule(shape, true)?;
        let scratch =
            self.device.alloc(MemoryKind::Device, schedule.scratch.bytes, "kept activations")?.all();
        self.run("spoil activations", |recorder| Ok(recorder.fill(&scratch, UNWRITTEN)?))?;
        let tail = Tail::Host { rows: false, candidates: false };
        let key = Key { shape, tail, input: Input::All(slot), keys };
        let program = self.record_schedule(&schedule, &scratch, key, false)?;
        self.submit_and_wait(&program.commands)?;
        self.steps += 1;
        self.submissions += u64::from(program.commands.stats().parts);
        self.held = Held { step: self.steps, ..Held::default() };
        Ok(Observed { schedule, scratch: self.device.download_as(&scratch)?, tokens: tokens.len() })
    }

    fn submit_and_wait(&self, commands: &Commands) -> Result<(), Error> {
        Ok(self.device.submit(&[commands])?.wait()?)
    }

    /// Records, submits and waits.
    pub(super) fn run(
        &self,
        label: &str,
        record: impl FnOnce(&mut Recorder) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let options = RecorderOptions { label: label.into(), ..Default::default() };
        let mut recorder = self.device.recorder(&options)?;
        record(&mut recorder)?;
        self.submit_and_wait(&recorder.finish()?)
    }

    /// The bytes of an element of a key head in a sequence's cache; of blocks its code.
    #[cfg(feature = "fault-injection")]
    pub(super) fn key_element(
        &self,
        kv: zinc_plan::KvId,
        sequence: &Sequence,
        position: usize,
        element: u32,
    ) -> Result<Slice, Error> {
        let (spec, size) = (self.plan.kv(kv), self.plan.kv(kv).key_size);
        let page = u64::from(sequence.pages()[position / PAGE_TOKENS as usize]);
        let (head, in_head) = (u64::from(element / size), u64::from(element % size));
        let start = (page * u64::from(spec.heads) + head) * page_bytes(self.kv_type, 1, size);
        let row = &row_ranges(self.kv_type, size, position as u32 % PAGE_TOKENS)[0];
        let bytes = (row.end - row.start) / u64::from(size);
        Ok(self.buffers.kv[kv.index()].0.slice(start + row.start + in_head * bytes, bytes)?)
    }
}

/// The pages that hold these positions, and the position at which the first of them begins.
fn pages_of<'a>(sequence: &'a Sequence, positions: &Range<usize>) -> (usize, &'a [u32]) {
    let page = PAGE_TOKENS as usize;
    let first = positions.start / page;
    (first * page, &sequence.pages()[first.min(sequence.pages().len())..positions.end.div_ceil(page)])
}

/// Rows of positions out of pages, in which the positions of a head lie together.
fn position_rows(
    pages: &[u8],
    kind: KvType,
    heads: usize,
    size: usize,
    skip: usize,
    count: usize,
) -> Vec<f32> {
    let page = PAGE_TOKENS as usize;
    let head_bytes = page_bytes(kind, 1, size as u32) as usize;
    let mut values = Vec::with_capacity(count * heads * size);
    for position in skip..skip + count {
        for head in 0..heads {
            let of_head = &pages[(position / page * heads + head) * head_bytes..][..head_bytes];
            let ranges = row_ranges(kind, size as u32, (position % page) as u32);
            let bytes = ranges.iter().flat_map(|r| &of_head[r.start as usize..r.end as usize]);
            values.extend(decode_row(kind, &bytes.copied().collect::<Vec<u8>>()));
        }
    }
    values
}
