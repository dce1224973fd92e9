//! Choosing tokens against the oracles: widths around a part, ties, NaN and infinities, several rows.

use super::adjust::{self, Entry, Penalties, entry_bytes};
use super::top_k::{self, TopK, row_words};
use super::{advance, argmax, reference};
use crate::suite::{CaseResult, Failure, Host, Suite};
use crate::{Kernels, RowInfo};
use zinc_testkit::{Rng, shape_classes, tolerance::LOG_SUM_EXP};

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "sample");
    let mut widths = shape_classes(64);
    widths.extend([2047, 2048, 2049, 8191, 8192, 8193, 49_157]);
    for width in widths {
        for kind in Values::ALL {
            suite.case(format!("argmax 3 x {width} {kind:?}"), |s| greatest(s, 3, width, kind));
        }
    }
    suite.case("argmax 1 x 262401", |s| greatest(s, 1, 262_401, Values::Normal));
    for width in [1, 5, 63, 64, 65, 1023, 1024, 1025, 2053, 20_011] {
        for k in [1, 7, 64] {
            for kind in Values::ALL {
                suite.case(format!("top_k {k} of 2 x {width} {kind:?}"), |s| best(s, 2, width, k, kind));
            }
        }
    }
    suite.case("top_k 256 of 3001", |s| best(s, 1, 3001, 256, Values::Ties));
    suite.case("top_k 40 of 151936", |s| best(s, 1, 151_936, 40, Values::Normal));
    for entries in shape_classes(64).into_iter().chain([0]) {
        suite.case(format!("adjust {entries} tokens"), |s| adjusted(s, entries));
    }
    for rows in [1, 3, 70] {
        suite.case(format!("advance {rows} rows"), |s| advanced(s, rows));
    }
    suite.finish()
}

#[derive(Debug, Clone, Copy)]
enum Values {
    Normal,
    /// Few different values.
    Ties,
    /// NaN, infinities and both zeros among the values.
    Special,
    /// Nothing but NaN and −∞.
    Hopeless,
}

impl Values {
    const ALL: [Values; 4] = [Values::Normal, Values::Ties, Values::Special, Values::Hopeless];

    fn host(self, rng: &mut Rng, rows: usize, width: usize) -> Host {
        let value = |rng: &mut Rng| match self {
            Values::Normal => rng.uniform(-20.0, 20.0),
            Values::Ties => rng.below(3) as f32 - 1.0,
            Values::Special => [f32::NAN, f32::NEG_INFINITY, 0.0, -0.0, -1e-3, 1e-3, -3e38][rng.below(7)],
            Values::Hopeless => [f32::NAN, f32::NEG_INFINITY, -f32::NAN][rng.below(3)],
        };
        Host { width, data: (0..rows * width).map(|_| value(rng)).collect() }
    }
}

fn greatest(s: &Suite<'_>, rows: usize, width: usize, kind: Values) -> Result<(), Failure> {
    let logits = kind.host(&mut s.rng(), rows, width);
    let (on, out) = (s.upload(&logits)?, s.values(&vec![u32::MAX; rows + 1])?);
    let scratch =
        s.bytes(&vec![0xff; argmax::scratch_bytes(s.kernels(), width as u32, rows as u32) as usize])?;
    let args = argmax::Args { logits: on.mat(), scratch: &scratch, out: &out, rows: rows as u32 };
    s.run(|rec| argmax::record(s.kernels(), rec, "argmax", &args))?;
    let got: Vec<u32> = s.read_values(&out)?;
    let want: Vec<u32> = logits.rows().map(reference::argmax).chain([u32::MAX]).collect();
    if got[..=rows] != want { Err(format!("{got:?}, {want:?} expected").into()) } else { Ok(()) }
}

