//! The recurrent operations against their oracles: parts of one and many rows in one step, states from and to any slot, rows that only fill
//! up the step; and one step against many, bit for bit.

use super::delta_net::{Gates, Norm, Shape};
use super::{NO_STATE, PartRows, Parts, Run, RunTable, chunked, conv_suite, delta_net, reference};
use crate::norm::gated_rms_norm;
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite, compare};
use crate::{Error, Kernels, Mat};
use zinc_testkit::{Rng, shape_classes, tolerance::RECURRENT_REL};
use zinc_vulkan::{Recorder, Slice};

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "recurrent");
    let several = Split { filler: 3, parts: vec![(1, 0), (5, 1), (0, 4), (2, 0), (17, 1)] };
    conv_suite::cases(&mut suite, &several);

    let head = |heads, key_heads, key_size, value_size, grouped| Shape {
        heads,
        key_heads,
        key_size,
        value_size,
        grouped,
    };
    let qwen = head(4, 2, 128, 128, false);
    let shapes = [
        qwen,
        Shape { grouped: true, ..qwen },
        head(1, 1, 4, 1, false),
        head(3, 3, 12, 5, true),
        head(6, 3, 64, 33, true),
        head(2, 1, 256, 31, false),
    ];
    for shape in &shapes {
        for layout in [Layout::Columns, Layout::Unaligned] {
            suite.case(format!("delta_net {shape:?}, parts, {layout:?}"), |s| {
                scan(s, shape, &several, layout)
            });
        }
    }
    // Around the rows whose gates are computed at a time.
    for rows in shape_classes(kernels.subgroup_size() as usize) {
        let one = Split { filler: rows % 2, parts: vec![(rows - 1, 1)] };
        let shape = head(2, 1, 64, 16, false);
        suite.case(format!("delta_net {rows} rows"), |s| scan(s, &shape, &one, Layout::Columns));
    }
    for shape in [qwen, Shape { grouped: true, ..qwen }, head(2, 1, 8, 4, false), head(3, 1, 64, 36, false)] {
        for layout in [Layout::Columns, Layout::Unaligned] {
            suite
                .case(format!("delta_net {shape:?}, normed, {layout:?}"), |s| normed_scan(s, &shape, layout));
        }
    }
    chunks(&mut suite, &qwen);
    suite.case("delta_net in steps", |s| scan_in_steps(s, &qwen));
    suite.case("delta_net of extreme gates", |s| extremes(s));
    suite.finish()
}

/// Parts in chunks: around a chunk, several at once, short ones beside them.
fn chunks(suite: &mut Suite<'_>, qwen: &Shape) {
    let chunk = chunked::CHUNK as usize;
    let small = Shape { heads: 2, key_heads: 1, key_size: 32, value_size: 64, grouped: false };
    for rows in shape_classes(chunk) {
        let one = Split { filler: rows % 2, parts: vec![(rows - 1, 1)] };
        suite.case(format!("delta_net {rows} rows in chunks"), |s| {
            in_chunks(s, &small, &one, Layout::Columns, 0)
        });
    }
    let several =
        Split { filler: 3, parts: vec![(1, 0), (70, 1), (0, 130), (2, 0), (63, 1), (20, 9), (128, 3)] };
    let narrow = Shape { key_size: 96, value_size: 32, ..small };
    for (shape, layout, most) in [
        (*qwen, Layout::Columns, 0),
        (Shape { grouped: true, ..*qwen }, Layout::Unaligned, 63),
        (narrow, Layout::Unaligned, 0),
    ] {
        suite.case(format!("delta_net {shape:?}, parts above {most} in chunks, {layout:?}"), |s| {
            in_chunks(s, &shape, &several, layout, most)
        });
    }
}

/// Rows of a step: rows of nobody, then those of the parts (without and with logits).
pub(super) struct Split {
    pub filler: usize,
    pub parts: Vec<(usize, usize)>,
}

