//! `zinc tokenize`.

use crate::{text, tiny, zinc, zinc_with};
use serde_json::Value;

fn ids(v: &Value) -> Vec<u64> {
    v.as_array().unwrap().iter().map(|i| i.as_u64().unwrap()).collect()
}

#[test]
fn the_fixtures_cases_go_there_and_back() {
    for name in ["llama", "qwen3", "gemma3"] {
        let fixture = tiny(name);
        let cases = fixture.info["tokenizer"]["cases"].as_array().unwrap();
        for case in cases.iter().filter(|c| !c["text"].as_str().unwrap().contains('\0')).take(12) {
            let base = ["tokenize", "-m", text(&fixture.model), "--json", "--control", "parse"];
            let json = zinc_with(&base, case["text"].as_str().unwrap().as_bytes()).json();
            assert_eq!(ids(&json["ids"]), ids(&case["ids"]), "{name}: {}", case["text"]);
            if json["count"] == 0 {
                continue;
            }
            let list: Vec<String> = ids(&case["ids"]).iter().map(u64::to_string).collect();
            let back =
                zinc(&["tokenize", "-m", text(&fixture.model), "--json", "--decode", &list.join(",")]).json();
            assert_eq!(back["text"], case["decoded"], "{name}");
        }
    }
}

#[test]
fn an_argument_and_standard_input_give_the_same() {
    let model = tiny("qwen3").model;
    let by_argument = zinc(&["tokenize", "-m", text(&model), "hello world"]).ok();
    for args in [&["tokenize", "-m", text(&model)][..], &["tokenize", "-m", text(&model), "-"]] {
        assert_eq!(zinc_with(args, b"hello world").ok(), by_argument);
    }
    assert!(by_argument.lines().last().unwrap().contains("tokens: "), "{by_argument}");
}

#[test]
fn errors_say_what_is_wrong() {
    let model = tiny("qwen3").model;
    let error = zinc(&["tokenize", "-m", text(&model), "--decode", "99999999"]).fails(1);
    assert!(error.contains("`99999999`"), "{error}");
    let error = zinc(&["tokenize", "-m", text(&model), "--pretokenizer", "nonsense", "a"]).fails(1);
    assert!(error.contains("`nonsense`"), "{error}");
    let error = zinc_with(&["tokenize", "-m", text(&model)], b"ab\xff").fails(1);
    assert!(error.contains("byte 2"), "{error}");
    zinc(&["tokenize", "-m", text(&model), "--decode", "1", "text"]).fails(2);
}
