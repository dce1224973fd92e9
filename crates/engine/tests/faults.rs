//! Validate mode proves itself: a fault in each kind of operation is found, and named by operation, layer, row and element.
#![cfg(feature = "fault-injection")]

mod common;

use common::vulkan;
use std::collections::HashSet;
use std::sync::Mutex;
use zinc_engine::{Engine, Error, Fault, KvType, ValidateOptions, ValidationReport, Want};
use zinc_plan::{Op, Plan};
use zinc_testkit::fixtures;

const HISTORY: usize = 2;
const TOKENS: usize = 4;
const CHUNK: usize = 2;

/// Before the last layer, so that every row of every operation reaches a cache.
const LAYER: u32 = 1;

struct Bench {
    engine: Engine,
    fuse: bool,
    name: &'static str,
}

fn bench(name: &'static str, kv_type: KvType, fuse: bool) -> Bench {
    let mut options = common::options(kv_type);
    (options.chunk, options.fuse) = (Some(CHUNK as u32), fuse);
    Bench { engine: vulkan(&fixtures(name)[0].model, &options), fuse, name }
}

impl Bench {
    fn plan(&self) -> &Plan {
        &self.engine.model().plan
    }

    fn validate(&mut self, fault: Option<Fault>, all_logits: bool) -> Result<ValidationReport, Error> {
        let text: Vec<u32> = (0..(HISTORY + TOKENS) as u32).map(|i| (i * 37 + 11) % 500).collect();
        let mut sequence = self.engine.sequence().unwrap();
        self.engine.forward(&mut sequence, &text[..HISTORY], Want::None).unwrap();
        let options = ValidateOptions { all_logits, fault, ..Default::default() };
        let report = self.engine.validate(&mut sequence, &text[HISTORY..], &options)?;
        let left = if report.ok { HISTORY + TOKENS } else { HISTORY };
        assert_eq!(sequence.len(), left, "a failure leaves the sequence as it was");
        Ok(report)
    }

    /// Puts a fault into operation number `op` and checks that validate names it.
    fn find(&mut self, op: usize, row: usize, all_logits: bool) {
        let node = self.plan().ops[op].clone();
        let fault =
            Fault { layer: node.layer, op: format!("{}/{}", node.label, node.op.name()), row: Some(row) };
        let what = format!("{}, fused {}, fault `{fault}`", self.name, self.fuse);
        let report = self.validate(Some(fault), all_logits).unwrap();
        assert!(!report.ok, "{what}: passed");
        let first = report.first.as_ref().unwrap_or_else(|| panic!("{what}: {report}"));
        assert_eq!((first.layer, first.row), (node.layer, row), "{what}: {}", report.headline());
        assert_eq!(first.position, HISTORY + row, "{what}");
        assert!(first.fused.iter().any(|l| l == node.label), "{what}: {}", report.headline());
        assert_eq!(first.got, 300.0, "{what}: {}", report.headline());
        if !self.fuse {
            assert_eq!((first.op.as_str(), first.call.as_str()), (node.label, node.op.name()), "{what}");
        }
        let (part, element) = match (first.part, node.op.output()) {
            ("keys", _) => ("keys", self.key_size(node.layer) / 2),
            (part, Some(out)) if !self.fuse => (part, out.width / 2),
            (part, _) => (part, first.element as u32),
        };
        assert_eq!((first.part, first.element), (part, element as usize), "{what}");
        if matches!(node.op, Op::KvWrite { .. }) {
            assert_eq!(first.part, "keys", "{what}");
        }
    }

    fn key_size(&self, layer: Option<u32>) -> u32 {
        let write = self.plan().ops.iter().find_map(|n| match n.op {
            Op::KvWrite { kv, .. } if n.layer == layer => Some(kv),
            _ => None,
        });
        self.plan().kv(write.unwrap()).key_size
    }
}

/// Whether nothing here had a fault in such an operation yet. The same operation between the same neighbours becomes the same call, whatever the
/// model: architectures share most of a layer.
fn is_new(plan: &Plan, op: usize, fuse: bool) -> bool {
    static TRIED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let around = plan.ops[op.saturating_sub(1)..].iter().take(3).map(|n| (n.label, n.op.name()));
    let place = format!("{fuse} {:?}", around.collect::<Vec<_>>());
    TRIED.lock().unwrap().get_or_insert_default().insert(place)
}