/// A step's table, on the host and on the device.
pub(super) struct Table {
    host: RunTable,
    runs: Slice,
    row_parts: Slice,
    pub slots: usize,
}

impl Table {
    /// The parts begin with no state, in the slot that they end in, and in another one's slot, in turn.
    pub fn new(s: &Suite<'_>, split: &Split) -> Result<Table, Failure> {
        let part = |(i, &(plain, with_logits)): (usize, &(usize, usize))| {
            let (to, other) = (2 * i as u32 + 1, 2 * i as u32);
            let from = [other, NO_STATE, to][i % 3];
            PartRows { from, to, plain: plain as u32, with_logits: with_logits as u32 }
        };
        let parts: Vec<PartRows> = split.parts.iter().enumerate().map(part).collect();
        Table::of(s, split.filler as u32, &parts, 2 * split.parts.len())
    }

    pub fn of(s: &Suite<'_>, filler: u32, parts: &[PartRows], slots: usize) -> Result<Table, Failure> {
        let mut host = RunTable::new(filler, parts);
        host.runs.push(Run::default()); // an entry that is not used
        Ok(Table { runs: s.values(&host.runs)?, row_parts: s.values(&host.row_parts)?, host, slots })
    }

    pub fn parts(&self) -> Parts<'_> {
        Parts { runs: &self.runs, row_parts: &self.row_parts, count: self.host.runs.len() as u32 }
    }

    pub fn rows(&self) -> usize {
        self.host.row_parts.len()
    }

    /// For each part with a state: where it is, and its rows.
    pub fn each(&self) -> impl Iterator<Item = (Run, Vec<usize>)> {
        let used = self.host.runs.iter().filter(|r| r.total > 0 && r.to != NO_STATE);
        used.map(|&r| (r, (0..r.total).map(|t| r.row(t) as usize).collect()))
    }
}

/// The part of a slot in all slots' states.
fn slot_of(states: &[f32], slots: usize, slot: u32) -> &[f32] {
    let n = states.len() / slots;
    &states[slot as usize * n..][..n]
}

pub(super) fn before(states: &[f32], slots: usize, from: u32) -> Vec<f32> {
    match from {
        NO_STATE => vec![0.0; states.len() / slots],
        from => slot_of(states, slots, from).to_vec(),
    }
}

pub(super) fn put(states: &mut [f32], slots: usize, to: u32, state: &[f32]) {
    let n = states.len() / slots;
    states[to as usize * n..][..n].copy_from_slice(state);
}

pub(super) fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |m, v| m.max(v.abs()))
}

/// Whether bits are the same.
pub(super) fn same(got: &[f32], want: &[f32], what: &str) -> Result<(), Failure> {
    match got.iter().zip(want).position(|(a, b)| a.to_bits() != b.to_bits()) {
        Some(i) => Err(format!("element {i} of the {what} is {:e} for {:e}", got[i], want[i]).into()),
        None => Ok(()),
    }
}

/// Sizes of steps that cut a text in every way around the taps.
pub(super) const STEPS: [usize; 8] = [1, 1, 1, 2, 3, 4, 17, 8];

/// The rows of a text in one step and in [`STEPS`] give the same bits, as results and as the state of `state` elements that is left. `run` takes the first
/// row, the table of a part of so many rows, and the states, of which a part leaves number 1.
pub(super) fn in_steps(
    s: &Suite<'_>,
    state: usize,
    run: impl Fn(usize, usize, &Table, &Slice) -> Result<Vec<f32>, Failure>,
) -> Result<(), Failure> {
    let step = |first: usize, rows: usize, from: u32, states: &Slice| {
        let part = PartRows { from, to: 1, plain: rows as u32 - 1, with_logits: 1 };
        run(first, rows, &Table::of(s, 0, &[part], 2)?, states)
    };
    let states = [s.values(&vec![f32::NAN; 2 * state])?, s.values(&vec![f32::NAN; 2 * state])?];
    let at_once = step(0, STEPS.iter().sum(), NO_STATE, &states[0])?;
    let (mut stepped, mut first) = (vec![], 0);
    for rows in STEPS {
        stepped.extend(step(first, rows, if first == 0 { NO_STATE } else { 1 }, &states[1])?);
        first += rows;
    }
    same(&stepped, &at_once, "output")?;
    let [a, b] = [&states[0], &states[1]].map(|st| s.read_values::<f32>(st));
    same(&b?[state..], &a?[state..], "state")
}

