use super::*;
use std::collections::BTreeSet;
use zinc_gguf::Gguf;
use zinc_model::Model;
use zinc_plan::{Act, ActId, Cols};
use zinc_testkit::ARCHITECTURES;

/// A device that nobody owns.
fn caps() -> Capabilities {
    let mut caps = Capabilities::default();
    caps.subgroup.size = 32;
    caps.subgroup.max_workgroup_subgroups = 32;
    caps.limits.shared_memory = 32 << 10;
    caps.limits.workgroup_invocations = 1024;
    caps.features.integer_dot = true;
    caps
}

fn with_target<T>(fuse: bool, keep: bool, f: impl FnOnce(&Target<'_>) -> T) -> T {
    let caps = caps();
    let policy = Policy::of(&caps);
    let (precision, kv_type) = (Precision::Exact, KvType::F16);
    f(&Target { caps: &caps, policy: &policy, precision, kv_type, cut: &Cut::Policy, fuse, keep })
}

/// Of the fast policy.
fn fast(plan: &Plan, fuse: bool, rows: u32, logit_rows: u32) -> Schedule {
    with_target(fuse, false, |t| {
        compile(plan, &Target { precision: Precision::Fast, ..*t }, Shape::new(rows, logit_rows))
    })
    .unwrap()
}

fn plan_of(fixture: &str) -> Plan {
    let file = &zinc_testkit::fixtures(fixture)[0];
    Model::from_gguf(&Gguf::open(&file.model).unwrap()).unwrap().plan
}

fn schedule(plan: &Plan, fuse: bool, rows: u32, logit_rows: u32) -> Schedule {
    with_target(fuse, false, |t| compile(plan, t, Shape::new(rows, logit_rows))).unwrap()
}

fn names(s: &Schedule, layer: u32) -> Vec<(&'static str, &'static str)> {
    s.steps.iter().filter(|s| s.layer == Some(layer)).map(|s| (s.label, s.call.name())).collect()
}

#[test]
fn a_qwen3_layer_is_seven_calls_in_seven_epochs() {
    let plan = plan_of("qwen3");
    let s = schedule(&plan, true, 1, 1);
    let want = [
        ("attn_norm", "rms_norm"),
        ("qkv", "linear"),
        ("attention", "decode_attention"),
        ("o", "linear"),
        ("ffn_norm", "rms_norm"),
        ("ffn_act", "gated_linear"),
        ("ffn_down", "linear"),
    ];
    assert_eq!(names(&s, 1), want);
    let with_residual = |label| {
        s.steps.iter().any(|s| s.label == label && matches!(s.call, Call::Linear { residual: Some(_), .. }))
    };
    assert!(with_residual("o") && with_residual("ffn_down"));
    // embed, 3 layers, final norm, head.
    assert_eq!(s.scratch.epochs, 1 + 3 * 7 + 2);
    // Of two rows one may see the key of the other, unless they are of different sequences.
    let two = schedule(&plan, true, 2, 2);
    assert!(two.steps.iter().all(|s| s.call.name() != "decode_attention"));
    let apart = with_target(true, false, |t| compile(&plan, t, Shape::apart(2))).unwrap();
    assert_eq!(names(&apart, 1), want);
}

#[test]
fn biases_join_their_products_and_residuals_join_norms() {
    let qwen2 = schedule(&plan_of("qwen2"), true, 1, 1);
    let biased = qwen2.steps.iter().filter(|s| matches!(s.call, Call::Linear { bias: Some(_), .. })).count();
    // Queries, keys and values of another format are apart, and queries behind the last cache.
    assert_eq!(biased, 5);
    let gemma3 = schedule(&plan_of("gemma3"), true, 1, 1);
    let layer: Vec<_> = names(&gemma3, 0).into_iter().map(|n| n.1).collect();
    assert_eq!(layer.iter().filter(|n| **n == "chain").count(), 2, "{layer:?}");
}

#[test]
fn a_shape_is_compiled_as_it_would_be_alone() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        with_target(true, false, |target| {
            let mut compiler = Compiler::new(&plan, target);
            for rows in [1, 2, 8, 64, 500] {
                for logit_rows in [0, 1, 4, rows].into_iter().filter(|&n| n <= rows) {
                    let shape = Shape::new(rows, logit_rows);
                    assert_eq!(compiler.compile(shape), compile(&plan, target, shape), "{name}: {shape:?}");
                }
            }
        });
    }
}

