//! Everything on the device beside the weights: caches, tables, scratch, what steps read and what they give.

use crate::memory::{page_bytes, pages, rope_bytes};
use crate::{Error, KvType};
use zinc_kernels::RowInfo;
use zinc_kernels::attention::attention::COUNTER_BYTES;
use zinc_kernels::recurrent::{Parts, Run, RunTable};
use zinc_kernels::sample::top_k::row_words;
use zinc_plan::{Plan, RopeTable};
use zinc_vulkan::{Arena, ArenaPlan, Device, MemoryKind, Slice, StagingRing};

/// Host copies of the inputs that may be in flight: one is written while the other is read.
pub const INPUT_SLOTS: usize = 2;
/// Tokens of the ring that greedy decoding writes.
pub const RING: u32 = 8;
/// Candidates that the GPU gives the sampler.
pub const CANDIDATES: u32 = 64;

/// Sizes that the buffers depend on.
#[derive(Debug, Clone, Copy)]
pub struct Extents {
    /// Tokens of a sequence.
    pub context: u32,
    /// Sequences.
    pub sequences: u32,
    /// Pages that can be kept beside the sequences' own.
    pub kept_pages: u32,
    /// Slots of recurrent states.
    pub state_slots: u32,
    /// Rows of a step at most.
    pub rows: u32,
    /// Rows of logits of a step at most.
    pub logit_rows: u32,
    /// Elements of a row of logits.
    pub vocab: u32,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// Bytes of scratch.
    pub scratch: u64,
    /// Bytes of the kernels' own scratch: attention's blocks, parts of argmax and top-k.
    pub work: u64,
}

impl Extents {
    /// Pages that a sequence has at most.
    pub fn max_pages(&self) -> u32 {
        pages(self.context)
    }

    /// Pages that sequences and kept prefixes can have; the cache has one more, see [`Extents::page_table`].
    pub fn pages(&self) -> u32 {
        self.max_pages() * self.sequences + self.kept_pages
    }

    /// The page numbers of each sequence, and of one more: that of rows which only fill up a step. All its pages are the one that no
    /// sequence has.
    pub fn page_table(&self) -> Vec<u32> {
        let mut table = vec![0; (self.max_pages() * self.sequences) as usize];
        table.extend((0..self.max_pages()).map(|_| self.pages()));
        table
    }

    fn table_bytes(&self) -> u64 {
        u64::from(self.max_pages()) * (u64::from(self.sequences) + 1) * 4
    }

    fn row_bytes(&self) -> u64 {
        u64::from(self.rows) * RowInfo::BYTES
    }

    /// Entries of the table of a step's parts: sequences, and rows that only fill up.
    fn max_parts(&self) -> u32 {
        self.sequences + 1
    }

    fn run_bytes(&self) -> u64 {
        u64::from(self.max_parts()) * Run::BYTES
    }

    /// Bytes of the tables that recurrent kernels read, for steps of `rows` rows; 0 where there are none.
    pub fn part_bytes(&self, rows: u32) -> u64 {
        if self.state_slots == 0 { 0 } else { self.run_bytes() + 4 * u64::from(rows) }
    }

    /// The tables' bytes.
    pub fn part_table(&self, table: &RunTable) -> Vec<u8> {
        let mut runs = table.runs.clone();
        runs.resize(self.max_parts() as usize, Run::default());
        let mut bytes = bytemuck::cast_slice(&runs).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(&table.row_parts));
        bytes
    }

    /// Device bytes of inputs and results.
    pub fn step_bytes(&self) -> u64 {
        self.row_bytes() + self.part_bytes(self.rows) + 4096
    }
}

/// The parts of a step: [`Run`] by part, then the part of each row.
pub struct PartTables {
    /// All of it; what steps begin with a copy of.
    pub all: Slice,
    runs: Slice,
    row_parts: Slice,
}

impl PartTables {
    /// As a step of `rows` rows has them.
    pub fn of(&self, e: &Extents, rows: u32) -> Parts<'_> {
        Parts { runs: &self.runs, row_parts: &self.row_parts, count: e.max_parts().min(rows) }
    }
}

/// What a step reads from the host.
pub struct Input {
    pub rows: Slice,
    pub pages: Slice,
    pub parts: Slice,
}

/// The slices.
pub struct Buffers {
    /// Keys and values of each cache.
    pub kv: Vec<(Slice, Slice)>,
    /// Recurrent states, `state_slots` of each.
    pub states: Vec<Slice>,
    /// Rotary tables, (cos, sin) by position and pair.
    pub ropes: Vec<Slice>,
    /// Activations.
    pub scratch: Slice,
    /// The kernels' own scratch but attention's.
    pub work: Slice,
    /// Attention's: counters that are 0 between dispatches, then memory that it shares with `work`.
    pub attention: Slice,
    /// `RowInfo` of a step's rows, the last row at the end.
    pub rows: Slice,
    /// Page numbers by sequence and page.
    pub pages: Slice,
    /// Tokens that the GPU chose.
    pub chosen: Slice,
    /// The parts of a step, for recurrent kernels.
    pub parts: PartTables,
    /// Host side: copies of `rows`, `pages` and `parts` that steps begin with.
    pub inputs: Vec<Input>,
    /// Host side: greedy tokens.
    pub ring: Slice,
    /// Host side: greedy steps done.
    pub steps: Slice,
    /// Host side: candidates of each row of logits.
    pub candidates: Slice,
    /// Host side: rows of logits.
    pub logits: Slice,
}