/// What a delta net reads, on the host.
struct Inputs {
    q: Host,
    k: Host,
    v: Host,
    alpha: Host,
    beta: Host,
    dt_bias: Vec<f32>,
    a: Vec<f32>,
}

impl Inputs {
    fn random(rng: &mut Rng, shape: &Shape, rows: usize) -> Inputs {
        let [heads, key_heads, keys, values] =
            [shape.heads, shape.key_heads, shape.key_size, shape.value_size].map(|n| n as usize);
        let unit = 1.0 / (keys as f32).sqrt();
        Inputs {
            q: Host::random(rng, rows, key_heads * keys, unit * unit),
            k: Host::random(rng, rows, key_heads * keys, unit),
            v: Host::random(rng, rows, heads * values, 1.0),
            alpha: Host::random(rng, rows, heads, 2.0),
            beta: Host::random(rng, rows, heads, 2.0),
            dt_bias: rng.normals(heads, 1.0),
            a: rng.normals(heads, 1.0).into_iter().map(|a| -a.exp()).collect(),
        }
    }

    fn rows(&self, first: usize, rows: usize) -> Inputs {
        let cut =
            |h: &Host| Host { width: h.width, data: h.data[first * h.width..][..rows * h.width].to_vec() };
        Inputs {
            q: cut(&self.q),
            k: cut(&self.k),
            v: cut(&self.v),
            alpha: cut(&self.alpha),
            beta: cut(&self.beta),
            dt_bias: self.dt_bias.clone(),
            a: self.a.clone(),
        }
    }

    /// A row, for the oracle.
    fn row(&self, i: usize) -> reference::Inputs<'_> {
        let of = |h: &'_ Host| i * h.width..(i + 1) * h.width;
        reference::Inputs {
            q: &self.q.data[of(&self.q)],
            k: &self.k.data[of(&self.k)],
            v: &self.v.data[of(&self.v)],
            alpha: &self.alpha.data[of(&self.alpha)],
            beta: &self.beta.data[of(&self.beta)],
        }
    }

    /// Runs the kernel.
    fn run(
        &self,
        s: &Suite<'_>,
        shape: &Shape,
        table: &Table,
        state: &Slice,
        layout: Layout,
        norm: Option<Norm<Mat<'_>, &Slice>>,
    ) -> Result<Placed, Failure> {
        let record = |rec: &mut Recorder, args: &delta_net::Args<'_>| {
            delta_net::record(s.kernels(), rec, "delta_net", args)
        };
        self.run_by(s, shape, table, state, layout, norm, &record)
    }

    /// Runs what `record` records.
    #[allow(clippy::too_many_arguments)] // the case, and what is tried
    fn run_by(
        &self,
        s: &Suite<'_>,
        shape: &Shape,
        table: &Table,
        state: &Slice,
        layout: Layout,
        norm: Option<Norm<Mat<'_>, &Slice>>,
        record: &dyn Fn(&mut Recorder, &delta_net::Args<'_>) -> Result<(), Error>,
    ) -> Result<Placed, Failure> {
        let on = |h: &Host| s.upload_as(h, layout);
        let (q, k, v, alpha, beta) =
            (on(&self.q)?, on(&self.k)?, on(&self.v)?, on(&self.alpha)?, on(&self.beta)?);
        let out = s.output_as(table.rows(), self.v.width, layout)?;
        let (dt_bias, a) = (s.values(&self.dt_bias)?, s.values(&self.a)?);
        let (heads, part) = (shape.heads as usize, (shape.heads / shape.key_heads) as usize);
        let pairs = self.beta.data.chunks(heads).zip(self.alpha.data.chunks(heads));
        let turns = pairs.flat_map(|(b, a)| b.chunks(part).zip(a.chunks(part)));
        let data = turns.flat_map(|(b, a)| [b, a].concat()).collect();
        let both = on(&Host { width: 2 * heads, data })?;
        let gates = match shape.grouped {
            true => Gates::Mixed { both: both.mat(), part: part as u32 },
            false => Gates::Apart { alpha: alpha.mat(), beta: beta.mat() },
        };
        let args = delta_net::Args {
            q: q.mat(),
            k: k.mat(),
            v: v.mat(),
            gates,
            dt_bias: &dt_bias,
            a: &a,
            shape: *shape,
            state,
            parts: table.parts(),
            norm,
            out: out.mat(),
            rows: table.rows() as u32,
        };
        s.run(|rec| record(rec, &args))?;
        Ok(out)
    }
}