#[test]
fn every_live_operation_is_done_once() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        for (fuse, rows, logit_rows) in [(true, 1, 1), (true, 7, 7), (true, 7, 2), (false, 3, 1)] {
            let s = schedule(&plan, fuse, rows, logit_rows);
            let done: Vec<usize> = s.steps.iter().flat_map(|s| s.ops.iter().copied()).collect();
            let unique: BTreeSet<usize> = done.iter().copied().collect();
            assert_eq!(done.len(), unique.len(), "{name}: an operation is done twice");
            for (i, node) in plan.ops.iter().enumerate() {
                let alias = matches!(node.op, Op::SelectLogits { .. });
                assert!(
                    alias || unique.contains(&i),
                    "{name}: `{}` of {:?} is missing",
                    node.label,
                    node.layer
                );
            }
            let selections = plan.ops.iter().filter(|n| matches!(n.op, Op::SelectLogits { .. })).count();
            assert!(fuse || s.steps.len() + selections == plan.ops.len(), "{name}");
        }
    }
}

#[test]
fn without_a_head_nothing_is_computed_after_the_last_cache() {
    let plan = plan_of("qwen3");
    let s = schedule(&plan, true, 8, 0);
    let last: Vec<_> = names(&s, 2).into_iter().map(|n| n.0).collect();
    assert_eq!(last, ["attn_norm", "kv", "k_norm", "k_rope", "kv_write"], "no query either");
    assert!(s.steps.iter().all(|s| s.layer.is_some() || s.label == "embed"));
}

/// Behind the last cache only the rows with logits are computed; the projections of keys and values see all of them.
/// A conversion to f16 serves all products that read its rows, and a norm converts its own.
#[test]
fn products_of_the_same_rows_share_a_conversion() {
    let plan = plan_of("qwen3");
    let want = [
        ("attn_norm", "chain"),
        ("qkv", "linear"),
        ("kv_write", "attention_input"),
        ("attention", "attention"),
        ("convert", "convert"),
        ("o", "linear"),
        ("ffn_norm", "chain"),
        ("ffn_act", "gated_linear"),
        ("convert", "convert"),
        ("ffn_down", "linear"),
    ];
    assert_eq!(names(&fast(&plan, true, 64, 1), 1), want);
    let few = fast(&plan, true, 4, 4);
    assert!(few.steps.iter().all(|s| !["convert", "chain"].contains(&s.call.name())), "few rows are not");
}

/// A dense layer of one row is five calls where products round their rows, and norm them.
#[test]
fn integer_products_norm_their_rows() {
    let file = zinc_testkit::fixtures("qwen3").into_iter().find(|f| f.quant == "q4_k_m").unwrap();
    let plan = Model::from_gguf(&Gguf::open(&file.model).unwrap()).unwrap().plan;
    let one = fast(&plan, true, 1, 1);
    let want = [
        ("qkv", "linear"),
        ("attention", "decode_attention"),
        ("o", "linear"),
        ("ffn_act", "gated_linear"),
        ("ffn_down", "linear"),
    ];
    assert_eq!(names(&one, 1), want);
    let gated = one.steps.iter().find(|s| s.label == "ffn_act").map(|s| s.call.clone());
    assert!(matches!(gated, Some(Call::GatedLinear { norm: Some(_), .. })), "{gated:?}");
    // Embeddings read the final norm's output after the step.
    let last: Vec<_> = one.steps.iter().rev().take(2).map(|s| s.call.name()).collect();
    assert_eq!(last, ["linear", "rms_norm"]);
    let apart = fast(&plan, false, 1, 1);
    assert!(apart.steps.iter().any(|s| s.label == "attn_norm"), "without fusion each operation is a call");
}

