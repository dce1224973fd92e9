//! What validate mode found, as data and in words.

use super::measure::{Choice, Measure, Routes, Tolerance};
use crate::PrefillPath;
use serde::Serialize;
use std::fmt;

/// What batched prefill was compared with, how, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationReport {
    /// Whether everything was within its tolerance.
    pub ok: bool,
    /// Tokens that were compared. On a failure nothing after its step was.
    pub n_tokens: usize,
    /// Tokens that the sequence held before.
    pub history: usize,
    /// The path that was tested, and its chunk width.
    pub path: PrefillPath,
    /// Rows of each step, in order.
    pub steps: Vec<usize>,
    /// Arithmetic policy.
    pub policy: &'static str,
    /// Element type of the KV cache.
    pub kv_type: &'static str,
    /// What it was compared with, each in turn.
    pub comparisons: Vec<Comparison>,
    /// The first operation whose output is out of tolerance, on a failure.
    pub first: Option<FirstDifference>,
    /// Why no operation could be named, on a failure.
    pub not_found: Option<String>,
    /// Seconds that it all took.
    pub seconds: f64,
}

/// A path that batched prefill is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The same device, a token a step.
    PerToken,
    /// The CPU executor.
    CpuReference,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Against::PerToken => "per-token",
            Against::CpuReference => "the CPU reference",
        })
    }
}

/// Batched prefill and one other path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The other path.
    pub against: Against,
    /// Whether all was within the tolerance.
    pub ok: bool,
    /// How close rows must be.
    pub tolerance: Tolerance,
    /// Rows of logits.
    pub logits: Measure,
    /// Divergence, and the order of the best tokens.
    pub choice: Choice,
    /// Rows of the caches' keys: layers times tokens.
    pub keys: Measure,
    /// Rows of the caches' values.
    pub values: Measure,
    /// Recurrent states after each step.
    pub states: Measure,
    /// Experts that were chosen; the CPU reference does not tell its own.
    pub routes: Routes,
}

/// Where paths part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstDifference {
    /// The path that differs.
    pub against: Against,
    /// Layer; `None` before the first and after the last.
    pub layer: Option<u32>,
    /// Label of the operation at whose place the call stands.
    pub op: String,
    /// The kernel family's name.
    pub call: String,
    /// Labels of all operations that the call does, where fusion made several into one.
    pub fused: Vec<String>,
    /// Which output: `output`, `keys`, `values` or `state`.
    pub part: &'static str,
    /// Row among the tokens that were validated.
    pub row: usize,
    /// Position of its token in the sequence.
    pub position: usize,
    /// Element of the row.
    pub element: usize,
    /// What batched prefill computed.
    pub got: f32,
    /// What the other path computed.
    pub want: f32,
    /// Rows of the step.
    pub step_rows: usize,
}

impl Comparison {
    pub(super) fn new(against: Against, tolerance: Tolerance) -> Comparison {
        Comparison {
            against,
            ok: true,
            tolerance,
            logits: Measure::default(),
            choice: Choice::default(),
            keys: Measure::default(),
            values: Measure::default(),
            states: Measure::default(),
            routes: Routes::default(),
        }
    }

    /// Notes whether all rows so far are good.
    pub(super) fn judge(&mut self) {
        let bad =
            [&self.logits, &self.keys, &self.values, &self.states].iter().map(|m| m.bad_rows).sum::<usize>();
        self.ok = bad + self.choice.bad_rows == 0;
    }
}

impl ValidationReport {
    /// What came of it in one line: the first operation that differs, or what else is known.
    pub fn headline(&self) -> String {
        if let Some(first) = &self.first {
            return first.to_string();
        }
        match self.comparisons.iter().find(|c| !c.ok) {
            Some(c) => format!("batched prefill differs from {}", c.against),
            None => format!("batched prefill is as it must be for {} tokens", self.n_tokens),
        }
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.layer {
            Some(layer) => format!("in layer {layer}, `{}`", self.op),
            None => format!("in `{}`", self.op),
        };
        write!(f, "batched prefill differs from {} {place} ({})", self.against, self.call)?;
        let part = if self.part == "output" { String::new() } else { format!(" of the {}", self.part) };
        write!(f, ", row {} (position {}), element {}{part}: ", self.row, self.position, self.element)?;
        write!(f, "{:e} for {:e}, in a step of {} rows", self.got, self.want, self.step_rows)?;
        if self.fused.len() > 1 {
            write!(f, "; the call does {}", self.fused.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for ValidationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "passed" } else { "FAILED" };
        writeln!(
            f,
            "validate {verdict}: {} tokens after {}, {} at {} tokens a step, {} arithmetic, {} KV cache, {:.2} s",
            self.n_tokens,
            self.history,
            self.path.path,
            self.path.chunk,
            self.policy,
            self.kv_type,
            self.seconds
        )?;
        self.comparisons.iter().try_for_each(|c| c.fmt(f))?;
        if let Some(why) = &self.not_found {
            writeln!(f, "  no operation can be named: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "as it must be" } else { "DIFFERENT" };
        let tolerance = match self.tolerance {
            Tolerance::Bits => "the same bits are asked for".to_string(),
            Tolerance::RelativeRms(limit) => format!("a relative RMS of {limit:.0e} is allowed"),
        };
        writeln!(f, "  {}: {verdict}; {tolerance}", self.against)?;
        for (name, measure) in [("logits", &self.logits), ("keys", &self.keys), ("values", &self.values)] {
            measure.line(name, f)?;
        }
        if self.states.rows > 0 {
            self.states.line("states", f)?;
        }
        if let Routes { rows: rows @ 1.., flipped, experts } = self.routes {
            writeln!(f, "    routes  {rows} choices, {flipped} with other experts ({experts} in all)")?;
        }
        let c = &self.choice;
        if c.rows == 0 {
            return Ok(());
        }
        let percent = |n: usize| 100.0 * n as f64 / c.rows as f64;
        write!(f, "    choice  KL divergence mean {:.3e}, max {:.3e} nats; ", c.kl_mean, c.kl_max)?;
        writeln!(f, "same best {:.1} %, same 8 best {:.1} %", percent(c.same_best), percent(c.same_top8))
    }
}

impl Measure {
    fn line(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {name:7} {} rows, {} bad, ", self.rows, self.bad_rows)?;
        write!(f, "max abs diff {:.3e}, relative RMS {:.3e}", self.max_abs_diff, self.relative_rms)?;
        if let Some(at) = &self.at {
            let layer = at.layer.map_or(String::new(), |l| format!("layer {l}, "));
            write!(f, " at {layer}position {}, element {}: ", at.position, at.index)?;
            write!(f, "{:e} for {:e}", at.got, at.want)?;
        }
        writeln!(f)
    }
}
