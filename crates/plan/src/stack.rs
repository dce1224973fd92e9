//! Products of one input as one product.

use crate::op::{Activation, Op};
use crate::operand::{ActId, Cols, WeightId};
use crate::spec::{Act, Node, Plan, Rows, Weight};
use zinc_quant::FormatRef;

/// Products that can be one: what they must have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kind {
    layer: Option<u32>,
    x: Cols,
    rows: Rows,
    format: FormatRef,
    /// Format of the biases, where each has one.
    bias: Option<FormatRef>,
}

/// A product, and the bias that its output gets.
#[derive(Debug, Clone, Copy)]
struct Product {
    kind: Kind,
    op: usize,
    weight: WeightId,
    /// The operation that adds it, and the vector.
    bias: Option<(usize, WeightId)>,
    /// What the others read.
    out: Cols,
}

/// Who names what.
struct Uses {
    /// How many operations read each weight.
    weights: Vec<usize>,
    /// The operations that read and write each buffer.
    readers: Vec<Vec<usize>>,
    writers: Vec<Vec<usize>>,
}

impl Uses {
    fn of(plan: &Plan) -> Uses {
        let acts = vec![vec![]; plan.acts.len()];
        let mut uses = Uses { weights: vec![0; plan.weights.len()], readers: acts.clone(), writers: acts };
        for (i, op) in plan.ops.iter().map(|n| &n.op).enumerate() {
            op.weights().iter().for_each(|w| uses.weights[w.index()] += 1);
            op.inputs().iter().for_each(|c| uses.readers[c.act.index()].push(i));
            op.output().iter().for_each(|c| uses.writers[c.act.index()].push(i));
        }
        uses
    }
}

impl Plan {
    /// Makes one product of those of a layer that have the same input and the same format of weights: queries, keys and values, say. Their weights become
    /// one [`Weight`] of several tensors, so do their biases, and who read an output reads its part of the common one. A small product leaves most of
    /// a device idle, and each has a cost of its own.
    ///
    /// A gate and its `up` stay two products: there are kernels that join them. So does what is not a whole number of 4 columns, unless it is the last.
    pub fn stack(mut self) -> Plan {
        let groups = self.groups();
        // For each buffer that is a part of another one now: which, and from which column on.
        let mut moved: Vec<Option<(ActId, u32)>> = vec![None; self.acts.len()];
        let mut new: Vec<Vec<Node>> = vec![vec![]; self.ops.len()];
        let mut gone = vec![false; self.ops.len()];
        for group in groups {
            for p in &group {
                gone[p.op] = true;
                p.bias.iter().for_each(|&(op, _)| gone[op] = true);
            }
            let at = group[0].op;
            new[at] = self.join(&group, &mut moved);
        }
        let mut ops = Vec::with_capacity(self.ops.len());
        for ((node, gone), new) in std::mem::take(&mut self.ops).into_iter().zip(gone).zip(new) {
            ops.extend(new);
            if !gone {
                ops.push(node);
            }
        }
        let follow = |c: &mut Cols| {
            if let Some(&Some((act, first))) = moved.get(c.act.index()) {
                (c.act, c.first) = (act, c.first + first);
            }
        };
        ops.iter_mut().flat_map(|n| n.op.inputs_mut()).for_each(follow);
        follow(&mut self.logits);
        Plan { ops, ..self }.compact()
    }

    /// The products that become one, in order.
    fn groups(&self) -> Vec<Vec<Product>> {
        let uses = Uses::of(self);
        let mut groups: Vec<Vec<Product>> = vec![];
        for product in (0..self.ops.len()).filter_map(|i| self.product(i, &uses)) {
            let open = |g: &&mut Vec<Product>| {
                let last = g[g.len() - 1];
                last.kind == product.kind && last.out.width.is_multiple_of(4)
            };
            // Those of a layer lie near one another.
            match groups.iter_mut().rev().take(8).find(open) {
                Some(group) => group.push(product),
                None => groups.push(vec![product]),
            }
        }
        groups.retain(|g| g.len() > 1);
        groups
    }

    /// Operation `i` as a product that may be joined with others.
    fn product(&self, i: usize, uses: &Uses) -> Option<Product> {
        let Op::Linear { x, weight, out } = self.ops[i].op else { return None };
        let whole = |c: Cols| c.first == 0 && c.width == self.act(c.act).width;
        let readers = &uses.readers[out.act.index()];
        let joined = readers.iter().any(|&j| self.is_gate(j, x, uses));
        if joined || !whole(out) || uses.weights[weight.index()] != 1 || self.logits.overlaps(out) {
            return None;
        }
        let (bias, out) = match readers[..] {
            [j] => match self.ops[j].op {
                Op::AddBias { bias, out, .. } => (Some((j, bias)), out),
                _ => (None, out),
            },
            _ => (None, out),
        };
        if !whole(out) || bias.is_some_and(|(_, b)| uses.weights[b.index()] != 1) {
            return None;
        }
        let format = |w: WeightId| self.weight(w).format;
        let kind = Kind {
            layer: self.ops[i].layer,
            x,
            rows: self.act(out.act).rows,
            format: format(weight),
            bias: bias.map(|(_, b)| format(b)),
        };
        Some(Product { kind, op: i, weight, bias, out })
    }

