//! From operations to calls: dead code, fusion.

use super::chain::chain;
use super::{Call, Shape, Step, experts};
use zinc_kernels::elementwise::sigmoid_gate::Parts;
use zinc_kernels::recurrent::conv;
use zinc_kernels::recurrent::delta_net::Gates;
use zinc_kernels::rope::qk_norm_rope_kv::HeadNorms;
use zinc_plan::{Activation, Cols, Op, Plan};

/// The operations that matter, with who reads what.
pub(super) struct Graph<'a> {
    plan: &'a Plan,
    shape: Shape,
    /// The plan's, but where all rows have logits nothing is selected: whoever reads a selection reads what it selects from.
    ops: Vec<Op>,
    live: Vec<bool>,
    /// By buffer, the live operations that write and read it.
    writers: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    /// Keeps what reaches a cache or a state, and what reaches logits that are wanted. Where none are, the last layer's queries,
    /// attention and FFN have no reader and are left out.
    pub(super) fn new(plan: &'a Plan, shape: Shape) -> Graph<'a> {
        let ops = match shape.logit_rows == shape.rows {
            true => unselected(plan),
            false => plan.ops.iter().map(|n| n.op.clone()).collect(),
        };
        let mut live = vec![false; ops.len()];
        let mut wanted: Vec<Cols> = if shape.logit_rows > 0 { vec![plan.logits] } else { vec![] };
        for (i, op) in ops.iter().enumerate().rev() {
            let writes_wanted = op.output().is_some_and(|out| wanted.iter().any(|w| w.overlaps(out)));
            live[i] = op.keeps_state() || writes_wanted;
            if live[i] {
                wanted.extend(op.inputs());
            }
        }
        let (mut writers, mut readers) = (vec![vec![]; plan.acts.len()], vec![vec![]; plan.acts.len()]);
        for (i, op) in ops.iter().enumerate().filter(|&(i, _)| live[i]) {
            op.output().iter().for_each(|c| writers[c.act.index()].push(i));
            op.inputs().iter().for_each(|c| readers[c.act.index()].push(i));
        }
        Graph { plan, shape, ops, live, writers, readers }
    }

    pub(super) fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub(super) fn op(&self, i: usize) -> &Op {
        &self.ops[i]
    }

    /// How many rows of the batch an operand has.
    fn rows(&self, c: Cols) -> u32 {
        self.shape.of(self.plan.act(c.act).rows)
    }

    /// The live operation that writes exactly these columns.
    pub(super) fn writer(&self, c: Cols) -> Option<usize> {
        self.writers[c.act.index()].iter().copied().find(|&i| self.op(i).output() == Some(c))
    }

    /// The one operation that reads the output of `i`, if there is exactly one, if it reads exactly those columns, and if nobody
    /// else wants them.
    pub(super) fn sole_reader(&self, i: usize) -> Option<usize> {
        let out = self.op(i).output()?;
        if self.is_kept(out) {
            return None;
        }
        let reads = |&j: &usize| self.op(j).inputs().iter().any(|c| c.overlaps(out));
        let mut readers = self.readers[out.act.index()].iter().copied().filter(reads);
        let reader = readers.next()?;
        let exact = self.op(reader).inputs().iter().filter(|c| c.overlaps(out)).all(|c| *c == out);
        // An operation that reads the columns twice is listed twice.
        (exact && readers.all(|other| other == reader)).then_some(reader)
    }

    /// Whether these operations, and nobody else, read the output of `i`.
    pub(super) fn reads_only(&self, i: usize, readers: &[usize]) -> bool {
        self.op(i).output().is_some_and(|out| {
            let reads = |&j: &usize| self.op(j).inputs().iter().any(|c| c.overlaps(out));
            !self.is_kept(out)
                && self.readers[out.act.index()].iter().filter(|j| reads(j)).all(|j| readers.contains(j))
        })
    }

    /// The live operations that read any of the output of `i`, in order.
    pub(super) fn readers_of(&self, i: usize) -> impl Iterator<Item = usize> {
        let out = self.op(i).output();
        let reads = move |j: &usize| out.is_some_and(|o| self.op(*j).inputs().iter().any(|c| c.overlaps(o)));
        let all = out.map_or(&[][..], |o| &self.readers[o.act.index()]);
        all.iter().copied().filter(reads)
    }

    /// Whether these columns are wanted after the step.
    pub(super) fn is_kept(&self, c: Cols) -> bool {
        self.plan.kept().any(|kept| kept.overlaps(c))
    }

    /// Whether these columns are written before operation `i`.
    pub(super) fn ready(&self, c: Cols, i: usize) -> bool {
        let mut parts = self.writers[c.act.index()]
            .iter()
            .filter(|&&w| self.op(w).output().is_some_and(|o| o.overlaps(c)));
        parts.clone().next().is_some() && parts.all(|&w| w < i)
    }
}

