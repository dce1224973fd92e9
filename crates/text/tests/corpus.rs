//! The seeds of the fuzz targets, and what the fuzzer has found since.

#[path = "../../../fuzz/checks.rs"]
mod checks;

use std::path::Path;
use zinc_text::Tokenizer;

/// Tries each seed of a target.
fn replay(target: &str, least: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let seeds = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let count = seeds.map(|path| check(&std::fs::read(path).expect("a seed"))).count();
    assert!(count >= least, "only {count} seeds of {target}");
}

#[test]
fn answers() {
    replay("answer", 10, checks::answer);
}

#[test]
fn stop_strings() {
    replay("stops", 3, checks::stops);
}

#[test]
fn templates() {
    let model = zinc_testkit::fixtures("qwen3").into_iter().next().expect("a fixture").model;
    let file = zinc_gguf::Gguf::open(&model).expect("a model");
    let tokenizer = Tokenizer::from_metadata(file.metadata(), None).expect("a tokenizer");
    replay("template", 4, |input| checks::template(input, &tokenizer));
}
