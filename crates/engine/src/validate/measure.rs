//! How far results are apart, and how far they may be.

use super::report::Against;
use crate::KvType;
use crate::execute::Chosen;
use serde::Serialize;
use std::collections::HashMap;
use zinc_testkit::{max_abs_diff, tolerance};

/// How close a row of numbers must be to another one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// The same bits: the exact policy sums in the same order, however many rows there are.
    Bits,
    /// RMS of the difference over RMS of the row (for logits: of the row less its mean).
    RelativeRms(f64),
}

impl Tolerance {
    /// How close batched prefill must be to another path, under the fast policy or the exact one.
    pub(super) fn of(against: Against, fast: bool, kv_type: &str) -> Tolerance {
        match against {
            Against::CpuReference if kv_type == KvType::Q8_0.name() => {
                Tolerance::RelativeRms(tolerance::LOGITS_Q8_0_MAX)
            }
            _ if fast => Tolerance::RelativeRms(tolerance::LOGITS_FAST),
            Against::PerToken => Tolerance::Bits,
            Against::CpuReference if kv_type == KvType::F32.name() => {
                Tolerance::RelativeRms(tolerance::LOGITS_F32)
            }
            Against::CpuReference => Tolerance::RelativeRms(tolerance::LOGITS_F16_MAX),
        }
    }

    /// Whether two rows are close enough, by their relative RMS. What is not a number is never close to anything.
    fn allows(self, got: &[f32], want: &[f32], rms: f64) -> bool {
        match self {
            Tolerance::Bits => got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits() && !a.is_nan()),
            Tolerance::RelativeRms(limit) => rms <= limit,
        }
    }

    /// The relative RMS that is allowed.
    pub fn limit(self) -> f64 {
        match self {
            Tolerance::Bits => 0.0,
            Tolerance::RelativeRms(limit) => limit,
        }
    }
}

/// Two elements that differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spot {
    /// Position of the token.
    pub position: usize,
    /// Layer; `None` for logits.
    pub layer: Option<u32>,
    /// Element of the row.
    pub index: usize,
    /// What batched prefill computed.
    pub got: f32,
    /// What the other path computed.
    pub want: f32,
}

/// Rows of one kind compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measure {
    /// Rows that were compared.
    pub rows: usize,
    /// Of these, rows out of tolerance.
    pub bad_rows: usize,
    /// Largest difference of two elements; infinite where one is not a number.
    pub max_abs_diff: f32,
    /// Where it is; `None` where all are equal.
    pub at: Option<Spot>,
    /// Largest relative RMS of a row.
    pub relative_rms: f64,
}

/// A row to compare.
pub struct Pair<'a> {
    /// Position of its token.
    pub position: usize,
    /// Its layer.
    pub layer: Option<u32>,
    /// From batched prefill.
    pub got: &'a [f32],
    /// From the other path.
    pub want: &'a [f32],
}

impl Measure {
    /// Adds a row; `centred` measures it against the spread around its mean.
    pub fn add(&mut self, pair: &Pair<'_>, tolerance: Tolerance, centred: bool) {
        let &Pair { position, layer, got, want } = pair;
        let rms = relative_rms(got, want, centred);
        let (diff, index) = max_abs_diff(got, want);
        self.rows += 1;
        self.bad_rows += usize::from(!tolerance.allows(got, want, rms));
        self.relative_rms = self.relative_rms.max(rms);
        if diff > self.max_abs_diff {
            self.max_abs_diff = diff;
            self.at = Some(Spot { position, layer, index, got: got[index], want: want[index] });
        }
    }
}

/// The first element of a row that is out of tolerance: the first that differs under [`Tolerance::Bits`], else the one that
/// differs most. `None` where the row is close enough.
pub fn bad_element(got: &[f32], want: &[f32], tolerance: Tolerance) -> Option<usize> {
    let rms = relative_rms(got, want, false);
    if tolerance.allows(got, want, rms) {
        return None;
    }
    match tolerance {
        Tolerance::Bits => got.iter().zip(want).position(|(a, b)| a.to_bits() != b.to_bits() || a.is_nan()),
        Tolerance::RelativeRms(_) => Some(max_abs_diff(got, want).1),
    }
}

