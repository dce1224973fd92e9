//! Runs a plan, operation by operation.

use crate::error::Error;
use crate::ops;
use crate::sequence::Sequence;
use crate::values::{Logits, Values, View};
use crate::weights::Weights;
use std::sync::Arc;
use zinc_gguf::Gguf;
use zinc_plan::{Cols, Node, Op, Plan, Row, Rows};

/// A model ready to run on the CPU.
pub struct Cpu {
    plan: Plan,
    weights: Weights,
    /// For each operation the buffers that nothing reads after it.
    dead: Vec<Vec<usize>>,
}

/// Sees the output of every operation as it is computed.
type Observer<'a> = &'a mut (dyn FnMut(&Node, Values<'_>) + Send);

impl Cpu {
    /// Checks the plan and decodes the small vectors; matrices stay in the file.
    pub fn new(gguf: Arc<Gguf>, plan: Plan) -> Result<Cpu, Error> {
        plan.check()?;
        let weights = Weights::new(gguf, &plan)?;
        let mut dead = vec![vec![]; plan.ops.len() + 1];
        for (act, life) in plan.lifetimes().into_iter().enumerate() {
            if let Some((_, last)) = life {
                dead[last].push(act);
            }
        }
        Ok(Cpu { plan, weights, dead })
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// An empty sequence for up to `max_context` tokens. Its caches grow as it does.
    pub fn new_sequence(&self, max_context: u32) -> Sequence {
        Sequence::new(&self.plan, max_context)
    }

    /// Runs a batch of rows, `sequences[row.sequence]` each, and returns the logits of the rows that want them, in order.
    ///
    /// The rows of a sequence continue it, in order of position; rows of several sequences may be mixed. On an error nothing has
    /// changed.
    pub fn forward(&self, rows: &[Row], sequences: &mut [Sequence]) -> Result<Logits, Error> {
        self.forward_observed(rows, sequences, &mut |_, _| {})
    }

    /// As [`Cpu::forward`]; `observe` sees the output of each operation that writes an activation.
    pub fn forward_observed(
        &self,
        rows: &[Row],
        sequences: &mut [Sequence],
        observe: &mut (dyn FnMut(&Node, Values<'_>) + Send),
    ) -> Result<Logits, Error> {
        let lengths = self.check(rows, sequences)?;
        // Inside the pool a loop is split without waiting for a thread of the pool to wake up.
        let values = rayon::scope(|_| Run::new(self, rows, sequences).run(observe));
        for (sequence, len) in sequences.iter_mut().zip(lengths) {
            sequence.len = len;
        }
        Ok(Logits { values, vocab: self.plan.vocab() as usize })
    }

    /// The lengths of the sequences after these rows.
    fn check(&self, rows: &[Row], sequences: &[Sequence]) -> Result<Vec<u32>, Error> {
        if let Some(sequence) = sequences.iter().position(|s| !s.fits(&self.plan)) {
            return Err(Error::ForeignSequence { sequence });
        }
        let vocab = self.plan.ops.iter().find_map(|node| match node.op {
            Op::Embed { table, .. } => Some(self.plan.weight(table).m),
            _ => None,
        });
        let vocab = vocab.unwrap_or(0);
        let mut lengths: Vec<u32> = sequences.iter().map(Sequence::len).collect();
        for (i, row) in rows.iter().enumerate() {
            let sequence = row.sequence;
            let Some(len) = lengths.get_mut(sequence as usize) else {
                return Err(Error::Sequence { row: i, sequence, count: sequences.len() });
            };
            if row.position != *len {
                return Err(Error::Position { row: i, sequence, found: row.position, expected: *len });
            }
            let max_context = sequences[sequence as usize].max_context();
            if row.position >= max_context {
                return Err(Error::Context { sequence, max_context });
            }
            if row.token >= vocab {
                return Err(Error::Token { row: i, token: row.token, vocab });
            }
            *len += 1;
        }
        Ok(lengths)
    }
}

/// One batch under way.
struct Run<'a> {
    cpu: &'a Cpu,
    rows: &'a [Row],
    /// Indices of the rows that want logits, and these rows.
    wanted: Vec<usize>,
    logit_rows: Vec<Row>,
    /// For each sequence the indices of its rows, in order of position.
    by_sequence: Vec<Vec<usize>>,
    sequences: &'a mut [Sequence],
    /// By `ActId`: rows of the buffer's width, while it is alive.
    acts: Vec<Vec<f32>>,
    /// By `RopeId`: cosines and sines of each row, and of each row that wants logits.
    angles: Vec<[ops::Angles; 2]>,
}

impl<'a> Run<'a> {
    fn new(cpu: &'a Cpu, rows: &'a [Row], sequences: &'a mut [Sequence]) -> Self {
        let mut by_sequence = vec![vec![]; sequences.len()];
        rows.iter().enumerate().for_each(|(i, row)| by_sequence[row.sequence as usize].push(i));
        let logit_rows: Vec<Row> = rows.iter().copied().filter(|r| r.wants_logits).collect();
        let angles = |table| [rows, &logit_rows].map(|rows| ops::Angles::new(table, rows));
        Run {
            cpu,
            rows,
            wanted: (0..rows.len()).filter(|&i| rows[i].wants_logits).collect(),
            by_sequence,
            sequences,
            acts: vec![vec![]; cpu.plan.acts.len()],
            angles: cpu.plan.ropes.iter().map(angles).collect(),
            logit_rows,
        }
    }

    fn run(mut self, observe: Observer) -> Vec<f32> {
        let plan = &self.cpu.plan;
        for (node, dead) in plan.ops.iter().zip(&self.cpu.dead) {
            if let (Some(values), Some(out)) = (self.compute(&node.op), node.op.output()) {
                observe(node, Values { data: &values, width: out.width as usize });
                self.store(out, values);
            }
            dead.iter().for_each(|&act| self.acts[act] = vec![]);
        }
        self.whole_rows(plan.logits)
    }

    /// Whether a buffer has the rows that want logits alone.
    fn selected(&self, c: Cols) -> bool {
        self.cpu.plan.act(c.act).rows == Rows::Logits
    }

    fn row_count(&self, c: Cols) -> usize {
        if self.selected(c) { self.logit_rows.len() } else { self.rows.len() }
    }

    fn view(&self, c: Cols) -> View<'_> {
        View {
            data: &self.acts[c.act.index()],
            stride: self.cpu.plan.act(c.act).width as usize,
            first: c.first as usize,
            width: c.width as usize,
            rows: self.row_count(c),
        }
    }

    /// Columns of a buffer that is not needed any more, row after row.
    fn whole_rows(&mut self, c: Cols) -> Vec<f32> {
        if c.width == self.cpu.plan.act(c.act).width {
            return std::mem::take(&mut self.acts[c.act.index()]);
        }
        let x = self.view(c);
        (0..x.rows).flat_map(|row| x.row(row)).copied().collect()
    }

    /// Puts an operation's output into its columns.
    fn store(&mut self, out: Cols, values: Vec<f32>) {
        let stride = self.cpu.plan.act(out.act).width as usize;
        let (first, width, rows) = (out.first as usize, out.width as usize, self.row_count(out));
        let act = &mut self.acts[out.act.index()];
        if width == stride {
            *act = values;
            return;
        }
        act.resize(rows * stride, 0.0);
        for (to, from) in act.chunks_exact_mut(stride).zip(values.chunks_exact(width)) {
            to[first..first + width].copy_from_slice(from);
        }
    }

    /// The output of an operation, row after row; `None` where it writes no activation.
    fn compute(&mut self, op: &Op) -> Option<Vec<f32>> {
        let (plan, weights) = (&self.cpu.plan, &self.cpu.weights);
        let matrix = |id| weights.matrix(plan, id);
        let vector = |id| weights.vector(id);
        let view = |c| self.view(c);
        Some(match *op {
            Op::Embed { table, scale, .. } => ops::embed(self.rows, matrix(table), scale),
            Op::RmsNorm { x, weight, group, eps, .. } => {
                ops::rms_norm(view(x), weight.map(vector), group as usize, eps)
            }
            Op::L2Norm { x, group, eps, scale, .. } => ops::l2_norm(view(x), group as usize, eps, scale),
            Op::Linear { x, weight, .. } => ops::linear(view(x), matrix(weight)),
            Op::AddBias { x, bias, .. } => ops::add_bias(view(x), vector(bias)),
            Op::Add { a, b, .. } => ops::add(view(a), view(b)),
            Op::Scale { x, by, .. } => ops::scale(view(x), ops::scalar(by, vector)),
            Op::Softcap { x, cap, .. } => ops::softcap(view(x), cap),
            Op::Rope { x, head_size, table, pairing, .. } => {
                let [all, wanted] = &self.angles[table.index()];
                let angles = if self.selected(x) { wanted } else { all };
                ops::rope(view(x), head_size as usize, angles, pairing)
            }
            Op::KvWrite { k, v, kv } => {
                let mut caches = take(self.sequences, |s| &mut s.kv[kv.index()]);
                let (k, v) = (self.view(k), self.view(v));
                for (i, row) in self.rows.iter().enumerate() {
                    caches[row.sequence as usize].write(row.position as usize, k.row(i), v.row(i));
                }
                put(self.sequences, caches, |s| &mut s.kv[kv.index()]);
                return None;
            }
            Op::Attention { q, kv, heads, scale, softcap, sinks, .. } => {
                let rule = ops::AttentionRule {
                    spec: *plan.kv(kv),
                    heads: heads as usize,
                    scale,
                    softcap,
                    sinks: sinks.map(vector),
                };
                let cache = |row: &Row| &self.sequences[row.sequence as usize].kv[kv.index()];
                let rows = if self.selected(q) { &self.logit_rows } else { self.rows };
                ops::attention(view(q), rows, cache, &rule)
            }
            Op::Activate { kind, gate, up, .. } => ops::activate(kind, view(gate), view(up)),
            Op::SigmoidGate { x, gate, .. } => ops::sigmoid_gate(view(x), view(gate)),
            Op::Slice { x, stride, first, len, .. } => {
                ops::slice(view(x), stride as usize, first as usize, len as usize)
            }
            Op::Route { logits, order, out } => ops::route(view(logits), out.width as usize / 2, order),
            Op::ExpertLinear { x, weight, choice, .. } => {
                let experts = plan.weight(weight).experts as usize;
                ops::expert_linear(view(x), matrix(weight), experts, view(choice))
            }
            Op::ExpertBias { x, bias, choice, .. } => ops::expert_bias(view(x), vector(bias), view(choice)),
            Op::ExpertSum { x, choice, scale, .. } => {
                ops::expert_sum(view(x), view(choice), scale.map(vector))
            }
            Op::Conv { x, weight, state, .. } => {
                let mut states = take(self.sequences, |s| &mut s.states[state.index()]);
                let y = ops::conv(self.view(x), vector(weight), &self.by_sequence, &mut states);
                put(self.sequences, states, |s| &mut s.states[state.index()]);
                y
            }
            Op::DeltaNet { q, k, v, alpha, beta, dt_bias, a, order, state, .. } => {
                let mut states = take(self.sequences, |s| &mut s.states[state.index()]);
                let inputs = ops::DeltaInputs {
                    q: self.view(q),
                    k: self.view(k),
                    v: self.view(v),
                    alpha: self.view(alpha),
                    beta: self.view(beta),
                    dt_bias: vector(dt_bias),
                    a: vector(a),
                };
                let y = ops::delta_net(&inputs, *plan.state(state), order, &self.by_sequence, &mut states);
                put(self.sequences, states, |s| &mut s.states[state.index()]);
                y
            }
            Op::SelectLogits { x, .. } => {
                let x = view(x);
                self.wanted.iter().flat_map(|&row| x.row(row)).copied().collect()
            }
        })
    }
}

/// Takes a part of each sequence's state, to be written while activations are read.
fn take<T: Default>(sequences: &mut [Sequence], part: impl Fn(&mut Sequence) -> &mut T) -> Vec<T> {
    sequences.iter_mut().map(|s| std::mem::take(part(s))).collect()
}

/// Gives back what [`take`] took.
fn put<T>(sequences: &mut [Sequence], values: Vec<T>, part: impl Fn(&mut Sequence) -> &mut T) {
    sequences.iter_mut().zip(values).for_each(|(s, value)| *part(s) = value);
}
