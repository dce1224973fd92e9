//! Renders any chat template with any messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use zinc_text::Tokenizer;

#[path = "../checks.rs"]
#[allow(dead_code)]
mod checks;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/qwen3/model-q4_k_m.gguf");
    let file = zinc_gguf::Gguf::open(std::path::Path::new(path)).expect("a fixture");
    Tokenizer::from_metadata(file.metadata(), None).expect("a tokenizer")
});

fuzz_target!(|input: &[u8]| checks::template(input, &TOKENIZER));