/// A plan's operations without the selection of rows.
fn unselected(plan: &Plan) -> Vec<Op> {
    let mut of: Vec<Option<Cols>> = vec![None; plan.acts.len()];
    let mut ops = Vec::with_capacity(plan.ops.len());
    for node in &plan.ops {
        let mut op = node.op.clone();
        for c in op.inputs_mut() {
            if let Some(x) = of[c.act.index()] {
                *c = x.part(c.first, c.width);
            }
        }
        if let Op::SelectLogits { x, out } = op {
            of[out.act.index()] = Some(x);
        }
        ops.push(op);
    }
    ops
}

/// The calls of a plan's live operations in order.
pub(super) fn lower(graph: &Graph<'_>, fuse: bool) -> Vec<Step> {
    let plan = graph.plan;
    // What each operation turned into: a call at its place, or nothing because another call does its work.
    let mut calls: Vec<Option<(Call, Vec<usize>)>> = vec![None; plan.ops.len()];
    let mut taken = vec![false; plan.ops.len()];
    if fuse {
        // Activations take both their products before one of them takes its bias, sums of experts what is added to them before that becomes a
        // chain of its own.
        let live: Vec<usize> = (0..plan.ops.len()).filter(|&i| graph.live[i]).collect();
        let rank = |i: usize| match graph.op(i) {
            Op::Activate { .. } => 0,
            Op::ExpertSum { .. } => 1,
            _ => 2,
        };
        for i in (0..3).flat_map(|r| live.iter().copied().filter(move |&i| rank(i) == r)) {
            let here = |group: (Call, Vec<usize>)| (i, group.0, group.1);
            let group = match graph.op(i) {
                _ if taken[i] => None,
                Op::KvWrite { .. } => attention_input(graph, i).map(here),
                Op::Activate { .. } => gated(graph, i)
                    .or_else(|| experts::gated(graph, i))
                    .or_else(|| gated_norm(graph, i))
                    .map(here),
                Op::ExpertLinear { .. } => experts::biased(graph, i).map(here),
                Op::Linear { .. } => epilogue(graph, i).map(here),
                Op::SigmoidGate { .. } => gate_of_parts(graph, i).map(here),
                Op::DeltaNet { .. } => mixed_gates(graph, i).map(here),
                Op::Conv { .. } => normed_heads(graph, i).map(here),
                Op::ExpertSum { .. } | Op::Add { .. } | Op::RmsNorm { .. } => chain(graph, i, &taken),
                _ => None,
            };
            let Some((place, call, ops)) = group else { continue };
            if ops.iter().all(|&o| !taken[o]) {
                ops.iter().for_each(|&o| taken[o] = true);
                calls[place] = Some((call, ops));
            }
        }
    }
    let mut steps = Vec::new();
    for (i, node) in plan.ops.iter().enumerate() {
        let (call, ops) = match calls[i].take() {
            Some(group) => group,
            None if taken[i] || !graph.live[i] => continue,
            None => match single(graph, i) {
                Some(call) => (call, vec![i]),
                None => continue,
            },
        };
        steps.push(Step { layer: node.layer, label: node.label, call, ops, product: None, work: None });
    }
    steps
}

