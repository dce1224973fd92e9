//! The plans of the tiny models: consistent, and as short as `ARCHITECTURE.md` says.

use std::fmt::Write;
use std::path::Path;
use zinc_gguf::Gguf;
use zinc_model::Model;
use zinc_plan::{Cols, Node, Op, Plan};
use zinc_testkit::fixtures;

/// One layer's operations, a line each: label, operation, inputs, output, weights.
fn describe(plan: &Plan, layer: u32) -> String {
    let mut text = String::new();
    for node in plan.ops.iter().filter(|n| n.layer == Some(layer)) {
        writeln!(text, "{}", line(plan, node)).expect("writing to a string");
    }
    text
}

fn line(plan: &Plan, node: &Node) -> String {
    let cols = |c: &Cols| match (c.first, plan.act(c.act)) {
        (0, act) if act.width == c.width => format!("{}[{}]", act.name, c.width),
        (first, act) => format!("{}[{first}+{}]", act.name, c.width),
    };
    let inputs: Vec<String> = node.op.inputs().iter().map(cols).collect();
    let weights = node.op.weights().into_iter().map(|w| format!(" {}", plan.weight(w).name()));
    let out = node.op.output().map_or(String::new(), |c| format!(" -> {}", c.width));
    let rule = match node.op {
        Op::Attention { kv, heads, scale, .. } => {
            format!(" heads {heads} scale {scale} window {:?}", plan.kv(kv).window)
        }
        Op::Rope { table, pairing, .. } => {
            format!(" {pairing:?} {} pairs", plan.rope(table).inverse_frequencies.len())
        }
        Op::RmsNorm { group, .. } | Op::L2Norm { group, .. } => format!(" group {group}"),
        Op::Activate { kind, .. } => format!(" {kind:?}"),
        Op::Route { order, out, .. } => format!(" {order:?} top {}", out.width / 2),
        _ => String::new(),
    };
    format!(
        "{}: {} {}{out}{rule}{}",
        node.label,
        node.op.name(),
        inputs.join(", "),
        weights.collect::<String>()
    )
}

/// Compares with `snapshots/NAME.txt`; `ZINC_UPDATE_SNAPSHOTS=1` writes it anew.
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
    if std::env::var_os("ZINC_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).expect("writing the snapshot");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == want, "the plan of `{name}` has changed; it is now:\n{text}");
}

#[test]
fn each_architecture_has_the_operations_it_should() {
    // A layer of each kind.
    for (name, layers) in [
        ("llama", &[0][..]),
        ("qwen2", &[0]),
        ("qwen3", &[0]),
        ("qwen3moe", &[0]),
        ("qwen35", &[0, 3]),
        ("qwen35moe", &[0]),
        ("qwen3next", &[0]),
        ("gemma3", &[0, 5]),
        ("gemma4", &[0, 1]),
        ("gemma4moe", &[0]),
        ("gptoss", &[0, 1]),
    ] {
        for (i, fixture) in fixtures(name).into_iter().enumerate() {
            let model = Model::from_gguf(&Gguf::open(&fixture.model).expect("opens")).expect("is supported");
            assert_eq!(model.plan.vocab(), model.spec.vocab);
            assert!(model.notes.is_empty());
            // Which products are one depends on a file's formats.
            if i > 0 {
                continue;
            }
            let text: Vec<String> =
                layers.iter().map(|&l| format!("layer {l}\n{}", describe(&model.plan, l))).collect();
            compare(name, &text.join("\n"));
        }
    }
}
