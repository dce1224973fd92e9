//! Batches of several sequences: every part gets what it would get alone.

mod common;

use zinc_engine::{Candidates, Engine, Error, KvType, LogitRow, Part, PartOutput, Sequence, Want};
use zinc_testkit::fixtures;

fn engines(name: &str) -> [Engine; 2] {
    let mut options = common::options(KvType::F16);
    (options.sequences, options.chunk) = (3, 16);
    let model = &fixtures(name)[0].model;
    [common::vulkan(model, &options), common::cpu(model, options)]
}

fn text(seed: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * seed + seed) % 500).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Rows of logits, or the full row behind candidates.
fn rows(engine: &mut Engine, output: &PartOutput) -> Vec<u32> {
    match output {
        PartOutput::Nothing => vec![],
        PartOutput::Logits(l) => bits(&l.values),
        PartOutput::Candidates { row, .. } => bits(&engine.logit_row(*row).unwrap()),
    }
}

/// Prompts and single tokens of three sequences in the same steps, wants of every kind, parts that are longer than a step.
#[test]
fn parts_get_the_bits_they_get_alone() {
    for name in ["qwen3", "gemma4"] {
        for mut engine in engines(name) {
            let texts = [text(31, 45), text(77, 20), text(13, 27)];
            let cuts = [[0, 7, 8, 20, 45], [0, 3, 9, 10, 20], [0, 1, 2, 26, 27]];
            let wants = [
                [Want::Last, Want::None, Want::Candidates, Want::Last],
                [Want::None, Want::Candidates, Want::Last, Want::All],
                [Want::Candidates, Want::Last, Want::All, Want::Candidates],
            ];
            let alone: Vec<Vec<u32>> = texts
                .iter()
                .map(|text| {
                    let mut sequence = engine.sequence().unwrap();
                    bits(&engine.forward(&mut sequence, text, Want::All).unwrap().values)
                })
                .collect();
            let mut sequences: Vec<Sequence> = (0..3).map(|_| engine.sequence().unwrap()).collect();
            let vocab = alone[0].len() / 45;
            for round in 0..4 {
                let mut parts: Vec<Part<'_>> = sequences
                    .iter_mut()
                    .enumerate()
                    .map(|(i, sequence)| Part {
                        sequence,
                        tokens: &texts[i][cuts[i][round]..cuts[i][round + 1]],
                        want: wants[i][round],
                    })
                    .collect();
                let outputs = engine.forward_batch(&mut parts).unwrap();
                for (i, output) in outputs.iter().enumerate() {
                    // Candidates of an earlier step of the same batch are there, their row is not any more.
                    let stale = matches!(output, PartOutput::Candidates { row, .. } if engine.logit_row(*row).is_err());
                    let (end, got) =
                        (cuts[i][round + 1], if stale { vec![] } else { rows(&mut engine, output) });
                    let want = &alone[i][..end * vocab];
                    assert!(want.ends_with(&got), "{name}, sequence {i}, round {round}");
                    let n = match wants[i][round] {
                        Want::None => 0,
                        Want::All => end - cuts[i][round],
                        Want::Last | Want::Candidates => 1,
                    };
                    assert!(stale || got.len() == n * vocab, "{name}, sequence {i}, round {round}");
                }
            }
        }
    }
    zinc_vulkan::testing::assert_valid();
}

/// Candidates are the row's best, each part's its own, and the row behind them belongs to the step.
#[test]
fn candidates_are_those_of_the_row() {
    for mut engine in engines("qwen3") {
        let mut sequences: Vec<Sequence> = (0..2).map(|_| engine.sequence().unwrap()).collect();
        let texts = [text(3, 5), text(5, 8)];
        let part = |(sequence, text)| Part { sequence, tokens: text, want: Want::Candidates };
        let mut parts: Vec<Part<'_>> =
            sequences.iter_mut().zip(texts.iter().map(Vec::as_slice)).map(part).collect();
        let outputs = engine.forward_batch(&mut parts).unwrap();
        let mut of: Vec<LogitRow> = vec![];
        for output in &outputs {
            let PartOutput::Candidates { best, row } = output else { panic!("{output:?}") };
            let full = engine.logit_row(*row).unwrap();
            let want = Candidates::of_row(&full, best.tokens.len());
            assert!(best.tokens.len() >= 64 && best.tokens == want.tokens);
            assert!((best.log_sum_exp - want.log_sum_exp).abs() < 1e-4);
            of.push(*row);
        }
        assert_ne!(of[0], of[1]);
        let [PartOutput::Candidates { best: a, .. }, PartOutput::Candidates { best: b, .. }] = &outputs[..]
        else {
            panic!("two parts")
        };
        assert_ne!(a, b);
        engine.forward(&mut sequences[0], &[1], Want::None).unwrap();
        for row in of {
            assert!(matches!(engine.logit_row(row), Err(Error::StaleResult { .. })));
        }
        let nothing = Part { sequence: &mut sequences[0], tokens: &[], want: Want::Candidates };
        assert!(matches!(engine.forward_batch(&mut [nothing]), Err(Error::EmptyPrompt)));
        assert!(engine.forward(&mut sequences[0], &[1], Want::Candidates).is_err());
    }
}
