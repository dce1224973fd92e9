//! `zinc run`.

use crate::{lavapipe, text, tiny, zinc, zinc_in, zinc_with};
use serde_json::Value;
use zinc_testkit::model_file;

fn tokens(v: &Value) -> Vec<u64> {
    v.as_array().unwrap().iter().map(|i| i.as_u64().unwrap()).collect()
}

const CPU: [&str; 4] = ["--backend", "cpu", "-n", "16"];

#[test]
fn a_raw_prompt_is_continued_alike_each_time() {
    let model = tiny("llama").model;
    let base = [&["run", "-m", text(&model), "--raw", "The capital of France is"], &CPU[..]].concat();
    let first = zinc(&base);
    assert!(
        first.err.contains("prompt   8 tokens (8 computed, 0 reused)"),
        "BOS and 7 tokens: {}",
        first.err
    );
    assert!(first.err.contains("on       cpu"), "{}", first.err);
    let first = first.ok();
    assert_eq!(zinc(&base).ok(), first);
    let quiet = zinc(&[&base[..], &["--quiet"]].concat());
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), (first.as_str(), ""));
}

#[test]
fn json_has_text_tokens_and_figures() {
    let model = tiny("qwen3").model;
    let json =
        zinc(&[&["run", "-m", text(&model), "--raw", "--json", "Hello, world!"], &CPU[..]].concat()).json();
    let generated = tokens(&json["tokens"]);
    assert_eq!(json["stats"]["generated"], generated.len());
    assert_eq!(json["stats"]["prompt_tokens"], json["prompt_tokens"].as_array().unwrap().len());
    assert_eq!(json["engine"]["backend"], "cpu");
    assert_eq!(json["chat"], false);
    assert!(json["decode_tokens_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_seed_repeats_a_random_choice() {
    let model = tiny("llama").model;
    let with = |seed: &str| {
        let hot = ["--temperature", "1.5", "--top-k", "50", "--seed", seed, "--json"];
        let json = zinc(&[&["run", "-m", text(&model), "--raw", "a"], &CPU[..], &hot].concat()).json();
        tokens(&json["tokens"])
    };
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7"), with("8"));
}

#[test]
fn a_forbidden_token_is_not_generated() {
    let model = tiny("llama").model;
    let base = [&["run", "-m", text(&model), "--raw", "--json", "a"], &CPU[..]].concat();
    let first = tokens(&zinc(&base).json()["tokens"])[0];
    let bias = format!("{first}=-inf");
    let others = tokens(&zinc(&[&base[..], &["--logit-bias", &bias]].concat()).json()["tokens"]);
    assert!(!others.contains(&first), "{others:?}");
}

#[test]
fn a_stop_string_ends_the_text_before_itself() {
    let model = tiny("llama").model;
    let base = [&["run", "-m", text(&model), "--raw", "--quiet", "a"], &CPU[..]].concat();
    let whole = zinc(&base).ok();
    // Two neighbouring characters, of different tokens as likely as not.
    let chars: Vec<char> = whole.trim_end().chars().collect();
    let pair = chars.windows(2).skip(2).find(|p| p.iter().all(|c| c.is_alphanumeric()));
    let stop: String = pair.expect("two letters").iter().collect();
    let at = whole.find(&stop).expect("the pair is from the text");
    let stopped = zinc(&[&base[..], &["--stop", &stop]].concat()).ok();
    assert_eq!(stopped.strip_suffix('\n').unwrap(), &whole[..at]);
}

#[test]
fn standard_input_is_the_prompt_when_none_is_given() {
    let model = tiny("llama").model;
    let by_argument =
        zinc(&[&["run", "-m", text(&model), "--raw", "-q", "two words"], &CPU[..]].concat()).ok();
    for extra in [&[][..], &["-"]] {
        let args = [&["run", "-m", text(&model), "--raw", "-q"], extra, &CPU[..]].concat();
        assert_eq!(zinc_with(&args, b"two words").ok(), by_argument);
    }
}

#[test]
fn a_prompt_is_a_text_unless_it_is_said_to_be_a_message() {
    let model = tiny("qwen3").model;
    let json = |extra: &[&str]| {
        zinc(&[&["run", "-m", text(&model), "--json", "hi"], &CPU[..], extra].concat()).json()
    };
    let len = |v: &Value| tokens(&v["prompt_tokens"]).len();
    let (by_default, message, undone) = (json(&[]), json(&["--chat"]), json(&["--chat", "--raw"]));
    let system = json(&["--system", "be brief"]);
    assert_eq!((by_default["chat"].as_bool(), message["chat"].as_bool()), (Some(false), Some(true)));
    assert_eq!(by_default["prompt_tokens"], undone["prompt_tokens"]);
    assert!(len(&by_default) < len(&message) && len(&message) < len(&system));
    let refused =
        zinc(&["run", "-m", text(&model), "--backend", "cpu", "--chat", "--control", "parse", "hi"]).fails(2);
    assert!(refused.contains("--control parse"), "{refused}");
}

#[test]
fn control_tokens_in_a_prompt_are_text_unless_meant() {
    let model = tiny("qwen3").model;
    let len = |extra: &[&str]| {
        let base =
            ["run", "-m", text(&model), "--json", "--raw", "<|im_start|>", "--backend", "cpu", "-n", "0"];
        tokens(&zinc(&[&base[..], extra].concat()).json()["prompt_tokens"]).len()
    };
    assert_eq!(len(&["--control", "parse"]), 1);
    assert!(len(&[]) > 1);
}

#[test]
fn a_context_that_is_too_small_is_refused() {
    let model = tiny("llama").model;
    let long = "word ".repeat(100);
    let error = zinc(&["run", "-m", text(&model), "--raw", "--backend", "cpu", "-c", "32", &long]).fails(1);
    assert!(error.contains("32"), "{error}");
    let error = zinc(&["run", "-m", text(&model), "--backend", "cpu", "-c", "4000000000", "a"]).fails(1);
    assert!(error.contains("--ctx"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let model = tiny("llama").model;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(["run", "-m", text(&model), "--raw", "a", "--backend", "cpu", "-n", "64"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&done.stderr).contains("panicked"));
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn a_software_driver_answers_as_the_cpu_does() {
    let Some(device) = lavapipe() else { return };
    let fixture = tiny("qwen3");
    let base = ["run", "-m", text(&fixture.model), "--raw", "--json", "-n", "8", "Hello, world!"];
    let cpu = zinc(&[&base[..], &["--backend", "cpu"]].concat()).json();
    let vulkan = |extra: &[&str]| {
        zinc(&[&base[..], &["--backend", "vulkan", "--device", device, "--kv", "f32"], extra].concat()).json()
    };
    let (fused, plain) = (vulkan(&[]), vulkan(&["--disable", "fusion", "--prefill", "per-token"]));
    assert_eq!(fused["engine"]["backend"], "vulkan");
    assert_eq!(plain["stats"]["prefill"]["path"], "per-token");
    assert!(fused["stats"]["submissions"].as_u64().unwrap() > 0);
    assert_eq!(fused["tokens"], plain["tokens"]);
    assert_eq!(fused["tokens"], cpu["tokens"]);
}

/// The option wins over the environment; what neither knows is refused; figures and JSON say the path and the width.
#[test]
fn the_prefill_mode_is_an_option_or_in_the_environment() {
    let model = tiny("qwen3").model;
    let base = ["run", "-m", text(&model), "--backend", "cpu", "--json", "-n", "1", "Hello, world!"];
    for (variable, option, path, chunk) in [
        (None, None, "batched", 64),
        (None, Some("per-token"), "per-token", 1),
        (Some("0"), None, "per-token", 1),
        (Some("1"), None, "batched", 64),
        (Some("0"), Some("batched"), "batched", 64),
    ] {
        let environment: Vec<_> = variable.iter().map(|v| ("ZINC_BATCHED_PREFILL", *v)).collect();
        let option: Vec<&str> = option.iter().flat_map(|o| ["--prefill", *o]).collect();
        let run = zinc_in(&environment, &[&base[..], &option].concat());
        let line = format!("prompts  {path}, {chunk} token");
        assert!(run.err.contains(&line), "{}", run.err);
        let stats = &run.json()["stats"]["prefill"];
        assert!(stats["path"] == path && stats["chunk"] == chunk, "{stats}");
    }
    let error = zinc_in(&[("ZINC_BATCHED_PREFILL", "maybe")], &base).fails(1);
    assert!(error.contains("`ZINC_BATCHED_PREFILL=maybe`"), "{error}");
    let both = ["run", "-m", text(&model), "--prefill", "per-token", "--chunk", "8", "a"];
    assert!(zinc(&both).fails(2).contains("--chunk"));
    zinc(&["run", "-m", text(&model), "--prefill", "sometimes", "a"]).fails(2);
}

#[test]
fn a_real_model_answers_sensibly() {
    let Some(model) = model_file("smollm2-135m-instruct-q4_1.gguf") else { return };
    let args = ["run", "-m", text(&model), "--backend", "cpu", "-q", "-n", "24", "The capital of France is"];
    let answer = zinc(&args).ok();
    assert!(answer.contains("Paris"), "{answer}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_answer_and_the_figures_follow() {
    use std::io::Read;
    let Some(model) = model_file("smollm2-135m-instruct-q4_1.gguf") else { return };
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(["run", "-m", text(&model), "--backend", "cpu", "-n", "4000", "Once upon a time"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first bytes of the answer are there, so the generation has begun.
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("interrupted") && said.contains("on       cpu"), "{said}");
}