/// Norms, rotation and the cache's write around `KvWrite` number `i`.
fn attention_input(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let Op::KvWrite { k, v, kv } = *g.op(i) else { return None };
    let rope_k = g.writer(k).filter(|&r| g.sole_reader(r) == Some(i))?;
    let &Op::Rope { x: k_in, head_size, table, pairing, .. } = g.op(rope_k) else { return None };
    let attention = (i..g.live.len())
        .find(|&a| g.live[a] && matches!(g.op(a), Op::Attention { kv: read, .. } if *read == kv))?;
    let &Op::Attention { q, .. } = g.op(attention) else { return None };
    let rope_q = g.writer(q).filter(|&r| g.sole_reader(r) == Some(attention))?;
    let &Op::Rope { x: q_in, head_size: q_size, table: q_table, pairing: q_pairing, .. } = g.op(rope_q)
    else {
        return None;
    };
    // In the last layer there may be fewer rows of queries than of keys.
    if (q_size, q_table, q_pairing) != (head_size, table, pairing) || g.rows(q) != g.rows(k) {
        return None;
    }
    // The norm of heads of so many columns that operation `reader` alone reads.
    let norm_of = |x: Cols, size: u32, reader: usize| {
        let n = g.writer(x).filter(|&n| g.sole_reader(n) == Some(reader))?;
        match *g.op(n) {
            Op::RmsNorm { x, weight, group, eps, .. } if group == size => Some((n, x, weight, eps)),
            _ => None,
        }
    };
    let mut ops = vec![rope_q, rope_k, i];
    let (mut q, mut k, mut v, mut norms) = (q_in, k_in, v, None);
    if let (Some((nq, xq, Some(wq), eps)), Some((nk, xk, Some(wk), eps_k))) =
        (norm_of(q_in, head_size, rope_q), norm_of(k_in, head_size, rope_k))
        && eps == eps_k
    {
        (q, k) = (xq, xk);
        ops.extend([nq, nk]);
        let of_values = norm_of(v, g.plan.kv(kv).value_size, i).filter(|n| n.2.is_none() && n.3 == eps);
        if let Some((nv, xv, ..)) = of_values {
            v = xv;
            ops.push(nv);
        }
        norms = Some(HeadNorms { q: wq, k: wk, values: of_values.is_some(), eps });
    }
    let slice = g.writer(q).filter(|&s| g.sole_reader(s).is_some_and(|r| ops.contains(&r)));
    let gated = match slice.map(|s| (s, g.op(s))) {
        Some((s, &Op::Slice { x, stride, first: 0, len, .. }))
            if (len, stride) == (head_size, 2 * head_size) =>
        {
            ops.push(s);
            q = x;
            true
        }
        _ => false,
    };
    if !g.ready(q, i) {
        return None;
    }
    ops.sort_unstable();
    let out = g.op(rope_q).output()?;
    Some((Call::AttentionInput { q, gated, k, v, norms, head_size, table, pairing, kv, out }, ops))
}

/// The products whose outputs `Activate` number `i` joins.
fn gated(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::Activate { kind: kind @ (Activation::SwiGlu | Activation::GeGlu), gate, up, out } = g.op(i)
    else {
        return None;
    };
    let product = |c: Cols| {
        let p = g.writer(c).filter(|&p| g.sole_reader(p) == Some(i))?;
        match *g.op(p) {
            Op::Linear { x, weight, .. } => Some((p, x, weight)),
            _ => None,
        }
    };
    let ((pg, xg, gate), (pu, xu, up)) = (product(gate)?, product(up)?);
    // One kernel decodes both matrices, so their formats must agree; the file mixes them only rarely.
    let same = xg == xu && g.plan.weight(gate).format == g.plan.weight(up).format;
    same.then(|| (Call::GatedLinear { x: xg, norm: None, gate, up, kind, out }, vec![pg, pu, i]))
}

/// The slice that `SigmoidGate` number `i` alone reads its gate from.
fn gate_of_parts(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::SigmoidGate { x, gate, out } = g.op(i) else { return None };
    let s = g.writer(gate).filter(|&s| g.sole_reader(s) == Some(i))?;
    let &Op::Slice { x: gate, stride, first, len, .. } = g.op(s) else { return None };
    let parts = Some(Parts { stride, first, len });
    len.is_multiple_of(4).then_some((Call::SigmoidGate { x, gate, parts, out }, vec![s, i]))
}

/// The slices that `DeltaNet` number `i` alone reads its gates from.
fn mixed_gates(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::DeltaNet { q, k, v, alpha, beta, dt_bias, a, order, state, out } = g.op(i) else { return None };
    let sliced = |c: Cols| {
        let s = g.writer(c).filter(|&s| g.sole_reader(s) == Some(i))?;
        match *g.op(s) {
            Op::Slice { x, stride, first, len, .. } if stride == 2 * len => Some((s, x, first, len)),
            _ => None,
        }
    };
    let ((sa, both, first_a, part), (sb, both_b, first_b, part_b)) = (sliced(alpha)?, sliced(beta)?);
    let gates = Gates::Mixed { both, part };
    ((both, part) == (both_b, part_b) && (first_a, first_b) == (part, 0)).then_some((
        Call::DeltaNet { q, k, v, gates, dt_bias, a, order, state, norm: None, out },
        vec![sa, sb, i],
    ))
}