/// RMS of the difference over the reference's; 0 for rows that are equal, infinite for what is not a number.
fn relative_rms(got: &[f32], want: &[f32], centred: bool) -> f64 {
    let mean =
        if centred { want.iter().map(|&v| f64::from(v)).sum::<f64>() / want.len() as f64 } else { 0.0 };
    let square = |v: f64| v * v;
    let diff: f64 = got.iter().zip(want).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    if diff == 0.0 {
        return 0.0;
    }
    let rms = (diff / want.iter().map(|&v| square(f64::from(v) - mean)).sum::<f64>()).sqrt();
    if rms.is_nan() { f64::INFINITY } else { rms }
}

/// Logits that lead to other choices: divergence and order of the best tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Choice {
    /// Rows of logits.
    pub rows: usize,
    /// Mean KL divergence of batched prefill's distribution from the other's, in nats.
    pub kl_mean: f64,
    /// Largest.
    pub kl_max: f64,
    /// Rows with the same best token.
    pub same_best: usize,
    /// Rows with the same eight best tokens in the same order.
    pub same_top8: usize,
    /// Rows whose eight best tokens differ by more than near ties explain.
    pub bad_rows: usize,
}

/// Choices of experts: where arithmetic differs, near ties may turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Routes {
    /// Choices: tokens times layers.
    pub rows: usize,
    /// Of these, choices of other experts.
    pub flipped: usize,
    /// Experts in them that the other path did not choose.
    pub experts: usize,
}

impl Routes {
    /// Adds the choices that both paths made.
    pub fn add(&mut self, got: &[Chosen], want: &[Chosen]) {
        let of: HashMap<_, _> = want.iter().map(|c| ((c.layer, c.token), &c.experts)).collect();
        for c in got {
            let Some(want) = of.get(&(c.layer, c.token)) else { continue };
            let others = c.experts.iter().filter(|e| !want.contains(e)).count();
            self.rows += 1;
            self.flipped += usize::from(others > 0);
            self.experts += others;
        }
    }
}

/// Ranks that are compared.
const TOP: usize = 8;

impl Choice {
    /// Adds a row of logits.
    pub fn add(&mut self, got: &[f32], want: &[f32], allowed: Tolerance) {
        let kl = divergence((want, log_sum_exp(want)), (got, log_sum_exp(got)));
        self.kl_mean = (self.kl_mean * self.rows as f64 + kl) / (self.rows + 1) as f64;
        self.rows += 1;
        self.kl_max = self.kl_max.max(kl);
        let (a, b) = (best(got), best(want));
        self.same_best += usize::from(a.first() == b.first());
        self.same_top8 += usize::from(a == b);
        // Tokens may change ranks where their logits are nearer to each other than the error that is allowed.
        let near = tolerance::MARGIN_TIMES_ERROR * allowed.limit() * spread(want);
        let apart = |(&x, &y): (&usize, &usize)| f64::from((want[x] - want[y]).abs()) > near;
        self.bad_rows += usize::from(a.iter().zip(&b).any(apart));
    }
}

/// The best tokens of a row, best first.
fn best(row: &[f32]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..row.len()).collect();
    let order = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]).then(a.cmp(b));
    let top = TOP.min(ids.len());
    if top < ids.len() {
        ids.select_nth_unstable_by(top, order);
        ids.truncate(top);
    }
    ids.sort_unstable_by(order);
    ids
}