fn state_len(shape: &Shape) -> usize {
    (shape.heads * shape.value_size * shape.key_size) as usize
}

fn scan(s: &Suite<'_>, shape: &Shape, split: &Split, layout: Layout) -> Result<(), Failure> {
    against_reference(s, shape, split, &|inputs, table, state| {
        inputs.run(s, shape, table, state, layout, None)
    })
}

/// The parts of more than `most` rows in chunks, however the kernels are cut, with the memory that they need and no more; the others, row by row, where there are any.
fn in_chunks(s: &Suite<'_>, shape: &Shape, split: &Split, layout: Layout, most: u32) -> Result<(), Failure> {
    for cut in chunked::Cut::all(s.kernels(), shape) {
        against_reference(s, shape, split, &|inputs, table, state| {
            let bytes =
                chunked::bytes(shape, chunked::chunks(table.parts().count, most, table.rows() as u32));
            let work = s.bytes(&vec![0xff; bytes as usize])?;
            let record = |rec: &mut Recorder, args: &delta_net::Args<'_>| {
                chunked::record_above(s.kernels(), rec, "delta_net", args, &work, most, cut)
            };
            inputs.run_by(s, shape, table, state, layout, None, &record)
        })?;
    }
    Ok(())
}

/// What a kernel gives for inputs, a step's table and states.
type Kernel<'a> = dyn Fn(&Inputs, &Table, &Slice) -> Result<Placed, Failure> + 'a;

fn against_reference(s: &Suite<'_>, shape: &Shape, split: &Split, run: &Kernel<'_>) -> Result<(), Failure> {
    let mut rng = s.rng();
    let table = Table::new(s, split)?;
    let inputs = Inputs::random(&mut rng, shape, table.rows());
    let mut states = rng.normals(table.slots * state_len(shape), 1.0);
    let state_on = s.values(&states)?;
    let out = run(&inputs, &table, &state_on)?;

    let (old, width) = (states.clone(), inputs.v.width);
    let mut want = Host { width, data: vec![0.0; table.rows() * width] };
    for (run, rows) in table.each() {
        let mut state: Vec<f64> = before(&old, table.slots, run.from).iter().map(|&v| f64::from(v)).collect();
        let all: Vec<_> = rows.iter().map(|&r| inputs.row(r)).collect();
        let outputs = reference::delta_net(&all, &inputs.dt_bias, &inputs.a, shape, &mut state);
        for (row, values) in rows.iter().zip(outputs) {
            want.data[row * width..][..width].copy_from_slice(&values);
        }
        let state: Vec<f32> = state.iter().map(|&v| v as f32).collect();
        put(&mut states, table.slots, run.to, &state);
    }
    let largest_out = largest(&want.data);
    s.compare(&out, &want, |_, _, _| RECURRENT_REL * largest_out)?;
    let got: Vec<f32> = s.read_values(&state_on)?;
    let largest_state = largest(&states);
    let host = |data: &[f32]| Host { width: state_len(shape), data: data.to_vec() };
    let written: Vec<u32> = table.each().map(|(run, _)| run.to).collect();
    // Slots that no part ends in keep their bits.
    compare(&host(&got[..states.len()]), &host(&states), |_, slot, _| {
        if written.contains(&(slot as u32)) { RECURRENT_REL * largest_state } else { 0.0 }
    })
}

