//! Measuring the scan of a delta net over the rows of one sequence.

use super::delta_net::{Args, Cut, Gates, Shape, record_cut};
use super::{PartRows, Parts, RunTable, chunked};
use crate::rounds::{Round, fill, rounds};
use crate::{Error, Kernels, Mat};
use std::time::Duration;
use zinc_vulkan::{MemoryKind, RecorderOptions};

/// How rows are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One after the other, states shared out so.
    Rows(Cut),
    /// In chunks, the kernels cut so.
    Chunks(chunked::Cut),
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchShape {
    /// Heads and their sizes.
    pub shape: Shape,
    /// Rows of one sequence.
    pub rows: u32,
    /// How they are done; one after the other as usual where `None`.
    pub form: Option<Form>,
    /// Measurements.
    pub repeats: u32,
}

/// Times of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchTiming {
    /// How rows were done.
    pub form: Form,
    /// Bytes of states read and written: each once, whatever the rows.
    pub state_bytes: u64,
    /// Bytes of rows read and written at least: queries, keys, values, gates, results.
    pub row_bytes: u64,
    /// Of the median: microseconds of each dispatch, where the device has timestamps.
    pub dispatches: Vec<f64>,
    /// Median time, in microseconds.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
}

/// Clocks rise for a while after a pause: work for that long does not count.
const WARM_UP: Duration = Duration::from_millis(100);

/// Times the scan of a layer over the rows of one sequence, from the states of a slot to the same.
///
/// # Errors
/// [`crate::Unsupported`] for a shape without kernel, else what the device says.
pub fn bench(kernels: &Kernels, bench: &BenchShape) -> Result<BenchTiming, Error> {
    let &BenchShape { shape, rows, .. } = bench;
    let device = kernels.device();
    let form = match bench.form {
        Some(form) => form,
        None => Form::Rows(Cut::of(kernels, &shape)?),
    };
    let (keys, values) = (shape.key_heads * shape.key_size, shape.heads * shape.value_size);
    let floats = |n: u64, label| Ok::<_, Error>(device.alloc(MemoryKind::Device, 4 * n.max(4), label)?.all());
    let columns = |width: u32, label| floats(u64::from(rows) * u64::from(width), label);
    let (q, k, v) = (columns(keys, "bench q")?, columns(keys, "bench k")?, columns(values, "bench v")?);
    let (alpha, beta) = (columns(shape.heads, "bench alpha")?, columns(shape.heads, "bench beta")?);
    let out = columns(values, "bench out")?;
    let (dt_bias, a) = (floats(shape.heads.into(), "bench dt")?, floats(shape.heads.into(), "bench a")?);
    let states = u64::from(values) * u64::from(shape.key_size);
    let state = floats(states, "bench states")?;
    let part = PartRows { from: 0, to: 0, plain: rows - 1, with_logits: 1 };
    let table = RunTable::new(0, &[part]);
    let runs = device.alloc(MemoryKind::Device, super::Run::BYTES, "bench parts")?.all();
    let row_parts = columns(1, "bench parts of rows")?;
    device.upload(&runs, bytemuck::cast_slice(&table.runs))?;
    device.upload(&row_parts.slice(0, 4 * u64::from(rows))?, bytemuck::cast_slice(&table.row_parts))?;
    fill(device, [&q, &k, &v, &alpha, &beta, &dt_bias, &state])?;
    // Decays below one: states stay small.
    device.upload(
        &a.slice(0, 4 * u64::from(shape.heads))?,
        bytemuck::cast_slice(&vec![-1.0f32; shape.heads as usize]),
    )?;

    let args = Args {
        q: Mat::dense(&q, keys),
        k: Mat::dense(&k, keys),
        v: Mat::dense(&v, values),
        gates: Gates::Apart { alpha: Mat::dense(&alpha, shape.heads), beta: Mat::dense(&beta, shape.heads) },
        dt_bias: &dt_bias,
        a: &a,
        shape,
        state: &state,
        parts: Parts { runs: &runs, row_parts: &row_parts, count: 1 },
        norm: None,
        out: Mat::dense(&out, values),
        rows,
    };
    let options = RecorderOptions { label: "bench scan".into(), timestamps: true, ..Default::default() };
    let mut rec = device.recorder(&options)?;
    match form {
        Form::Rows(cut) => record_cut(kernels, &mut rec, "scan", &args, cut, u32::MAX)?,
        Form::Chunks(cut) => {
            let bytes = chunked::work_bytes(kernels.policy(), &shape, rows);
            let work = device.alloc(MemoryKind::Device, bytes, "bench chunks")?.all();
            chunked::record_above(kernels, &mut rec, "scan", &args, &work, 0, cut)?;
        }
    }
    let commands = rec.finish()?;

    let time = |r: &Round| if r.dispatches.is_empty() { r.wall } else { r.dispatches.iter().sum() };
    let mut measured = rounds(device, &commands, WARM_UP, bench.repeats)?;
    measured.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let dispatches = measured[measured.len() / 2].dispatches.clone();
    let mut times: Vec<f64> = measured.iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    let row = u64::from(2 * keys) + u64::from(2 * values) + u64::from(2 * shape.heads);
    Ok(BenchTiming {
        form,
        dispatches,
        state_bytes: 2 * 4 * states,
        row_bytes: 4 * u64::from(rows) * row,
        median_us: times[times.len() / 2],
        shortest_us: times[0],
    })
}