/// So is one of Gemma's: what norms and sums are between the products is done by those that read it, and one of them stores the row.
#[test]
fn integer_products_end_sublayers() {
    let file = zinc_testkit::fixtures("gemma4").into_iter().find(|f| f.quant == "q4_k_m").unwrap();
    let plan = Model::from_gguf(&Gguf::open(&file.model).unwrap()).unwrap().plan;
    let one = fast(&plan, true, 1, 1);
    let chains = |s: &Schedule| s.steps.iter().filter(|s| s.call.name() == "chain").count();
    let layers = plan.ops.iter().filter_map(|n| n.layer).max().unwrap() as usize + 1;
    assert_eq!(chains(&one), 1, "the norm behind the last layer is the head's own: {:?}", names(&one, 1));
    assert_eq!(chains(&fast(&plan, true, 2, 2)), 2 * layers, "several rows have chains");
    let stored: Vec<_> = (one.steps.iter())
        .filter_map(|s| match s.call {
            Call::Linear { norm, .. } | Call::GatedLinear { norm, .. } => norm?.sublayer?.out,
            _ => None,
        })
        .collect();
    assert_eq!(stored.len(), 2 * layers - 1, "each row is stored once");
    assert!(stored.iter().all(|out| one.steps.iter().any(|s| s.call.reads().contains(out))));
}

#[test]
fn the_last_layer_computes_rows_without_logits_only_for_its_cache() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        let last = plan.ops.iter().filter_map(|n| n.layer).max();
        let s = schedule(&plan, true, 8, 2);
        let rows = |s: &Step| s.call.writes().first().map(|c| Shape::new(8, 2).of(plan.act(c.act).rows));
        let all: Vec<_> =
            s.steps.iter().filter(|s| s.layer == last && rows(s) == Some(8)).map(|s| s.label).collect();
        let for_the_cache = ["attn_norm", "k", "v", "kv", "k_norm", "v_norm", "k_rope", "ffn_residual"];
        assert!(all.iter().all(|l| for_the_cache.contains(l)), "{name}: {all:?}");
        assert!((all.contains(&"k") || all.contains(&"kv")) && all.len() < 7, "{name}: {all:?}");
        let products =
            s.steps.iter().filter(|s| matches!(s.call, Call::Linear { .. } | Call::GatedLinear { .. }));
        assert!(products.clone().count() > 0 && products.clone().all(|s| s.product.is_some()));
    }
}

/// The memory for sums of parts is for one product: the next ones have the same.
#[test]
fn products_share_the_memory_of_their_sums() {
    let plan = plan_of("qwen3");
    let mut steps = fast(&plan, true, 64, 1).steps;
    let packed: Vec<_> =
        (0..steps.len()).map(|_| Act { name: "work", width: 1, rows: Rows::Batch }).collect();
    let mut behind = vec![];
    for (i, step) in steps.iter_mut().enumerate().filter(|(_, s)| s.product.is_some()) {
        let id = ActId((plan.acts.len() + i) as u32);
        step.work = Some(id);
        behind.push((id, 1 << 20));
    }
    // Conversions read and write buffers that are not in this list.
    steps.retain(|s| s.product.is_some());
    for step in &mut steps {
        if let Call::Linear { x, .. } | Call::GatedLinear { x, .. } = &mut step.call
            && x.act.index() >= plan.acts.len()
        {
            *x = Cols { act: ActId(0), first: 0, width: 1 };
        }
    }
    let shape = Shape::new(64, 1);
    let scratch = scratch::assign(&plan, &packed, &steps, (&[], &behind), shape, true);
    assert!(behind.len() > 12 && scratch.bytes < 12 << 20, "{} for {}", scratch.bytes, behind.len());
}

/// First byte and end.
type Bytes = (u64, u64);

