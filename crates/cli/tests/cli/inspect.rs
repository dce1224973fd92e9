//! `zinc inspect`.

use crate::{scratch, text, zinc};
use zinc_testkit::{fixtures, fixtures_dir};

/// Folders with tiny models.
fn folders() -> Vec<String> {
    let all = std::fs::read_dir(fixtures_dir()).unwrap().filter_map(|e| Some(e.ok()?.path()));
    let with_model = all.filter(|p| p.join("fixture.json").exists());
    with_model.map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_fixture_is_told_whole() {
    let mut seen = 0;
    for fixture in folders().iter().flat_map(|f| fixtures(f)) {
        seen += 1;
        let json = zinc(&["inspect", text(&fixture.model), "--json"]).json();
        assert_eq!(json["runnable"], true, "{}: {}", fixture.name, json["reasons"]);
        assert_eq!(json["architecture"], json["metadata"]["general.architecture"]);
        let tensors = json["tensors"].as_array().unwrap();
        let bytes: u64 = tensors.iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
        assert_eq!(json["tensor_bytes"], bytes);
        let by_type: u64 =
            json["types"].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
        assert_eq!(by_type, bytes);

        let table = zinc(&["inspect", text(&fixture.model)]).ok();
        for t in tensors {
            assert!(table.contains(t["name"].as_str().unwrap()));
        }
        assert!(table.contains("general.architecture") && table.contains("runs in zinc  yes"), "{table}");
        let longest = table.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(longest < 300, "a line of {longest} characters");
    }
    assert!(seen >= 4);
}

#[test]
fn long_arrays_are_cut_unless_asked_for() {
    let model = fixtures("llama")[0].model.clone();
    let cut = zinc(&["inspect", text(&model), "--json"]).json();
    let tokens = &cut["metadata"]["tokenizer.ggml.tokens"];
    let n = tokens["len"].as_u64().unwrap() as usize;
    assert!(tokens["first"].as_array().unwrap().len() < n);
    let full = zinc(&["inspect", text(&model), "--json", "--full"]).json();
    assert_eq!(full["metadata"]["tokenizer.ggml.tokens"].as_array().unwrap().len(), n);
}

#[test]
fn a_file_that_cannot_run_says_why() {
    let json = zinc(&["inspect", text(&fixtures_dir().join("quants/quants.gguf")), "--json"]).json();
    assert_eq!(json["runnable"], false);
    assert!(!json["reasons"].as_array().unwrap().is_empty());
    let table = zinc(&["inspect", text(&fixtures_dir().join("quants/quants.gguf"))]).ok();
    assert!(table.contains("runs in zinc  no"), "{table}");
}

#[test]
fn a_malformed_file_is_refused_with_its_place() {
    let error = zinc(&["inspect", "no-such-file.gguf"]).fails(1);
    assert!(error.contains("`no-such-file.gguf`"), "{error}");

    let whole = std::fs::read(&fixtures("llama")[0].model).unwrap();
    let cut = scratch("cut.gguf");
    for (bytes, word) in
        [(&b"GGML"[..], "magic"), (&whole[..4096], "byte"), (&whole[..whole.len() - 1], "download")]
    {
        std::fs::write(&cut, bytes).unwrap();
        let error = zinc(&["inspect", text(&cut)]).fails(1);
        assert!(error.contains("cut.gguf") && error.contains(word), "{error}");
    }
}
