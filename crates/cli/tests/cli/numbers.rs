//! `zinc logits`, `zinc perplexity`, `zinc bench`: the numbers.

use crate::{lavapipe, scratch, text, tiny, zinc, zinc_with};
use safetensors::SafeTensors;
use zinc_testkit::{model_file, relative_rms, tolerance};

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn list(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn logits_are_those_of_the_reference() {
    for (name, length) in [("llama", 17), ("qwen2", 7), ("gemma3", 41)] {
        let fixture = tiny(name);
        let reference = fixture.load_reference();
        let ids = list(&reference.i32(&format!("tokens_{length}")));
        let file = scratch(&format!("{name}.safetensors"));
        let base = ["logits", "-m", text(&fixture.model), "--backend", "cpu", "--tokens", &ids];
        zinc(&[&base[..], &["-o", text(&file), "--all"]].concat()).ok();
        let bytes = std::fs::read(&file).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let all = tensors.tensor("logits").unwrap();
        assert_eq!(all.shape()[0], length);
        let vocab = all.shape()[1];
        let want = reference.f32(&format!("logits_{length}"));
        let got = floats(all.data());
        let error = relative_rms(&got[(length - 1) * vocab..], &want);
        assert!(error < tolerance::LOGITS_F32, "{name}: {error}");

        let json = zinc(&[&base[..], &["-q"]].concat()).json();
        let rows = json["logits"].as_array().unwrap();
        assert_eq!(rows.len(), 1);
        let row: Vec<f32> = rows[0].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        assert!(relative_rms(&row, &want) < tolerance::LOGITS_F32);
    }
}

#[test]
fn logits_on_a_software_driver_too() {
    let Some(device) = lavapipe() else { return };
    let fixture = tiny("llama");
    let reference = fixture.load_reference();
    let ids = list(&reference.i32("tokens_17"));
    let place = ["--backend", "vulkan", "--device", device, "--kv", "f32"];
    let json =
        zinc(&[&["logits", "-m", text(&fixture.model), "-q", "--tokens", &ids], &place[..]].concat()).json();
    let row: Vec<f32> =
        json["logits"][0].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
    let error = relative_rms(&row, &reference.f32("logits_17"));
    assert!(error < tolerance::LOGITS_F32, "{error}");
}

#[test]
fn wrong_tokens_and_names_are_refused() {
    let model = tiny("llama").model;
    let base = ["logits", "-m", text(&model), "--backend", "cpu"];
    let error = zinc(&[&base[..], &["--tokens", "99999"]].concat()).fails(1);
    assert!(error.contains("99999"), "{error}");
    let error = zinc(&[&base[..], &["--tokens", "1", "-o", "x.txt"]].concat()).fails(1);
    assert!(error.contains("`x.txt`"), "{error}");
    zinc(&[&base[..], &["--tokens", "1,x"]].concat()).fails(2);
    zinc(&[&base[..], &["--tokens", "1", "--prompt", "a"]].concat()).fails(2);
}

#[test]
fn perplexity_scores_every_token_whatever_the_window() {
    let model = tiny("qwen3").model;
    let prose = "The capital of France is. Hello, world! ".repeat(6);
    let run = |extra: &[&str]| {
        let base = ["perplexity", "-m", text(&model), "-", "--json", "-q", "--backend", "cpu"];
        zinc_with(&[&base[..], extra].concat(), prose.as_bytes()).json()
    };
    let whole = run(&[]);
    let tokens = whole["tokens"].as_u64().unwrap();
    let (nll, ppl) = (whole["nll"].as_f64().unwrap(), whole["perplexity"].as_f64().unwrap());
    assert!(tokens > 50 && nll.is_finite() && (nll.exp() - ppl).abs() < 1e-6);
    let cut = run(&["--window", "16", "--stride", "5"]);
    assert_eq!(cut["tokens"], tokens);
    assert!(cut["windows"].as_u64().unwrap() > 5);
}

#[test]
fn perplexity_compares_a_device_with_the_cpu() {
    let model = tiny("llama").model;
    let args = ["perplexity", "-m", text(&model), "-", "--kl", "--json", "-q"];
    let refused = zinc_with(&[&args[..], &["--backend", "cpu"]].concat(), b"a b c").fails(2);
    assert!(refused.contains("`--kl`"), "{refused}");
    let Some(device) = lavapipe() else { return };
    let place = ["--backend", "vulkan", "--device", device, "--kv", "f32"];
    let json = zinc_with(&[&args[..], &place].concat(), b"Hello, world! The capital of France is").json();
    assert!(json["kl"]["mean"].as_f64().unwrap() < 1e-6, "{}", json["kl"]);
    assert_eq!(json["kl"]["top1_agreement"], 1.0);
}

#[test]
fn perplexity_of_a_real_model_is_that_of_the_reference() {
    let Some(model) = model_file("smollm2-135m-instruct-q4_1.gguf") else { return };
    let path = zinc_testkit::fixtures_dir().join("real-models/smollm2-135m-instruct-q4_1.json");
    let known: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let prompt = &known["prompts"]["story"];
    let args = ["perplexity", "-m", text(&model), "-", "--json", "-q", "--backend", "cpu"];
    let json = zinc_with(&args, prompt["text"].as_str().unwrap().as_bytes()).json();
    let (got, want) = (json["nll"].as_f64().unwrap(), prompt["mean_nll"].as_f64().unwrap());
    assert!((got - want).abs() < tolerance::NLL, "{got} for {want}");
}

#[test]
fn bench_measures_and_checks_its_output() {
    let model = tiny("llama").model;
    let base = ["bench", "-m", text(&model), "--backend", "cpu", "-p", "5,17", "-n", "4", "--repeats", "2"];
    let json = zinc(&[&base[..], &["--json", "--depth", "9"]].concat()).json();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for r in results {
        assert_eq!((r["finite"].as_bool(), r["repeatable"].as_bool()), (Some(true), Some(true)));
        assert_eq!((r["seconds"].as_array().unwrap().len(), r["depth"].as_u64()), (2, Some(9)));
        assert!(r["tokens_per_second"]["median"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(json["engine"]["backend"], "cpu");
    let table = zinc(&base).ok();
    assert!(table.contains("prefill 17") && table.contains("decode 4"), "{table}");
    let csv = zinc(&[&base[..], &["--csv"]].concat()).ok();
    let columns: Vec<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert_eq!(columns.len(), 4);
    assert!(columns.iter().all(|&c| c == columns[0]), "{csv}");
    zinc(&["bench", "-m", text(&model), "--backend", "cpu", "-p", "0", "-n", "0"]).fails(2);
}

#[test]
fn bench_measures_kernels() {
    let Some(device) = lavapipe() else { return };
    let small = ["--rows", "64", "--inner", "256", "--rotate", "64KiB", "--repeats", "2"];
    let json = zinc(
        &[&["bench", "kernels", "--device", device, "--format", "q4_k,Q8_0", "--json"], &small[..]].concat(),
    )
    .json();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|r| r["alone_us"].as_f64().unwrap() > 0.0));
    // Of more columns than integer dots take, and not by another kernel.
    let dot =
        ["bench", "kernels", "--device", device, "--kernel", "dot", "--format", "Q4_K", "--columns", "9"];
    let said = zinc(&[&dot[..], &small[..]].concat()).fails(1);
    assert!(said.contains("9 columns are more than 8"), "{said}");
    zinc(&["bench", "kernels", "--inner", "100"]).fails(2);
    zinc(&["bench", "kernels", "--format", "Q9"]).fails(2);
}