/// The bytes of the columns' rows.
fn bytes(s: &Schedule, c: Cols) -> Bytes {
    let p = s.scratch.places[c.act.index()].unwrap();
    let start = p.offset + u64::from(c.first) * 4;
    (start, start + (u64::from(p.rows - 1) * u64::from(p.stride) + u64::from(c.width)) * 4)
}

/// Runs a schedule on names instead of numbers: each word of memory holds the buffer that was written last. A step must find the
/// buffers that it names.
#[test]
fn shared_memory_is_never_overwritten_before_it_was_read() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        let exact = [(1, 1), (5, 1), (5, 3), (4, 4), (6, 0)].map(|c| (c, Precision::Exact));
        let cases = exact.into_iter().chain([(64, 1), (64, 64), (64, 0)].map(|c| (c, Precision::Fast)));
        for (((rows, logit_rows), precision), fuse) in cases.flat_map(|c| [(c, true), (c, false)]) {
            let s = match precision {
                Precision::Exact => schedule(&plan, fuse, rows, logit_rows),
                Precision::Fast => fast(&plan, fuse, rows, logit_rows),
            };
            let aliased = |act: ActId| {
                let of = plan.ops.iter().find_map(|n| match n.op {
                    Op::SelectLogits { x, out } if out.act == act => Some(x.act),
                    _ => None,
                });
                of.unwrap_or(act)
            };
            let mut memory: Vec<Option<ActId>> = vec![None; s.scratch.bytes as usize / 4];
            let words = |c: Cols| {
                let (start, end) = bytes(&s, c);
                start as usize / 4..end as usize / 4
            };
            for step in &s.steps {
                for c in step.call.reads() {
                    let act = Some(aliased(c.act));
                    let holds = memory[words(c)].iter().all(|&w| w == act);
                    assert!(holds, "{name}, {rows} rows: `{}` reads what is gone", step.full_label());
                }
                for c in step.call.writes() {
                    memory[words(c)].fill(Some(c.act));
                }
            }
        }
    }
}

/// Barriers as the recorder derives them from bytes equal those that the operations need: sharing memory costs none.
#[test]
fn shared_memory_costs_no_barrier() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        for (rows, logit_rows) in [(1, 1), (8, 8), (8, 1), (64, 1), (64, 64)] {
            let s = if rows < 64 {
                schedule(&plan, true, rows, logit_rows)
            } else {
                fast(&plan, true, rows, logit_rows)
            };
            let mut barriers = 0;
            let (mut read, mut written): (Vec<Bytes>, Vec<Bytes>) = (vec![], vec![]);
            let mut caches: Vec<(zinc_plan::KvId, bool)> = vec![];
            for step in &s.steps {
                let reads: Vec<_> = step.call.reads().into_iter().map(|c| bytes(&s, c)).collect();
                let writes: Vec<_> = step.call.writes().into_iter().map(|c| bytes(&s, c)).collect();
                let meet =
                    |a: &[Bytes], b: &[Bytes]| a.iter().any(|x| b.iter().any(|y| x.0 < y.1 && y.0 < x.1));
                let cache = step.call.cache();
                let same = cache.is_some_and(|(id, w)| caches.iter().any(|&(o, ow)| o == id && (w || ow)));
                if meet(&reads, &written) || meet(&writes, &written) || meet(&writes, &read) || same {
                    barriers += 1;
                    read.clear();
                    written.clear();
                    caches.clear();
                }
                read.extend(reads);
                written.extend(writes);
                caches.extend(cache);
            }
            assert_eq!(barriers + 1, s.scratch.epochs, "{name}, {rows} rows");
        }
    }
}

#[test]
fn memory_is_shared() {
    let plan = plan_of("qwen3");
    let shape = Shape::new(4, 1);
    for fuse in [true, false] {
        let shared = schedule(&plan, fuse, 4, 1);
        let kept = with_target(fuse, true, |t| compile(&plan, t, shape)).unwrap();
        let (a, b) = (shared.scratch.bytes, kept.scratch.bytes);
        assert!(a * 3 < b, "{a} {b}");
        assert_eq!(shared.steps, kept.steps, "memory alone differs");
    }
}

