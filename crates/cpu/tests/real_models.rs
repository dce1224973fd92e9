//! Real models: mean negative log likelihood to three digits and the best token at every position.

mod common;

use common::{argmax, feed, load};
use serde_json::Value;
use zinc_testkit::{fixtures_dir, model_file, tolerance};

fn check(name: &str) {
    let Some(path) = model_file(&format!("{name}.gguf")) else { return };
    let json =
        std::fs::read_to_string(fixtures_dir().join(format!("real-models/{name}.json"))).expect("reference");
    let reference: Value = serde_json::from_str(&json).expect("JSON");
    let cpu = load(&path);
    let vocab = cpu.plan().vocab() as usize;
    for (prompt, want) in reference["prompts"].as_object().expect("prompts") {
        let ids = integers(&want["ids"]);
        let logits = feed(&cpu, &mut cpu.new_sequence(1024), &ids, 64);
        let rows: Vec<&[f32]> = logits.chunks_exact(vocab).collect();
        let likelihood = rows.iter().zip(&ids[1..]).map(|(row, &next)| nll(row, next as usize)).sum::<f64>();
        let mean = likelihood / (ids.len() - 1) as f64;
        let expected = want["mean_nll"].as_f64().expect("mean_nll");
        eprintln!("{name} {prompt}: NLL {mean:.6}, expected {expected:.6}");
        assert!(
            (mean - expected).abs() <= tolerance::NLL,
            "{name} {prompt}: NLL {mean}, expected {expected}"
        );
        let best: Vec<i32> = rows.iter().map(|row| argmax(row) as i32).collect();
        assert_eq!(best, integers(&want["argmax"]), "{name} {prompt}");
    }
}

/// −ln of the probability of a token.
fn nll(logits: &[f32], token: usize) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&l| (f64::from(l) - max).exp()).sum();
    max + sum.ln() - f64::from(logits[token])
}

fn integers(array: &Value) -> Vec<i32> {
    array.as_array().expect("array").iter().map(|v| v.as_i64().expect("integer") as i32).collect()
}

#[test]
fn smollm2_135m() {
    check("smollm2-135m-instruct-q4_1");
}

#[test]
fn gemma3_270m() {
    check("gemma-3-270m-q4_k_m");
}

#[test]
fn qwen2_5_coder_0_5b() {
    check("qwen2.5-coder-0.5b-instruct-q4_k_m");
}

#[test]
#[ignore = "takes a minute: a check by hand of the largest model"]
fn qwen2_5_coder_1_5b() {
    check("qwen2.5-coder-1.5b-instruct-q4_k_m");
}