/// Every operation of a layer and of the head, in rows of the first and of the second step, the first and the last among them.
fn every_operation(name: &'static str, fuse: bool) {
    let mut bench = bench(name, if fuse { KvType::F16 } else { KvType::F32 }, fuse);
    let report = bench.validate(None, false).unwrap();
    assert!(report.ok, "{name} without a fault: {report}");
    let ops: Vec<usize> = (0..bench.plan().ops.len())
        .filter(|&i| bench.plan().ops[i].layer.is_none_or(|l| l == LAYER))
        .filter(|&i| !matches!(bench.plan().ops[i].op, Op::SelectLogits { .. })) // memory alone does it
        .collect();
    let rows = [0, TOKENS - 1, CHUNK, CHUNK - 1];
    for (i, op) in ops.into_iter().enumerate() {
        if !is_new(bench.plan(), op, fuse) {
            continue;
        }
        let node = &bench.plan().ops[op];
        let head = node.layer.is_none() && op > 0;
        // The last layer's norm may be of the same call: what goes past it matters to rows with logits alone.
        let past = fuse && node.label == "ffn_residual";
        bench.find(op, if head || past { TOKENS - 1 } else { rows[i % rows.len()] }, false);
    }
    zinc_vulkan::testing::assert_valid();
}

#[test]
fn every_call_of_llama_and_qwen2() {
    every_operation("llama", true);
    every_operation("qwen2", true);
}

#[test]
fn every_call_of_qwen3() {
    every_operation("qwen3", true);
}

#[test]
fn every_call_of_qwen35() {
    every_operation("qwen35", true);
}

#[test]
fn every_call_of_experts() {
    every_operation("qwen3moe", true);
    every_operation("gptoss", false);
}

/// A slot that the packing loses leaves its product as it was: the first call that differs is that product's.
#[test]
fn slots_that_are_packed_wrongly() {
    let mut bench = bench("qwen3moe", KvType::F16, true);
    let fault = Fault { layer: Some(LAYER), op: "route/pack".into(), row: Some(TOKENS - 1) };
    let report = bench.validate(Some(fault), false).unwrap();
    let first = report.first.unwrap_or_else(|| panic!("passed"));
    assert!(!report.ok && first.layer == Some(LAYER));
    assert_eq!((first.op.as_str(), first.call.as_str()), ("expert_act", "gated_experts"));
}

#[test]
fn every_call_of_gemma3_and_gemma4() {
    every_operation("gemma3", true);
    every_operation("gemma4", true);
}

/// Without fusion each operation is a call, so that it is named exactly; these two have every kind there is.
#[test]
fn every_operation_of_qwen2_and_gemma4() {
    every_operation("qwen2", false);
    every_operation("gemma4", false);
}

/// What only the caches show, what only logits inside the text show, and what nothing depends on.
#[test]
fn faults_in_the_last_layer() {
    let mut bench = bench("qwen3", KvType::F16, true);
    let find = |bench: &Bench, label: &str| {
        let last = bench.plan().ops.iter().filter_map(|n| n.layer).max();
        bench.plan().ops.iter().position(|n| n.layer == last && n.label == label).unwrap()
    };
    // A key of the last layer before the last token: no logits of this text depend on its own row's output.
    let write = find(&bench, "kv_write");
    bench.find(write, 0, false);
    bench.find(write, TOKENS - 1, false);
    // The FFN of the last layer matters to the row's own logits alone.
    let down = find(&bench, "ffn_down");
    bench.find(down, TOKENS - 1, false);
    bench.find(down, 0, true);
}

/// A code of a block: the element is named, not its neighbours.
#[test]
fn a_fault_in_a_cache_of_blocks() {
    let mut bench = bench("llama", KvType::Q8_0, true);
    assert!(bench.validate(None, false).unwrap().ok);
    let fault = Fault { layer: Some(LAYER), op: "kv_write".into(), row: Some(TOKENS - 1) };
    let report = bench.validate(Some(fault), false).unwrap();
    let first = report.first.unwrap_or_else(|| panic!("passed"));
    assert_eq!((first.part, first.element), ("keys", bench.key_size(Some(LAYER)) as usize / 2));
}

#[test]
fn faults_that_cannot_be_placed_are_refused() {
    let mut bench = bench("llama", KvType::F16, true);
    for fault in ["0:no_such_op", "-:head:2", "0:qkv:4", "-:select_logits"] {
        let refused = bench.validate(Some(fault.parse().unwrap()), false);
        assert!(matches!(refused, Err(Error::Option(_))), "{fault}: {refused:?}");
    }
    for wrong in ["", "0", "x:q", "0:q:r", "0:q:1:2", "0:"] {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
    assert!(bench.validate(Some("0:qkv".parse().unwrap()), false).is_ok_and(|r| !r.ok), "the last row");
}