    /// Whether operation `j` is an activation of two products of `x`.
    fn is_gate(&self, j: usize, x: Cols, uses: &Uses) -> bool {
        let Op::Activate { kind: Activation::SwiGlu | Activation::GeGlu, gate, up, .. } = self.ops[j].op
        else {
            return false;
        };
        let of_x = |c: Cols| {
            let writers = uses.writers[c.act.index()].iter().map(|&w| &self.ops[w].op);
            writers.into_iter().any(|op| matches!(*op, Op::Linear { x: from, .. } if from == x))
        };
        of_x(gate) && of_x(up)
    }

    /// The operations that do a group's work.
    fn join(&mut self, group: &[Product], moved: &mut [Option<(ActId, u32)>]) -> Vec<Node> {
        let Product { kind: Kind { layer, x, rows, .. }, .. } = group[0];
        let labels: Vec<&str> = group.iter().map(|p| self.ops[p.op].label).collect();
        let label = joined_label(&labels);
        let width: u32 = group.iter().map(|p| p.out.width).sum();
        let act = |plan: &mut Plan| {
            plan.acts.push(Act { name: label, width: width.next_multiple_of(4), rows });
            Cols { act: ActId(plan.acts.len() as u32 - 1), first: 0, width }
        };
        let weight = self.stacked(group.iter().map(|p| p.weight), |all, part| all.m += part.m);
        let mut out = act(self);
        let mut nodes = vec![Node { layer, label, op: Op::Linear { x, weight, out } }];
        let biases: Vec<WeightId> = group.iter().filter_map(|p| p.bias).map(|(_, b)| b).collect();
        if !biases.is_empty() {
            let bias = self.stacked(biases.into_iter(), |all, part| all.k += part.k);
            let x = out;
            out = act(self);
            nodes.push(Node { layer, label, op: Op::AddBias { x, bias, out } });
        }
        let mut first = 0;
        for p in group {
            moved[p.out.act.index()] = Some((out.act, first));
            first += p.out.width;
        }
        nodes
    }

    /// A weight of several, each of which `add` adds.
    fn stacked(&mut self, parts: impl Iterator<Item = WeightId>, add: fn(&mut Weight, &Weight)) -> WeightId {
        let all = parts.map(|w| self.weight(w).clone()).reduce(|mut all, part| {
            add(&mut all, &part);
            all.tensors.extend(part.tensors);
            all
        });
        self.weights.extend(all);
        WeightId(self.weights.len() as u32 - 1)
    }

    /// Without the buffers and weights that nothing names.
    fn compact(mut self) -> Plan {
        let (mut acts, mut weights) = (vec![false; self.acts.len()], vec![false; self.weights.len()]);
        for op in self.ops.iter().map(|n| &n.op) {
            op.inputs().iter().chain(&op.output()).for_each(|c| acts[c.act.index()] = true);
            op.weights().iter().for_each(|w| weights[w.index()] = true);
        }
        acts[self.logits.act.index()] = true;
        let (acts, weights) = (numbers(&mut self.acts, &acts), numbers(&mut self.weights, &weights));
        for op in self.ops.iter_mut().map(|n| &mut n.op) {
            op.inputs_mut().into_iter().for_each(|c| c.act = ActId(acts[c.act.index()]));
            op.output_mut().into_iter().for_each(|c| c.act = ActId(acts[c.act.index()]));
            op.weights_mut().into_iter().for_each(|w| *w = WeightId(weights[w.index()]));
        }
        self.logits.act = ActId(acts[self.logits.act.index()]);
        self
    }
}

/// Keeps what is named; the new number of each.
fn numbers<T>(all: &mut Vec<T>, named: &[bool]) -> Vec<u32> {
    let new = named.iter().scan(0, |next, &named| {
        let own = *next;
        *next += u32::from(named);
        Some(own)
    });
    let new = new.collect();
    let mut named = named.iter();
    all.retain(|_| named.next().copied().unwrap_or(true));
    new
}