fn scan_in_steps(s: &Suite<'_>, shape: &Shape) -> Result<(), Failure> {
    let mut rng = s.rng();
    let all = STEPS.iter().sum::<usize>();
    let inputs = Inputs::random(&mut rng, shape, all);
    in_steps(s, state_len(shape), |first, rows, table, state| {
        let out = inputs.rows(first, rows).run(s, shape, table, state, Layout::Columns, None)?;
        Ok(s.read(&out)?.data)
    })
}

/// Bit for bit the scan of single rows and the norm that it is fused with; twice, so that counters are zero again. One row is nobody's.
fn normed_scan(s: &Suite<'_>, shape: &Shape, layout: Layout) -> Result<(), Failure> {
    let mut rng = s.rng();
    let part = |from, to| PartRows { from, to, plain: 0, with_logits: 1 };
    let table = Table::of(s, 1, &[part(NO_STATE, 2), part(0, 1)], 3)?;
    let inputs = Inputs::random(&mut rng, shape, table.rows());
    let states = rng.normals(table.slots * state_len(shape), 1.0);
    let width = inputs.v.width;
    let gate = s.upload_as(&Host::random(&mut rng, table.rows(), width, 2.0), layout)?;
    let weight = s.values(&rng.normals(shape.value_size as usize, 1.0))?;
    let [apart_state, state] = [s.values(&states)?, s.values(&states)?];
    let apart = inputs.run(s, shape, &table, &apart_state, layout, None)?;
    let want = s.output_as(table.rows(), width, layout)?;
    let (group, eps, rows) = (shape.value_size, 1e-6, table.rows() as u32);
    s.run(|rec| {
        let (weight, packed) = (Some(&weight), None);
        let (x, gate, out) = (apart.mat(), gate.mat(), want.mat());
        let args = gated_rms_norm::Args { x, weight, group, eps, gate, out, packed, rows };
        gated_rms_norm::record(s.kernels(), rec, "apart", &args)
    })?;
    for _ in 0..2 {
        s.kernels()
            .device()
            .upload(&state.slice(0, 4 * states.len() as u64)?, bytemuck::cast_slice(&states))?;
        let normed = s.output_as(table.rows(), width, layout)?;
        let norm = Norm { weight: &weight, eps, gate: gate.mat(), out: normed.mat() };
        let out = inputs.run(s, shape, &table, &state, layout, Some(norm))?;
        same(&s.read(&out)?.data, &s.read(&apart)?.data, "output")?;
        same(&s.read(&normed)?.data, &s.read(&want)?.data, "norm")?;
        same(&s.read_values(&state)?, &s.read_values(&apart_state)?, "state")?;
    }
    Ok(())
}

/// Gates that are open or closed altogether, whose exponentials would overflow.
fn extremes(s: &Suite<'_>) -> Result<(), Failure> {
    let mut rng = s.rng();
    let shape = Shape { heads: 1, key_heads: 1, key_size: 8, value_size: 3, grouped: false };
    let gates = [-1e30, -1000.0, -100.0, -20.0, 0.0, 20.0, 100.0, 1000.0, 1e30];
    let table = Table::of(s, 0, &[PartRows { from: 0, to: 0, plain: 9, with_logits: 0 }], 1)?;
    let mut inputs = Inputs::random(&mut rng, &shape, gates.len());
    inputs.alpha.data = gates.to_vec();
    inputs.beta.data = gates.iter().rev().copied().collect();
    let state = s.values(&rng.normals(state_len(&shape), 1.0))?;
    let out = s.read(&inputs.run(s, &shape, &table, &state, Layout::Columns, None)?)?;
    match out.data.iter().all(|v| v.is_finite() && v.abs() < 100.0) {
        true => Ok(()),
        false => Err(format!("{:?}", out.data).into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