/// Kept activations do not share a byte.
#[test]
fn kept_activations_stay_until_the_end() {
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        for (fuse, logit_rows) in [(true, 1), (false, 5), (true, 2)] {
            let s = with_target(fuse, true, |t| compile(&plan, t, Shape::new(5, logit_rows))).unwrap();
            let mut spans: Vec<Bytes> =
                s.steps.iter().flat_map(|step| step.call.writes()).map(|c| bytes(&s, c)).collect();
            spans.sort_unstable();
            assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "{name}");
        }
    }
}

#[test]
fn what_has_no_kernel_is_named() {
    let mut plan = plan_of("qwen3moe");
    let down =
        plan.ops.iter().find(|n| n.layer == Some(1) && n.label == "expert_down").unwrap().op.weights()[0];
    plan.weights[down.index()].k = 250;
    let no = with_target(true, false, |t| compile(&plan, t, Shape::new(3, 3))).unwrap_err();
    assert_eq!((no.label.as_str(), no.layer, no.rows), ("expert_down", Some(1), 3));
    assert!(no.to_string().contains("layer 1") && no.reason.contains("250"), "{no}");
}

/// Where no logits are wanted, the last layer needs its keys and values alone, whatever follows them.
#[test]
fn the_last_layer_without_a_head_is_keys_and_values() {
    let mut plan = plan_of("qwen3moe");
    let last = plan.ops.iter().filter_map(|n| n.layer).max();
    plan.ops.retain(|n| n.layer == last);
    let steps = fuse::lower(&fuse::Graph::new(&plan, Shape::new(2, 0)), true);
    let labels: Vec<&str> = steps.iter().map(|s| s.label).collect();
    assert_eq!(labels, ["attn_norm", "k", "v", "k_norm", "k_rope", "kv_write"]);
}

/// What follows the router is few calls: experts are never computed one by one.
#[test]
fn a_layer_of_experts_is_few_calls() {
    let calls = |name: &str, rows| names(&schedule(&plan_of(name), true, rows, 1), 0);
    let of_experts = |name| -> Vec<_> {
        let all = calls(name, 8);
        let from = all.iter().position(|c| c.1 == "route").unwrap();
        all[from..].iter().map(|c| c.1).collect()
    };
    let usual = ["route", "gated_experts", "expert_linear", "chain"];
    for name in ["qwen3moe", "qwen35moe", "qwen3next", "gemma4moe", "gptoss"] {
        assert_eq!(of_experts(name), usual, "{name}");
        let (few, many) = (calls(name, 8), calls(name, 512));
        assert_eq!(few, many, "{name}");
    }
}

/// Prefill and decode of each architecture's layers, in dispatches: what issue and documents say of them.
#[test]
fn a_layer_is_fewer_than_twenty_dispatches() {
    // Experts of many rows are packed by a dispatch more; a delta net in chunks takes two, and one for short parts.
    let dispatches = |s: &Schedule, layer| {
        let of = |s: &&Step| s.layer == Some(layer);
        let more = |step: &Step| match step.call {
            Call::Route { .. } if s.shape.rows > 1 => 1,
            Call::DeltaNet { .. } if step.work.is_some() => 2,
            _ => 0,
        };
        s.steps.iter().filter(of).map(|s| 1 + more(s)).sum::<usize>()
    };
    for name in ARCHITECTURES {
        let plan = plan_of(name);
        let layers = plan.ops.iter().filter_map(|n| n.layer).max().unwrap() + 1;
        let whole = fast(&plan, true, 512, 512);
        // Gemma 4's have a dense FFN beside the experts, each with norms of its own.
        let limit = if name == "gemma4moe" { 22 } else { 20 };
        let of_layers: Vec<usize> = (0..layers).map(|layer| dispatches(&whole, layer)).collect();
        assert!(of_layers.iter().all(|&n| n < limit), "{name}: {of_layers:?} with logits of all rows");
        let counts = |rows, precision: fn(&Plan, bool, u32, u32) -> Schedule| -> Vec<usize> {
            let s = precision(&plan, true, rows, 1);
            (0..layers).map(|layer| dispatches(&s, layer)).collect()
        };
        let decode = counts(1, schedule);
        let (exact, tiles) = (counts(512, schedule), counts(512, fast));
        println!("{name}: decode {decode:?}, prefill {exact:?}, fast {tiles:?}");
        // Behind the last cache queries are computed for the rows with logits alone, apart from keys.
        let most = |counts: &[usize]| counts[..counts.len() - 1].iter().copied().max();
        assert!(most(&exact) < Some(20) && most(&tiles) < Some(limit), "{name}: {exact:?} {tiles:?}");
        assert_eq!((exact, tiles), (counts(2048, schedule), counts(2048, fast)), "{name}");
    }
}

