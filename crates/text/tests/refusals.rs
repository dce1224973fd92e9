//! Files whose tokenizer cannot be used: a typed error that says why, never a guess and never a panic.

use zinc_gguf::{Gguf, Metadata, Strings, Value, Writer};
use zinc_text::{ControlTokens, Error, Tokenizer};

/// A small byte-level tokenizer, with keys replaced (or, without a value, left out).
fn metadata(changes: &[(&str, Option<Value>)]) -> Metadata {
    let strings = |all: &[&str]| Value::from(all.iter().collect::<Strings>());
    let usual = [
        ("tokenizer.ggml.model", Value::from("gpt2")),
        ("tokenizer.ggml.pre", Value::from("qwen2")),
        ("tokenizer.ggml.tokens", strings(&["a", "b", "ab", "1", "12", "<|end|>"])),
        ("tokenizer.ggml.token_type", Value::from(vec![1i32, 1, 1, 1, 1, 3])),
        ("tokenizer.ggml.merges", strings(&["a b", "1 2", "a missing"])),
        ("tokenizer.ggml.eos_token_id", Value::from(5u32)),
    ];
    let mut writer = Writer::new();
    for (key, value) in usual {
        let changed = changes.iter().find(|(k, _)| *k == key);
        if let Some(value) = changed.map_or(Some(value), |(_, v)| v.clone()) {
            writer.metadata(key, value);
        }
    }
    for (key, value) in changes.iter().filter(|(k, _)| !usual_key(k)) {
        writer.metadata(key, value.clone().unwrap());
    }
    let file = writer.to_bytes(|_| unreachable!("no tensors")).unwrap();
    Gguf::from_bytes(file, "small.gguf").unwrap().metadata().clone()
}

fn usual_key(key: &str) -> bool {
    ["model", "pre", "tokens", "token_type", "merges", "eos_token_id"]
        .iter()
        .any(|k| key.strip_prefix("tokenizer.ggml.") == Some(*k))
}

fn refusal(changes: &[(&str, Option<Value>)], pre: Option<&str>) -> String {
    match Tokenizer::from_metadata(&metadata(changes), pre) {
        Ok(_) => panic!("{changes:?} was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn what_is_wrong_is_said() {
    let strings = |all: &[&str]| Some(Value::from(all.iter().collect::<Strings>()));
    let cases: [(&str, Option<Value>, &[&str]); 11] = [
        ("tokenizer.ggml.model", Some("bert".into()), &["`bert`", "`gpt2`", "`gemma4`"]),
        ("tokenizer.ggml.model", None, &["tokenizer.ggml.model"]),
        ("tokenizer.ggml.pre", Some("brand-new".into()), &["`brand-new`", "`qwen35`", "--pretokenizer"]),
        ("tokenizer.ggml.pre", Some("default".into()), &["`default`", "--pretokenizer"]),
        ("tokenizer.ggml.pre", None, &["--pretokenizer"]),
        ("tokenizer.ggml.tokens", None, &["tokenizer.ggml.tokens"]),
        ("tokenizer.ggml.tokens", strings(&["a"]), &["tokenizer.ggml.token_type", "6 entries for 1 tokens"]),
        ("tokenizer.ggml.token_type", Some(vec![1i32, 1, 1, 1, 9, 3].into()), &["9 for token 4"]),
        ("tokenizer.ggml.merges", strings(&["a b", "ab"]), &["tokenizer.ggml.merges", "line 1", "`ab`"]),
        ("tokenizer.ggml.merges", Some(7u32.into()), &["tokenizer.ggml.merges"]),
        ("tokenizer.ggml.eos_token_id", Some(6u32.into()), &["tokenizer.ggml.eos_token_id", "is 6"]),
    ];
    for (key, value, words) in cases {
        let error = refusal(&[(key, value)], None);
        assert!(words.iter().all(|w| error.contains(w)), "{key}: {error}");
    }
}

#[test]
fn the_override_takes_the_place_of_the_files_pretokenizer() {
    let brand_new = [("tokenizer.ggml.pre", Some("brand-new".into()))];
    let tokenizer = Tokenizer::from_metadata(&metadata(&brand_new), Some("llama-bpe")).unwrap();
    assert_eq!(tokenizer.encode("12ab", ControlTokens::AsText), [4, 2]);
    let usual = Tokenizer::from_metadata(&metadata(&[]), None).unwrap();
    assert_eq!(usual.encode("12ab", ControlTokens::AsText), [3, 2]);
    assert!(refusal(&[], Some("nonsense")).contains("`nonsense`"));
    let pieces = [
        ("tokenizer.ggml.model", Some(Value::from("llama"))),
        ("tokenizer.ggml.scores", Some(Value::from(vec![0f32; 6]))),
    ];
    assert!(refusal(&pieces, Some("qwen2")).contains("no pretokenizer to override"));
}

#[test]
fn a_bad_template_is_an_error_and_its_tokenizer_still_works() {
    let broken = metadata(&[("tokenizer.chat_template", Some("a\n{% for %}".into()))]);
    let error = zinc_text::ChatTemplate::from_metadata(&broken).err().unwrap();
    assert!(matches!(error, Error::Template { line: 2, .. }), "{error}");
    assert!(Tokenizer::from_metadata(&broken, None).is_ok());
    assert!(zinc_text::ChatTemplate::from_metadata(&metadata(&[])).unwrap().is_none());
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let tokenizer = Tokenizer::from_metadata(&metadata(&[]), None).unwrap();
    assert_eq!(tokenizer.encode("a?b", ControlTokens::AsText), [0, 1]);
    assert_eq!(tokenizer.encode("ab<|end|>", ControlTokens::Parse), [2, 5]);
    assert!(tokenizer.encode("<|end|>", ControlTokens::AsText).is_empty());
}