impl Buffers {
    /// Allocates and fills them: tables are computed, counters are zero, the rest is undefined.
    pub fn new(device: &Device, plan: &Plan, e: &Extents) -> Result<Buffers, Error> {
        let max = device.max_buffer();
        let mut arena = ArenaPlan::new("caches and scratch", max);
        let page_count = u64::from(e.pages()) + 1;
        let mut place = |bytes: u64| arena.add(bytes, 256);
        let mut kv = Vec::new();
        for spec in &plan.kv {
            let (k, v) = page_bytes(spec, e.kv_type);
            kv.push((place(k * page_count)?, place(v * page_count)?));
        }
        let states = plan.states.iter().map(|s| place(s.elements() as u64 * 4 * u64::from(e.state_slots)));
        let states: Vec<_> = states.collect::<Result<_, _>>()?;
        let ropes: Vec<_> =
            plan.ropes.iter().map(|r| place(rope_bytes(r, e.context))).collect::<Result<_, _>>()?;
        let part_bytes = e.part_bytes(e.rows);
        let fixed =
            [e.scratch, e.work, e.row_bytes(), e.table_bytes(), 4 * u64::from(e.rows), part_bytes.max(4)];
        let fixed: Vec<_> = fixed.into_iter().map(&mut place).collect::<Result<_, _>>()?;
        let arena = Arena::new(device, MemoryKind::Device, &arena)?;

        let mut host = ArenaPlan::new("inputs", max);
        let inputs: Vec<_> = (0..INPUT_SLOTS)
            .map(|_| {
                let sizes = [e.row_bytes(), e.table_bytes(), part_bytes.max(4)];
                sizes.into_iter().map(|bytes| host.add(bytes, 256)).collect::<Result<Vec<_>, _>>()
            })
            .collect::<Result<_, zinc_vulkan::Error>>()?;
        let host = Arena::new(device, MemoryKind::Upload, &host)?;
        let mut back = ArenaPlan::new("results", max);
        let row = u64::from(e.vocab) * 4;
        let rows = u64::from(e.logit_rows);
        let results = [u64::from(RING) * 4, 4, rows * u64::from(row_words(CANDIDATES)) * 4, rows * row];
        let results: Vec<_> = results.into_iter().map(|b| back.add(b, 256)).collect::<Result<_, _>>()?;
        let back = Arena::new(device, MemoryKind::Readback, &back)?;

        let kv = kv.into_iter().map(|(k, v)| Ok((arena.slice(k)?, arena.slice(v)?)));
        let inputs = inputs.into_iter().map(|places| {
            let [rows, pages, parts] = [0, 1, 2].map(|i| host.slice(places[i]));
            Ok(Input { rows: rows?, pages: pages?, parts: parts? })
        });
        let work = arena.slice(fixed[1])?;
        let tables = arena.slice(fixed[5])?;
        let runs = e.run_bytes().min(tables.len());
        let parts = PartTables {
            runs: tables.slice(0, runs)?,
            row_parts: tables.slice(runs, tables.len() - runs)?,
            all: tables,
        };
        let buffers = Buffers {
            kv: kv.collect::<Result<_, zinc_vulkan::Error>>()?,
            states: states.into_iter().map(|p| arena.slice(p)).collect::<Result<_, _>>()?,
            ropes: ropes.into_iter().map(|p| arena.slice(p)).collect::<Result<_, _>>()?,
            scratch: arena.slice(fixed[0])?,
            work: work.slice(COUNTER_BYTES, work.len() - COUNTER_BYTES)?,
            attention: work,
            rows: arena.slice(fixed[2])?,
            pages: arena.slice(fixed[3])?,
            chosen: arena.slice(fixed[4])?,
            parts,
            inputs: inputs.collect::<Result<_, zinc_vulkan::Error>>()?,
            ring: back.slice(results[0])?,
            steps: back.slice(results[1])?,
            candidates: back.slice(results[2])?,
            logits: back.slice(results[3])?,
        };
        buffers.fill(device, plan, e)?;
        Ok(buffers)
    }

    fn fill(&self, device: &Device, plan: &Plan, e: &Extents) -> Result<(), Error> {
        let mut ring = StagingRing::new(device, 16 << 20)?;
        for (table, slice) in plan.ropes.iter().zip(&self.ropes) {
            upload_rope(&mut ring, table, slice, e.context)?;
        }
        ring.upload(&self.attention.slice(0, COUNTER_BYTES)?, &vec![0; COUNTER_BYTES as usize])?;
        ring.flush()?;
        self.steps.write(0, &0u32.to_le_bytes())?;
        self.ring.write(0, &[0xff; 4 * RING as usize])?;
        Ok(())
    }
}

/// Computes the table a few thousand positions at a time.
fn upload_rope(ring: &mut StagingRing, table: &RopeTable, to: &Slice, context: u32) -> Result<(), Error> {
    const POSITIONS: u32 = 4096;
    let row = table.inverse_frequencies.len() as u64 * 8;
    for first in (0..context).step_by(POSITIONS as usize) {
        let end = context.min(first + POSITIONS);
        let values: Vec<[f32; 2]> =
            (first..end).flat_map(|p| table.cos_sin(p)).map(|(c, s)| [c, s]).collect();
        let part = to.slice(u64::from(first) * row, u64::from(end - first) * row)?;
        ring.upload(&part, bytemuck::cast_slice(&values))?;
    }
    Ok(())
}
