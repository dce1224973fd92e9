//! The ways to read a prompt.

use crate::output::plural;
use zinc_engine::{Cut, Engine, Precision};

/// A way to read a prompt.
#[derive(Clone)]
pub struct Way {
    pub kind: Kind,
    /// Tokens of a step at most.
    pub rows: u32,
    pub cut: Cut,
    /// Whether the engine runs under the fast policy, where bits depend on the kernels that a number of rows takes.
    pub fast: bool,
}

/// What is special about a way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A token a step.
    PerToken,
    /// Batched, an invocation a row.
    SerialK,
    /// Batched, lanes split K.
    KParallel,
    /// What runs where nobody measures.
    Default,
}

impl Kind {
    /// For JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::PerToken => "per_token",
            Kind::SerialK => "serial_k",
            Kind::KParallel => "k_parallel",
            Kind::Default => "default",
        }
    }
}

impl Way {
    /// A way to read prompts with a loaded model; no more rows a step than it was loaded for.
    pub fn new(engine: &Engine, kind: Kind, rows: u32, cut: Cut) -> Way {
        let fast = engine.summary().policy == Precision::Fast.name();
        Way { kind, rows: rows.min(engine.prefill_path().chunk), cut, fast }
    }

    /// For reports.
    pub fn name(&self) -> String {
        match (self.kind, self.columns()) {
            (Kind::PerToken, _) => "per token".into(),
            (Kind::SerialK, Some(c)) => format!("serial K, {}", plural(c as usize, "column")),
            (Kind::KParallel, Some(c)) => match self.team_rows() {
                None => format!("K-parallel, {}", plural(c as usize, "column")),
                Some(r) => {
                    format!("K-parallel, {}, {}", plural(c as usize, "column"), plural(r as usize, "row"))
                }
            },
            (Kind::SerialK, None) => "serial K".into(),
            (Kind::KParallel, None) => "K-parallel".into(),
            (Kind::Default, _) => "default".into(),
        }
    }

    /// Columns of a workgroup, where the way says how many.
    pub fn columns(&self) -> Option<u32> {
        match self.cut {
            Cut::SerialK { columns } | Cut::Workgroup { columns, .. } => Some(columns),
            Cut::Policy | Cut::Tuned(_) => None,
        }
    }

    /// Weight rows of a team, where the way says how many.
    pub fn team_rows(&self) -> Option<u32> {
        match self.cut {
            Cut::Workgroup { rows, .. } => rows,
            Cut::SerialK { .. } | Cut::Policy | Cut::Tuned(_) => None,
        }
    }

    /// Whether the way adds in the order of the device's policy, so that results have the same bits under the exact policy.
    pub fn is_reference(&self) -> bool {
        self.kind != Kind::SerialK
    }

    /// Whether results must have the reference's bits.
    pub fn exact(&self) -> bool {
        self.is_reference() && !self.fast
    }
}

/// All ways that a loaded model can be read in, with `default` tokens a step where nothing else is said. On the CPU executor products are
/// not cut.
pub fn all(engine: &Engine, default: u32, columns: &[u32], serial: &[u32]) -> Vec<Way> {
    let most = engine.prefill_path().chunk;
    let way = |kind, rows, cut| Way::new(engine, kind, rows, cut);
    let mut ways = vec![way(Kind::PerToken, 1, Cut::Policy)];
    if engine.summary().backend == "vulkan" {
        ways.extend(serial.iter().map(|&c| way(Kind::SerialK, default.max(c), Cut::SerialK { columns: c })));
        ways.extend(columns.iter().map(|&columns| {
            way(Kind::KParallel, default.max(columns), Cut::Workgroup { columns, rows: None })
        }));
        ways.push(way(Kind::Default, default, engine.cut()));
    } else {
        ways.push(way(Kind::Default, most, Cut::Policy));
    }
    ways
}