/// A row of a hybrid with experts: what decides over experts is one call, norms are in the delta net's, a shared expert beside the routed ones.
#[test]
fn a_row_of_a_hybrid_is_eight_epochs() {
    let plan = plan_of("qwen35moe");
    let one = fast(&plan, true, 1, 1);
    let want = [
        ("delta_inputs", "linear"),
        ("conv", "conv"),
        ("delta_gate", "delta_net"),
        ("delta_out", "linear"),
        ("route", "decide"),
        ("shared_act", "gated_linear"),
        ("expert_act", "gated_experts"),
        ("shared_down", "linear"),
        ("expert_down", "expert_linear"),
        ("ffn_residual", "chain"),
    ];
    assert_eq!(names(&one, 1), want);
    // Queries are taken from between their gates, and results gated, where attention is.
    let attention: Vec<_> = names(&one, 3).into_iter().map(|n| n.1).collect();
    assert_eq!(attention[3..6], ["decode_attention", "linear", "decide"], "{attention:?}");
    // embed, three such layers, one of attention, whose chain has the final norm, head.
    assert_eq!(one.scratch.epochs, 1 + 3 * 8 + 7 + 1);
    // The exact policy routes with the sums that many rows have.
    assert!(schedule(&plan, true, 1, 1).steps.iter().all(|s| s.call.name() != "decide"));
}

/// Delta nets of many rows have memory for their chunks under the fast policy alone.
#[test]
fn long_parts_of_a_delta_net_are_done_in_chunks() {
    let plan = plan_of("qwen35");
    let chunked = |s: Schedule| {
        let mut nets = s.steps.iter().filter(|s| s.call.name() == "delta_net").peekable();
        assert!(nets.peek().is_some());
        nets.map(|s| s.work.is_some()).collect::<BTreeSet<bool>>()
    };
    assert_eq!(chunked(fast(&plan, true, 512, 1)), [true].into());
    assert_eq!(chunked(fast(&plan, true, 64, 1)), [false].into());
    assert_eq!(chunked(schedule(&plan, true, 512, 1)), [false].into());
}

/// A row of GPT-OSS: the router's bias is no reason to route apart.
#[test]
fn a_biased_router_decides_in_one_call() {
    let one = fast(&plan_of("gptoss"), true, 1, 1);
    let calls: Vec<_> = names(&one, 1).into_iter().map(|n| n.1).collect();
    let experts = ["decide", "gated_experts", "expert_linear", "chain"];
    assert_eq!(calls[calls.len() - 4..], experts, "{calls:?}");
}

/// Gemma 4 norms its values: where keys are, for a single row and for many.
#[test]
fn norms_of_values_are_no_calls() {
    let plan = plan_of("gemma4");
    for (rows, logit_rows) in [(1, 1), (64, 64)] {
        let s = schedule(&plan, true, rows, logit_rows);
        let own: Vec<_> = s.steps.iter().filter(|s| s.label == "v_norm").collect();
        assert!(own.is_empty(), "{own:?}");
    }
}
