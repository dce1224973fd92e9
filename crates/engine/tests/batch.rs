//! Batches of several sequences: every part gets what it would get alone.

mod common;

use zinc_engine::{Candidates, Engine, Error, KvType, LogitRow, Part, PartOutput, Sequence, Want};
use zinc_testkit::fixtures;

fn engines(name: &str) -> [Engine; 2] {
    let mut options = common::options(KvType::F16);
    (options.sequences, options.chunk) = (3, Some(16));
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
    for name in ["qwen3", "gemma4", "qwen35", "qwen35moe", "gptoss"] {
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

/// A sequence that begins with another one's pages goes on with the bits of one that read everything itself, whatever becomes of the
/// first; the kept pages outlive it.
#[test]
fn a_shared_prefix_changes_no_bit() {
    let mut options = common::options(KvType::F16);
    (options.context, options.kept_tokens) = (Some(96), 32);
    let mut engine = common::vulkan(&fixtures("gemma3")[0].model, &options);
    let (prefix, rest) = (text(7, 40), text(11, 13));
    let mut first = engine.sequence().unwrap();
    engine.forward(&mut first, &prefix, Want::None).unwrap();
    let pages = first.share(prefix.len());
    assert_eq!(pages.len(), 2);
    let free = engine.free_pages();
    let mut second = engine.sequence_of(&prefix[..32], &pages, None).unwrap();
    assert_eq!(second.tokens(), &prefix[..32]);
    let whole: Vec<u32> = prefix[32..].iter().chain(&rest).copied().collect();
    // Both read on in the same steps, the first one another text.
    first.truncate(34);
    assert_eq!(first.len(), 34, "the third page is its own");
    let other = text(3, 30);
    let parts = &mut [
        Part { sequence: &mut first, tokens: &other, want: Want::None },
        Part { sequence: &mut second, tokens: &whole, want: Want::All },
    ];
    let PartOutput::Logits(got) = engine.forward_batch(parts).unwrap().remove(1) else { panic!("logits") };
    drop((first, second));
    assert_eq!(engine.free_pages(), free + 1, "all pages but the kept ones");
    let mut alone = engine.sequence_of(&prefix[..32], &pages, None).unwrap();
    assert!(
        bits(&engine.forward(&mut alone, &whole, Want::All).unwrap().values) == bits(&got.values),
        "kept"
    );
    drop((alone, pages));
    let mut alone = engine.sequence().unwrap();
    engine.forward(&mut alone, &prefix[..32], Want::None).unwrap();
    assert!(
        bits(&engine.forward(&mut alone, &whole, Want::All).unwrap().values) == bits(&got.values),
        "read"
    );
    zinc_vulkan::testing::assert_valid();
}

/// What cannot be shared is refused.
#[test]
fn pages_that_do_not_fit_are_refused() {
    let options = common::options(KvType::F16);
    let mut engine = common::vulkan(&fixtures("qwen3")[0].model, &options);
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, &text(3, 20), Want::None).unwrap();
    let pages = sequence.share(20);
    assert!(matches!(engine.sequence_of(&text(3, 20), &pages, None), Err(Error::NotShareable(_))));
    let other = common::vulkan(&fixtures("qwen3")[0].model, &options);
    assert!(matches!(other.sequence_of(&text(3, 16), &pages, None), Err(Error::ForeignSequence)));
    let cpu = common::cpu(&fixtures("qwen35")[0].model, options);
    assert!(!cpu.shares_pages() && cpu.sequence_of(&[], &[], None).is_err());
}