/// Standard deviation of a row.
fn spread(row: &[f32]) -> f64 {
    let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / row.len() as f64;
    (row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
}

/// KL divergence of the distribution of logits `q` from that of `p`, in nats; infinite where one is not a number. Each comes with its
/// [`log_sum_exp`].
pub fn divergence((p, norm_p): (&[f32], f64), (q, norm_q): (&[f32], f64)) -> f64 {
    let terms = p.iter().zip(q).map(|(&p, &q)| {
        let (log_p, log_q) = (f64::from(p) - norm_p, f64::from(q) - norm_q);
        if log_p == f64::NEG_INFINITY { 0.0 } else { log_p.exp() * (log_p - log_q) }
    });
    let sum: f64 = terms.sum();
    if sum.is_nan() { f64::INFINITY } else { sum.max(0.0) } // below 0 only by rounding
}

/// The logarithm of the sum of a row's exponentials. A logit less this is the logarithm of its token's probability.
pub fn log_sum_exp(row: &[f32]) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(max) + row.iter().map(|&v| f64::from(v - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_both_paths_made_are_counted() {
        let of =
            |layer, token, experts: &[u32]| Chosen { layer: Some(layer), token, experts: experts.to_vec() };
        let got = [of(0, 0, &[1, 5]), of(0, 1, &[2, 3]), of(1, 1, &[0, 7])];
        let want = [of(0, 0, &[1, 5]), of(0, 1, &[2, 4]), of(2, 0, &[1, 2])];
        let mut routes = Routes::default();
        routes.add(&got, &want);
        assert_eq!(routes, Routes { rows: 2, flipped: 1, experts: 1 });
    }

    #[test]
    fn bits_must_be_the_same_and_numbers() {
        let row = |v: f32| [1.0, v, 3.0];
        assert_eq!(bad_element(&row(2.0), &row(2.0), Tolerance::Bits), None);
        assert_eq!(bad_element(&row(-0.0), &row(0.0), Tolerance::Bits), Some(1));
        assert_eq!(bad_element(&row(f32::NAN), &row(f32::NAN), Tolerance::Bits), Some(1), "nobody wrote it");
        let near = Tolerance::RelativeRms(1e-3);
        assert_eq!(bad_element(&row(2.001), &row(2.0), near), None);
        assert_eq!(bad_element(&row(2.1), &row(2.0), near), Some(1));
        assert_eq!(bad_element(&row(f32::NAN), &row(2.0), near), Some(1));
    }

    #[test]
    fn ranks_may_change_where_logits_are_nearly_equal() {
        let mut want = vec![0.0f32; 100];
        (want[3], want[7], want[9]) = (10.0, 9.9999, 5.0);
        let mut swapped = want.clone();
        swapped.swap(3, 7);
        let add = |got: &[f32], tolerance| {
            let mut choice = Choice::default();
            choice.add(got, &want, tolerance);
            (choice.same_best, choice.same_top8, choice.bad_rows)
        };
        assert_eq!(add(&want, Tolerance::Bits), (1, 1, 0));
        assert_eq!(add(&swapped, Tolerance::Bits), (0, 0, 1));
        assert_eq!(add(&swapped, Tolerance::RelativeRms(1e-3)), (0, 0, 0));
        swapped.swap(7, 9);
        assert_eq!(add(&swapped, Tolerance::RelativeRms(1e-3)), (0, 0, 1));
    }

    #[test]
    fn divergence_is_zero_for_equal_rows_and_infinite_for_no_numbers() {
        let row = [0.5, -1.0, 3.0];
        let divergence = |p: &[f32], q: &[f32]| divergence((p, log_sum_exp(p)), (q, log_sum_exp(q)));
        assert_eq!(divergence(&row, &row), 0.0);
        // Two choices: p = 1/2 each, q = 1/4 and 3/4.
        let kl = divergence(&[0.0, 0.0], &[0.0, 3f32.ln()]);
        assert!((kl - (0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln())).abs() < 1e-7);
        assert_eq!(divergence(&row, &[f32::NAN, 0.0, 0.0]), f64::INFINITY);
    }
}
