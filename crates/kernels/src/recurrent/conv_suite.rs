//! The convolution against its oracle, with and without norms, and in steps.

use super::suite::{STEPS, Split, Table, before, in_steps, largest, put, same};
use super::{conv, reference};
use crate::norm::l2_norm;
use crate::suite::{Failure, Host, Placed, Suite};
use zinc_testkit::{shape_classes, tolerance::ACTIVATION_REL};

pub(super) fn cases(suite: &mut Suite<'_>, several: &Split) {
    for (channels, taps) in [(1, 4), (127, 4), (128, 1), (129, 2), (384, 5)] {
        suite.case(format!("conv {channels} x {taps}, parts"), |s| convolution(s, channels, taps, several));
    }
    for rows in shape_classes(4) {
        let one = Split { filler: rows % 3, parts: vec![(rows - 1, 1)] };
        suite.case(format!("conv 70 x 4, {rows} rows"), |s| convolution(s, 70, 4, &one));
    }
    for head_size in [4, 64, 128, 260] {
        suite.case(format!("conv with norms of heads of {head_size}"), |s| normed(s, head_size, several));
    }
    suite.case("conv in steps", |s| convolution_in_steps(s));
}

fn convolution(s: &Suite<'_>, channels: usize, taps: usize, split: &Split) -> Result<(), Failure> {
    let mut rng = s.rng();
    let table = Table::new(s, split)?;
    let x = Host::random(&mut rng, table.rows(), channels, 1.0);
    let weight = rng.normals(channels * taps, 0.5);
    let mut states = rng.normals(table.slots * (taps - 1) * channels, 1.0);
    let (weight_on, state_on) = (s.values(&weight)?, s.values(&states)?);
    let (x_on, out) = (s.upload(&x)?, s.output(table.rows(), channels)?);
    let args = conv::Args {
        x: x_on.mat(),
        weight: &weight_on,
        taps: taps as u32,
        state: &state_on,
        parts: table.parts(),
        norms: None,
        out: out.mat(),
        rows: table.rows() as u32,
    };
    s.run(|rec| conv::record(s.kernels(), rec, "conv", &args))?;
    let mut want = Host { width: channels, data: vec![0.0; table.rows() * channels] };
    let old = states.clone();
    for (run, rows) in table.each() {
        let mut state = before(&old, table.slots, run.from);
        let inputs: Vec<&[f32]> = rows.iter().map(|&r| &x.data[r * channels..][..channels]).collect();
        let outputs = reference::conv(&inputs, &weight, taps, &mut state);
        for (row, values) in rows.iter().zip(outputs) {
            want.data[row * channels..][..channels].copy_from_slice(&values);
        }
        put(&mut states, table.slots, run.to, &state);
    }
    let size = largest(&weight) * largest(&x.data).max(largest(&states)) * taps as f32;
    s.compare(&out, &want, |_, _, _| ACTIVATION_REL * size)?;
    same(&s.read_values(&state_on)?[..states.len()], &states, "state")
}

/// Heads normed by the convolution have the bits that they have when normed after it.
fn normed(s: &Suite<'_>, head_size: usize, split: &Split) -> Result<(), Failure> {
    let mut rng = s.rng();
    let table = Table::new(s, split)?;
    let (taps, heads, values, rows) = (4, 3 * head_size, 2 * head_size + 12, table.rows());
    let channels = 2 * heads + values;
    let x = s.upload(&Host::random(&mut rng, rows, channels, 1.0))?;
    let weight = s.values(&rng.normals(channels * taps, 0.5))?;
    let states = rng.normals(table.slots * (taps - 1) * channels, 1.0);
    let (q, k, out) = (s.output(rows, heads)?, s.output(rows, heads)?, s.output(rows, values)?);
    let (eps, q_scale, k_scale) = (1e-6, 0.25, 1.0);
    let norms =
        conv::HeadNorms { q: q.mat(), k: k.mat(), head_size: head_size as u32, eps, q_scale, k_scale };
    let run = |norms, out: &Placed| {
        let state = s.values(&states)?;
        let args = conv::Args {
            x: x.mat(),
            weight: &weight,
            taps: taps as u32,
            state: &state,
            parts: table.parts(),
            norms,
            out: out.mat(),
            rows: rows as u32,
        };
        s.run(|rec| conv::record(s.kernels(), rec, "conv", &args))?;
        s.read_values::<f32>(&state)
    };
    let mixed = s.output(rows, channels)?;
    same(&run(Some(norms), &out)?, &run(None, &mixed)?, "state")?;
    for (first, scale, got) in [(0, q_scale, &q), (heads, k_scale, &k)] {
        let apart = s.output(rows, heads)?;
        let mut heads_of = mixed.mat();
        (heads_of.offset, heads_of.width) = (heads_of.offset + first as u32, heads as u32);
        let group = head_size as u32;
        let args = l2_norm::Args { x: heads_of, group, eps, scale, out: apart.mat(), rows: rows as u32 };
        s.run(|rec| l2_norm::record(s.kernels(), rec, "l2_norm", &args))?;
        same(&s.read(got)?.data, &s.read(&apart)?.data, "norm")?;
    }
    let (values_of, mixed) = (s.read(&out)?, s.read(&mixed)?);
    let want: Vec<f32> = mixed.rows().flat_map(|row| row[2 * heads..].to_vec()).collect();
    same(&values_of.data, &want, "values")
}

fn convolution_in_steps(s: &Suite<'_>) -> Result<(), Failure> {
    let mut rng = s.rng();
    let (channels, taps, all) = (65, 4, STEPS.iter().sum::<usize>());
    let x = Host::random(&mut rng, all, channels, 1.0);
    let weight = s.values(&rng.normals(channels * taps, 0.5))?;
    in_steps(s, (taps - 1) * channels, |first, rows, table, state| {
        let data = x.data[first * channels..][..rows * channels].to_vec();
        let (x_on, out) = (s.upload(&Host { width: channels, data })?, s.output(rows, channels)?);
        let (x, parts) = (x_on.mat(), table.parts());
        let (taps, rows) = (taps as u32, rows as u32);
        let args = conv::Args { x, weight: &weight, taps, state, parts, norms: None, out: out.mat(), rows };
        s.run(|rec| conv::record(s.kernels(), rec, "conv", &args))?;
        Ok(s.read(&out)?.data)
    })
}
