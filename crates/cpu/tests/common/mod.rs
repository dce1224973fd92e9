//! Running models in tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::sync::Arc;
use zinc_cpu::{Cpu, Sequence};
use zinc_gguf::Gguf;
use zinc_model::Model;
use zinc_plan::Row;

/// A model file, ready to run.
pub fn load(path: &Path) -> Cpu {
    let gguf = Arc::new(Gguf::open(path).unwrap_or_else(|e| panic!("{e}")));
    let model = Model::from_gguf(&gguf).unwrap_or_else(|e| panic!("`{}`: {e}", path.display()));
    Cpu::new(gguf, model.plan).unwrap_or_else(|e| panic!("`{}`: {e}", path.display()))
}

/// The rows that continue sequence `sequence` from `position` on, all wanting logits.
pub fn rows(sequence: u32, position: u32, tokens: &[i32]) -> Vec<Row> {
    let row = |(i, &t): (usize, &i32)| Row {
        sequence,
        position: position + i as u32,
        token: t as u32,
        wants_logits: true,
    };
    tokens.iter().enumerate().map(row).collect()
}

/// Feeds tokens to a sequence in chunks of `chunk` and returns the logits of every position.
pub fn feed(cpu: &Cpu, sequence: &mut Sequence, tokens: &[i32], chunk: usize) -> Vec<f32> {
    let sequences = std::slice::from_mut(sequence);
    let mut logits = vec![];
    for tokens in tokens.chunks(chunk) {
        let rows = rows(0, sequences[0].len(), tokens);
        logits.extend(cpu.forward(&rows, sequences).expect("forward").into_vec());
    }
    logits
}

/// Index of the largest value, the first of equal ones.
pub fn argmax(logits: &[f32]) -> usize {
    (1..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}