fn best(s: &Suite<'_>, rows: usize, width: usize, k: usize, kind: Values) -> Result<(), Failure> {
    let logits = kind.host(&mut s.rng(), rows, width);
    let (n, count, words) = (rows as u32, k as u32, row_words(k as u32) as usize);
    let (on, out) = (s.upload(&logits)?, s.values(&vec![0x7fc0_dead_u32; rows * words + 4])?);
    let bytes = top_k::scratch_bytes(s.kernels(), width as u32, count, n) as usize;
    let scratch = s.bytes(&vec![0xff; bytes])?;
    let args = top_k::Args { logits: on.mat(), k: count, scratch: &scratch, out: &out, rows: n };
    s.run(|rec| top_k::record(s.kernels(), rec, "top_k", &args))?;
    let got: Vec<u32> = s.read_values(&out)?;
    for (got, row) in got.chunks(words).zip(logits.rows()) {
        let want = reference::top_k(row, k);
        let got = TopK::read(got).ok_or("no result".to_owned())?;
        let bits = |t: &TopK| t.candidates.iter().map(|c| (c.0, c.1 + 0.0)).collect::<Vec<_>>();
        if bits(&got) != bits(&want) || got.max != want.max {
            return Err(format!("{:?}, {:?} expected", got.candidates, want.candidates).into());
        }
        let near = got.log_sum_exp == want.log_sum_exp
            || (got.log_sum_exp - want.log_sum_exp).abs() <= LOG_SUM_EXP + 1e-6 * want.log_sum_exp.abs();
        if !near {
            return Err(format!("log-sum-exp {}, {} expected", got.log_sum_exp, want.log_sum_exp).into());
        }
    }
    match got[rows * words..].iter().all(|&w| w == 0x7fc0_dead) {
        true => Ok(()),
        false => Err("words behind the result were written".to_owned().into()),
    }
}

fn adjusted(s: &Suite<'_>, count: usize) -> Result<(), Failure> {
    let mut rng = s.rng();
    let mut logits = Host::random(&mut rng, 2, 1009, 3.0);
    let penalties = [
        Penalties { repetition: 1.25, presence: 0.5, frequency: 0.125 },
        Penalties { repetition: 0.75, presence: -0.5, frequency: 0.0 },
    ];
    let mut entries: Vec<Entry> = (0..count)
        .map(|i| Entry {
            row: (i % 3) as u32, // row 2 does not exist
            token: 3 * i as u32,
            bias: if rng.below(5) == 0 { f32::NEG_INFINITY } else { rng.normal() },
            seen: rng.below(3) as u32,
        })
        .collect();
    entries.extend([
        Entry { row: 0, token: 1009, ..Default::default() },
        Entry { row: 1, token: u32::MAX, ..Default::default() },
    ]);
    // Room for more entries than there are: what lies there is not read.
    let mut bytes = entry_bytes(&entries);
    bytes.extend(entry_bytes(&[Entry { row: 0, token: 5, bias: 100.0, seen: 0 }; 9])[4..].iter());
    let (on, list, penalties_on) = (s.upload(&logits)?, s.bytes(&bytes)?, s.values(&penalties)?);
    let args = adjust::Args { logits: on.mat(), entries: &list, penalties: &penalties_on, rows: 2 };
    s.run(|rec| adjust::record(s.kernels(), rec, "adjust", &args))?;
    reference::adjust(&mut logits, &entries, &penalties);
    s.compare(&on, &logits, |want, _, _| 1e-6 * (want.abs() + 1.0))
}

/// One recording submitted several times: tokens, positions, and a ring that comes round.
fn advanced(s: &Suite<'_>, rows: usize) -> Result<(), Failure> {
    let mut rng = s.rng();
    let mut info: Vec<RowInfo> =
        (0..rows as u32).map(|r| RowInfo { token: r, position: 10 * r, sequence: r + 1, flags: 3 }).collect();
    let capacity = 3;
    let (info_on, step) = (s.values(&info)?, s.values(&[0u32])?);
    let chosen = s.values(&vec![0u32; rows])?;
    let ring = s.values(&vec![0u32; capacity * rows])?;
    let mut want = vec![0; capacity * rows];
    for i in 0..5 {
        let tokens: Vec<u32> = (0..rows).map(|_| rng.below(1000) as u32).collect();
        s.kernels().device().upload(&chosen.slice(0, 4 * rows as u64)?, bytemuck::cast_slice(&tokens))?;
        let args = advance::Args {
            chosen: &chosen,
            row_info: &info_on,
            step: &step,
            ring: &ring.slice(0, 4 * (capacity * rows) as u64)?,
            rows: rows as u32,
        };
        s.run(|rec| advance::record(s.kernels(), rec, "advance", &args))?;
        for (row, token) in info.iter_mut().zip(&tokens) {
            row.token = *token;
            row.position += 1;
        }
        want[i % capacity * rows..][..rows].copy_from_slice(&tokens);
    }
    let (got_info, got_ring, got_step): (Vec<RowInfo>, Vec<u32>, Vec<u32>) =
        (s.read_values(&info_on)?, s.read_values(&ring)?, s.read_values(&step)?);
    match got_info == info && got_ring[..want.len()] == want && got_step[0] == 5 {
        true => Ok(()),
        false => Err(format!("{got_info:?} {got_ring:?} {got_step:?}, {info:?} {want:?} expected").into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
