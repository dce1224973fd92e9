//! The tiny models of every architecture against logits of an independent implementation.

mod common;

use common::{argmax, feed, load, rows};
use zinc_cpu::Cpu;
use zinc_testkit::{Fixture, Reference, fixtures, relative_rms, tolerance};

const LENGTHS: [usize; 6] = [1, 7, 17, 41, 105, 300];
const CHUNKS: [usize; 4] = [7, 16, 40, 300];

/// Checks every quantisation of a fixture.
fn check(name: &str) {
    for fixture in fixtures(name) {
        let (cpu, reference) = (load(&fixture.model), fixture.load_reference());
        let mut worst = 0f64;
        for length in LENGTHS {
            worst = worst.max(check_length(&cpu, &fixture, &reference, length));
        }
        for length in [17, 105] {
            worst = worst.max(check_decoding(&cpu, &fixture, &reference, length));
        }
        check_hidden(&cpu, &fixture, &reference, 41);
        check_splits(&cpu, &reference);
        eprintln!("{name} {}: relative RMS of logits at most {worst:.1e}", fixture.quant);
    }
}

/// Logits of the last position, and the best token of each.
fn check_length(cpu: &Cpu, f: &Fixture, reference: &Reference, length: usize) -> f64 {
    let tokens = reference.i32(&format!("tokens_{length}"));
    let logits = feed(cpu, &mut cpu.new_sequence(1024), &tokens, length);
    let last = &logits[logits.len() - cpu.plan().vocab() as usize..];
    let want = reference.f32(&format!("logits_{length}"));
    let error = relative_rms(last, &want);
    assert!(error <= tolerance::LOGITS_F32, "{} {}, length {length}: {error:.2e}", f.name, f.quant);

    let spread = zinc_testkit::max_abs_diff(&want, &vec![mean(&want); want.len()]).0;
    let margin = tolerance::MARGIN_TIMES_ERROR as f32 * tolerance::LOGITS_F32 as f32 * spread;
    let (best, margins) =
        (reference.i32(&format!("argmax_{length}")), reference.f32(&format!("margin_{length}")));
    for (i, logits) in logits.chunks_exact(cpu.plan().vocab() as usize).enumerate() {
        if margins[i] > margin {
            assert_eq!(argmax(logits), best[i] as usize, "{} {}, position {i} of {length}", f.name, f.quant);
        }
    }
    error
}

fn mean(v: &[f32]) -> f32 {
    v.iter().sum::<f32>() / v.len() as f32
}

/// The prompt in one batch, then a token at a time.
fn check_decoding(cpu: &Cpu, f: &Fixture, reference: &Reference, length: usize) -> f64 {
    let vocab = cpu.plan().vocab() as usize;
    let mut sequence = cpu.new_sequence(1024);
    let prompt = reference.i32(&format!("tokens_{length}"));
    let greedy = reference.i32(&format!("greedy_{length}"));
    let want = reference.f32(&format!("greedy_logits_{length}"));
    let mut got = feed(cpu, &mut sequence, &prompt, length).split_off((length - 1) * vocab);
    got.extend(feed(cpu, &mut sequence, &greedy[..15], 1));
    let rows = got.chunks_exact(vocab).zip(want.chunks_exact(vocab)).enumerate();
    rows.map(|(i, (got, want))| {
        let error = relative_rms(got, want);
        assert!(
            error <= tolerance::LOGITS_F32,
            "{} {}, token {i} after {length}: {error:.2e}",
            f.name,
            f.quant
        );
        error
    })
    .fold(0.0, f64::max)
}

/// The residual stream of the last token at the start of each layer, and the final norm's output: names the layer at fault.
fn check_hidden(cpu: &Cpu, f: &Fixture, reference: &Reference, length: usize) {
    let tokens = reference.i32(&format!("tokens_{length}"));
    let want = reference.f32(&format!("hidden_{length}"));
    let mut hidden: Vec<Vec<f32>> = vec![];
    let mut layer = None;
    let mut rows = rows(0, 0, &tokens);
    rows.iter_mut().for_each(|r| r.wants_logits = r.position as usize + 1 == length);
    cpu.forward_observed(&rows, &mut [cpu.new_sequence(1024)], &mut |node, values| {
        if node.label == "final_norm" || node.label == "embed" {
            hidden.push(values.row(values.rows() - 1).to_vec());
            return;
        }
        // The last output of a layer is the next one's input.
        if node.layer.is_some() {
            if node.layer != layer {
                layer = node.layer;
                hidden.push(vec![]);
            }
            *hidden.last_mut().expect("just pushed") = values.row(values.rows() - 1).to_vec();
        }
    })
    .expect("forward");
    // The reference has the last layer's output only after the final norm.
    let before_norm = hidden.len() - 2;
    hidden.remove(before_norm);
    let width = hidden[0].len();
    assert_eq!(hidden.len() * width, want.len());
    for (i, (got, want)) in hidden.iter().zip(want.chunks_exact(width)).enumerate() {
        let error = relative_rms(got, want);
        assert!(error <= tolerance::LOGITS_F32, "{} {}, input of layer {i}: {error:.2e}", f.name, f.quant);
    }
}

/// However the tokens are cut, and whoever else is in the batch, the logits are the same to the last bit.
fn check_splits(cpu: &Cpu, reference: &Reference) {
    let tokens = &reference.i32("tokens_300")[..105];
    let single = feed(cpu, &mut cpu.new_sequence(1024), tokens, 1);
    for chunk in CHUNKS {
        let got = feed(cpu, &mut cpu.new_sequence(1024), tokens, chunk);
        assert!(same_bits(&got, &single), "chunks of {chunk} differ from single tokens");
    }
    let mut odd = vec![];
    let mut sequence = cpu.new_sequence(1024);
    for part in [&tokens[..3], &tokens[3..64], &tokens[64..67], &tokens[67..]] {
        odd.extend(feed(cpu, &mut sequence, part, part.len()));
    }
    assert!(same_bits(&odd, &single), "odd chunks differ from single tokens");

    let other = &reference.i32("tokens_41")[..];
    let (a, b) = interleaved(cpu, &tokens[..41], other);
    assert!(same_bits(&a, &single[..a.len()]), "a sequence differs beside another");
    assert!(
        same_bits(&b, &feed(cpu, &mut cpu.new_sequence(1024), other, 41)),
        "a sequence differs beside another"
    );
}

/// Two sequences whose rows alternate in batches of uneven size.
fn interleaved(cpu: &Cpu, a: &[i32], b: &[i32]) -> (Vec<f32>, Vec<f32>) {
    let vocab = cpu.plan().vocab() as usize;
    let mut sequences = [cpu.new_sequence(64), cpu.new_sequence(64)];
    let (a_rows, b_rows) = (rows(0, 0, a), rows(1, 0, b));
    let mixed: Vec<_> = a_rows.iter().zip(&b_rows).flat_map(|(&a, &b)| [b, a]).collect();
    let mut results = (vec![], vec![]);
    for batch in mixed.chunks(11) {
        let logits = cpu.forward(batch, &mut sequences).expect("forward");
        for (i, row) in batch.iter().enumerate() {
            let to = if row.sequence == 0 { &mut results.0 } else { &mut results.1 };
            to.extend_from_slice(logits.row(i));
        }
    }
    assert_eq!(results.0.len(), a.len() * vocab);
    results
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

macro_rules! fixture_tests {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )*};
}

fixture_tests!(
    llama, qwen2, qwen3, qwen3moe, qwen35, qwen35moe, qwen3next, gemma3, gemma4, gemma4moe, gptoss
);