/// What reports call products that have become one.
fn joined_label(labels: &[&str]) -> &'static str {
    match labels {
        ["q", "k", "v"] => "qkv",
        ["q", "k"] => "qk",
        ["q", "v"] => "qv",
        ["k", "v"] => "kv",
        ["qkv", "z"] => "qkv_z",
        ["qkv", "z", ..] => "delta_inputs",
        ["alpha", "beta"] => "alpha_beta",
        ["router", "shared_gate_logit"] => "router_shared_gate",
        _ => "products",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KvId, KvSpec};

    fn cols(act: u32, width: u32) -> Cols {
        Cols { act: ActId(act), first: 0, width }
    }

    /// Buffers: 0 input, 1 to 3 products of it, 4 to 6 what becomes of them.
    fn plan(formats: [&str; 3], widths: [u32; 3], biased: bool) -> Plan {
        let mut weights = vec![Weight {
            tensors: vec!["table".into()],
            format: zinc_quant::by_name("F32").expect("a format"),
            k: 8,
            m: 16,
            experts: 1,
        }];
        let node = |op| Node { layer: Some(0), label: "op", op };
        let mut ops = vec![node(Op::Embed { table: WeightId(0), scale: 1.0, out: cols(0, 8) })];
        for (i, (name, m)) in formats.into_iter().zip(widths).enumerate() {
            let (tensors, format) = (vec![format!("w{i}")], zinc_quant::by_name(name).expect("a format"));
            weights.push(Weight { tensors, format, k: 8, m, experts: 1 });
            let (weight, out) = (WeightId(weights.len() as u32 - 1), cols(1 + i as u32, m));
            ops.push(node(Op::Linear { x: cols(0, 8), weight, out }));
            let biased_out = cols(4 + i as u32, m);
            if biased {
                let format = zinc_quant::by_name("F32").expect("a format");
                weights.push(Weight { tensors: vec![format!("b{i}")], format, k: m, m: 1, experts: 1 });
                let bias = WeightId(weights.len() as u32 - 1);
                ops.push(node(Op::AddBias { x: out, bias, out: biased_out }));
            } else {
                ops.push(node(Op::Softcap { x: out, cap: 1.0, out: biased_out }));
            }
        }
        let kv = KvId(0);
        ops.push(node(Op::KvWrite { k: cols(5, widths[1]), v: cols(6, widths[2]), kv }));
        ops.push(node(Op::Softcap { x: cols(4, widths[0]), cap: 1.0, out: cols(7, widths[0]) }));
        let width =
            |i: usize| [8, widths[0], widths[1], widths[2], widths[0], widths[1], widths[2], widths[0]][i];
        Plan {
            acts: (0..8).map(|i| Act { name: "x", width: width(i), rows: Rows::Batch }).collect(),
            weights,
            ropes: vec![],
            kv: vec![KvSpec { heads: 1, key_size: widths[1], value_size: widths[2], window: None }],
            states: vec![],
            ops,
            logits: cols(7, widths[0]),
        }
    }

    fn shapes(plan: &Plan) -> Vec<(String, u32, u32)> {
        plan.weights.iter().map(|w| (w.name(), w.k, w.m)).collect()
    }

    #[test]
    fn products_of_one_input_and_format_become_one_and_readers_follow() {
        let plan = plan(["Q8_0", "Q8_0", "Q8_0"], [8, 4, 4], false).stack();
        assert_eq!(plan.check(), Ok(()));
        assert_eq!(shapes(&plan), [("table".into(), 8, 16), ("w0 + w1 + w2".into(), 8, 16)]);
        let read: Vec<(u32, u32)> =
            plan.ops[2..5].iter().map(|n| n.op.inputs()[0]).map(|c| (c.first, c.width)).collect();
        assert_eq!(read, [(0, 8), (8, 4), (12, 4)]);
    }

    #[test]
    fn biases_are_stacked_with_their_products() {
        let plan = plan(["F32"; 3], [4, 4, 4], true).stack();
        assert_eq!(plan.check(), Ok(()));
        let want = [("table", 8, 16), ("w0 + w1 + w2", 8, 12), ("b0 + b1 + b2", 12, 1)];
        assert_eq!(shapes(&plan), want.map(|(n, k, m)| (n.to_string(), k, m)));
        let names: Vec<_> = plan.ops.iter().map(|n| n.op.name()).collect();
        assert_eq!(names, ["embed", "linear", "add_bias", "kv_write", "softcap"]);
    }

    #[test]
    fn other_formats_stay_and_an_odd_width_is_last() {
        let mixed = plan(["Q8_0", "F16", "Q8_0"], [8, 4, 4], false).stack();
        assert_eq!(mixed.check(), Ok(()));
        assert_eq!(shapes(&mixed)[1..], [("w1".into(), 8, 4), ("w0 + w2".into(), 8, 12)]);
        let odd = plan(["F32"; 3], [8, 1, 4], false).stack();
        assert_eq!(odd.check(), Ok(()));
        assert_eq!(shapes(&odd)[1..], [("w2".into(), 8, 4), ("w0 + w1".into(), 8, 9)]);
        assert!(odd.acts.iter().any(|a| a.width == 12), "rows stay aligned: {:?}", odd.acts);
    }
}