/// The norms of the query and key heads that `Conv` number `i` gives.
fn normed_heads(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::Conv { x, weight, state, out } = g.op(i) else { return None };
    let norm_at = |first: u32| {
        g.readers_of(i).find_map(|r| match *g.op(r) {
            Op::L2Norm { x, group, eps, scale, out: normed } if x.first == first => {
                Some((r, group, eps, scale, normed))
            }
            _ => None,
        })
    };
    let (nq, head_size, eps, q_scale, q) = norm_at(out.first)?;
    let (nk, size, eps_k, k_scale, k) = norm_at(out.first + q.width)?;
    let heads = 2 * q.width;
    if (size, eps_k, k.width) != (head_size, eps, q.width) || heads >= out.width {
        return None;
    }
    let values = out.part(heads, out.width - heads);
    let apart =
        |r: usize| r == nq || r == nk || g.op(r).inputs().iter().all(|c| !c.overlaps(out.part(0, heads)));
    conv::supports(x.width, 1, Some(head_size), 1).ok()?;
    let norms = Some(conv::HeadNorms { q, k, head_size, eps, q_scale, k_scale });
    (g.readers_of(i).all(apart) && !g.is_kept(out))
        .then_some((Call::Conv { x, weight, state, norms, out: values }, vec![i, nq, nk]))
}

/// Bias and residual of `Linear` number `i`.
fn epilogue(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::Linear { x, weight, mut out } = g.op(i) else { return None };
    let (mut ops, mut bias, mut residual) = (vec![i], None, None);
    if let Some(b) = g.sole_reader(i)
        && let Op::AddBias { bias: w, out: sum, .. } = *g.op(b)
    {
        (bias, out) = (Some(w), sum);
        ops.push(b);
    }
    if let Some(a) = ops.last().and_then(|&last| g.sole_reader(last))
        && let Op::Add { a: left, b: right, out: sum } = *g.op(a)
    {
        let other = if left == out { right } else { left };
        if other != out && g.ready(other, i) {
            (residual, out) = (Some(other), sum);
            ops.push(a);
        }
    }
    (ops.len() > 1).then_some((Call::Linear { x, norm: None, weight, bias, residual, out }, ops))
}

/// The norm that `Activate` number `i` alone reads and gates.
fn gated_norm(g: &Graph<'_>, i: usize) -> Option<(Call, Vec<usize>)> {
    let &Op::Activate { kind: Activation::SwiGlu, gate, up, out } = g.op(i) else { return None };
    let norm = g.writer(up).filter(|&n| g.sole_reader(n) == Some(i))?;
    let &Op::RmsNorm { x, weight, group, eps, .. } = g.op(norm) else { return None };
    Some((Call::GatedRmsNorm { x, weight, group, eps, gate, packed: None, out }, vec![norm, i]))
}

/// The call of one operation; `None` where memory alone does it.
fn single(g: &Graph<'_>, i: usize) -> Option<Call> {
    Some(match *g.op(i) {
        Op::Embed { table, scale, out } => Call::Embed { table, scale, out },
        Op::RmsNorm { x, weight, group, eps, out } => Call::RmsNorm { x, weight, group, eps, out },
        Op::L2Norm { x, group, eps, scale, out } => Call::L2Norm { x, group, eps, scale, out },
        Op::Linear { x, weight, out } => {
            Call::Linear { x, norm: None, weight, bias: None, residual: None, out }
        }
        Op::AddBias { x, bias, out } => Call::AddBias { x, bias, out },
        Op::Add { a, b, out } => Call::Add { a, b, out },
        Op::Scale { x, by, out } => Call::Scale { x, by, out },
        Op::Softcap { x, cap, out } => Call::Softcap { x, cap, out },
        Op::Rope { x, head_size, table, pairing, out } => Call::Rope { x, head_size, table, pairing, out },
        Op::KvWrite { k, v, kv } => Call::KvWrite { k, v, kv },
        Op::Attention { q, kv, heads, scale, softcap, sinks, out } => {
            Call::Attention { q, kv, heads, scale, softcap, sinks, out }
        }
        Op::Activate { kind, gate, up, out } => Call::Activate { kind, gate, up, out },
        Op::SigmoidGate { x, gate, out } => Call::SigmoidGate { x, gate, parts: None, out },
        Op::Slice { x, stride, first, len, out } => Call::Slice { x, stride, first, len, out },
        Op::Conv { x, weight, state, out } => Call::Conv { x, weight, state, norms: None, out },
        Op::DeltaNet { q, k, v, alpha, beta, dt_bias, a, order, state, out } => {
            let gates = Gates::Apart { alpha, beta };
            Call::DeltaNet { q, k, v, gates, dt_bias, a, order, state, norm: None, out }
        }
        Op::Route { logits, order, out } => Call::Route { logits, order, out },
        Op::ExpertLinear { x, weight, choice, out } => {
            Call::ExpertLinear { x, weight, bias: None, choice, out }
        }
        Op::ExpertBias { x, bias, choice, out } => Call::ExpertBias { x, bias, choice, out },
        Op::ExpertSum { x, choice, scale, out } => Call::ExpertSum { x, choice, scale, out },
        // The rows that want logits are the last ones, so their buffer is a part of the other one.
        Op::SelectLogits { .. } => return None,
    })
}
