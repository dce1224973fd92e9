//! `--prefill validate`.

use crate::{lavapipe, text, tiny, zinc};
use serde_json::Value;

const PROMPT: &str = "one two three four five";

#[test]
fn validate_passes_tells_what_was_compared_and_changes_nothing() {
    let Some(device) = lavapipe() else { return };
    let model = tiny("qwen3").model;
    let run = |extra: &[&str]| {
        let base =
            ["run", "-m", text(&model), "--raw", PROMPT, "-n", "6", "--device", device, "--chunk", "4"];
        zinc(&[&base[..], extra].concat())
    };
    let plain = run(&[]).ok();
    let validated = run(&["--prefill", "validate", "--validate-reference"]);
    assert_eq!(validated.code, 0, "{}", validated.err);
    assert_eq!(validated.out, plain);
    for part in ["validate passed", "per-token", "the CPU reference", "logits", "keys", "KL divergence"] {
        assert!(validated.err.contains(part), "{part} is not in {}", validated.err);
    }
    let json = run(&["--prefill", "validate", "--json"]).json();
    let report = &json["stats"]["validation"];
    assert_eq!(report["ok"], true);
    assert_eq!(report["n_tokens"], json["prompt_tokens"].as_array().unwrap().len());
    assert_eq!(report["comparisons"][0]["against"], "per-token");
    assert_eq!(run(&["--json"]).json()["stats"]["validation"], Value::Null);
}

#[test]
fn validate_is_refused_where_it_compares_nothing() {
    let model = tiny("qwen3").model;
    let model = text(&model);
    for args in [
        &["run", "-m", model, "a", "--backend", "cpu", "--prefill", "validate"][..],
        &["run", "-m", model, "a", "--validate-reference"],
        &["logits", "-m", model, "--prompt", "a", "--prefill", "validate"],
        &["check", "-m", model, "--prefill", "validate"],
    ] {
        zinc(args).fails(2);
    }
}

/// A fault in batched prefill ends every command with exit code 3, and is named.
#[cfg(feature = "fault-injection")]
#[test]
fn a_fault_is_named() {
    use crate::{Run, zinc_with};
    let Some(device) = lavapipe() else { return };
    let model = tiny("qwen3").model;
    let place = ["--device", device, "--prefill", "validate", "--inject-fault"];
    let run = |args: &[&str], fault: &str| -> Run {
        zinc_with(&[args, &["-m", text(&model)], &place[..], &[fault]].concat(), b"hello\n")
    };
    let error = run(&["run", "--raw", PROMPT], "1:ffn_down:2").fails(3);
    let first = error.lines().next().unwrap();
    assert!(first.contains("layer 1, `ffn_down` (linear), row 2"), "{error}");
    assert!(error.contains("validate FAILED") && error.contains("max abs diff"), "{error}");

    let json = run(&["run", "--raw", PROMPT, "--json"], "-:head");
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["validation"]["first"]["op"], "head");
    assert_eq!(report["validation"]["first"]["layer"], Value::Null);
    json.fails(3);

    assert!(run(&["chat", "-q"], "0:kv_write:0").fails(3).contains("of the keys"));
    run(&["bench", "-p", "5", "-n", "0", "--repeats", "1"], "2:attention").fails(3);
    zinc(&["run", "-m", text(&model), "a", "--inject-fault", "0:q"]).fails(2);
}
