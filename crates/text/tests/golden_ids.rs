//! Ids as the models' own tokenizers give them.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use zinc_testkit::{fixtures, fixtures_dir, model_file, tokenizer_dir};
use zinc_text::{ControlTokens, Tokenizer};

/// Asserts ids and decoded text of `{text, ids, decoded?}` cases; special tokens in the text are parsed.
fn check_cases(name: &str, tokenizer: &Tokenizer, cases: &[Value]) {
    assert!(!cases.is_empty());
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let want: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let got = tokenizer.encode(text, ControlTokens::Parse);
        assert_eq!(got, want, "{name}: {text:?}");
        if let Some(decoded) = case["decoded"].as_str() {
            assert_eq!(tokenizer.decode(&got), decoded, "{name}: {text:?}");
        }
    }
}

#[test]
fn tiny_models_of_every_architecture() {
    let names = [
        "llama",
        "qwen2",
        "qwen3",
        "qwen3moe",
        "qwen35",
        "qwen35moe",
        "qwen3next",
        "gemma3",
        "gemma4",
        "gemma4moe",
        "gptoss",
    ];
    let present = names.iter().filter(|name| fixtures_dir().join(name).is_dir());
    let mut checked = 0;
    for name in present {
        for fixture in fixtures(name) {
            let tokenizer = support::from_gguf(&fixture.model);
            check_cases(name, &tokenizer, fixture.info["tokenizer"]["cases"].as_array().unwrap());
            assert_eq!(
                tokenizer.add_bos(),
                fixture.info["tokenizer"]["add_bos"].as_bool().unwrap(),
                "{name}"
            );
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn real_tokenizers() {
    for name in ["qwen3", "llama3_1", "gptoss", "gemma3"] {
        let Some(tokenizer) = support::from_hugging_face(name) else { continue };
        let json = std::fs::read(fixtures_dir().join(format!("tokenizers/{name}.json"))).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        check_cases(name, &tokenizer, json["cases"].as_array().unwrap());
    }
}

/// FNV-1a, 32 bits, over the ids as little-endian u32, as scripts/text-golden/make_ids.py has it.
fn hash(ids: &[u32]) -> String {
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes());
    let h = bytes.fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    format!("{h:08x}")
}

/// The strings of which `tokenizer` gives other ids than the file of hashes says.
fn different<'a>(strings: &'a [String], file: &str, ids: impl Fn(&str) -> String) -> Vec<&'a String> {
    let hashes = std::fs::read_to_string(golden().join(file)).unwrap();
    assert!(strings.len() >= 2000 && hashes.lines().count() == strings.len());
    strings
        .iter()
        .zip(hashes.lines())
        .filter(|(text, want)| ids(text) != **want)
        .map(|(text, _)| text)
        .collect()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn strings() -> Vec<String> {
    serde_json::from_slice(&std::fs::read(golden().join("strings.json")).unwrap()).unwrap()
}

#[test]
fn thousands_of_strings_as_hugging_face_splits_them() {
    let strings = strings();
    for name in ["qwen3", "llama3_1", "gptoss", "gemma3"] {
        let Some(tokenizer) = support::from_hugging_face(name) else { continue };
        let wrong = different(&strings, &format!("ids-{name}.txt"), |text| {
            let parsed = tokenizer.encode(text, ControlTokens::Parse);
            let as_text = tokenizer.encode(text, ControlTokens::AsText);
            format!("{} {}", hash(&parsed), hash(&as_text))
        });
        assert!(wrong.is_empty(), "{name}: {} of {} differ: {wrong:?}", wrong.len(), strings.len());
    }
}

#[test]
fn pretokenizers_of_other_models_on_one_vocabulary() {
    let Some(dir) = tokenizer_dir("qwen3") else { return };
    let strings = strings();
    let metadata = support::metadata(&dir);
    for pre in ["qwen35", "smollm", "gpt-2"] {
        let tokenizer = Tokenizer::from_metadata(&metadata, Some(pre)).unwrap();
        let ids = |text: &str| hash(&tokenizer.encode(text, ControlTokens::Parse));
        let wrong = different(&strings, &format!("ids-{pre}.txt"), ids);
        assert!(wrong.is_empty(), "{pre}: {} of {} differ: {wrong:?}", wrong.len(), strings.len());
    }
}

#[test]
fn prompts_of_real_models() {
    for entry in std::fs::read_dir(fixtures_dir().join("real-models")).unwrap() {
        let json: Value = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        // The two sizes of Qwen2.5-Coder have one tokenizer, and the tests fetch the smaller model.
        let name = json["model"].as_str().unwrap().replace("1.5b", "0.5b");
        let Some(path) = model_file(&name) else { continue };
        let tokenizer = support::from_gguf(&path);
        for (prompt, case) in json["prompts"].as_object().unwrap() {
            let mut got: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
            got.extend(tokenizer.encode(case["text"].as_str().unwrap(), ControlTokens::Parse));
            let want: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(got, want, "{name}: {prompt}");
            let greedy: Vec<u32> = serde_json::from_value(case["greedy"].clone()).unwrap();
            assert_eq!(tokenizer.decode(&greedy), case["greedy_text"].as_str().unwrap(), "{name}: {prompt}");
        }
    }
}
