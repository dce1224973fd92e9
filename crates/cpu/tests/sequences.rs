//! What a caller may rely on between batches: refusals leave everything as it was, sequences can be cut and copied.

mod common;

use common::{feed, load, rows};
use zinc_cpu::{Cpu, Error};
use zinc_testkit::fixtures;

fn model(name: &str) -> Cpu {
    load(&fixtures(name)[0].model)
}

const TOKENS: [i32; 12] = [5, 17, 400, 33, 9, 250, 81, 7, 300, 12, 99, 64];

#[test]
fn a_refused_batch_changes_nothing() {
    let cpu = model("qwen35");
    let vocab = cpu.plan().vocab();
    let mut sequences = [cpu.new_sequence(8)];
    feed(&cpu, &mut sequences[0], &TOKENS[..4], 4);

    let mut refuse = |rows: &[_]| cpu.forward(rows, &mut sequences).expect_err("is refused");
    let gap = refuse(&rows(0, 5, &TOKENS[..1]));
    assert_eq!(gap, Error::Position { row: 0, sequence: 0, found: 5, expected: 4 });
    let again = refuse(&[rows(0, 4, &TOKENS[..1]), rows(0, 4, &TOKENS[..1])].concat());
    assert_eq!(again, Error::Position { row: 1, sequence: 0, found: 4, expected: 5 });
    let full = refuse(&rows(0, 4, &TOKENS[..5]));
    assert_eq!(full, Error::Context { sequence: 0, max_context: 8 });
    let token = refuse(&rows(0, 4, &[vocab as i32]));
    assert_eq!(token, Error::Token { row: 0, token: vocab, vocab });
    let sequence = refuse(&rows(1, 0, &TOKENS[..1]));
    assert_eq!(sequence, Error::Sequence { row: 0, sequence: 1, count: 1 });
    let mut foreign = [model("qwen3").new_sequence(8)];
    let foreign = cpu.forward(&rows(0, 0, &TOKENS[..1]), &mut foreign).expect_err("is refused");
    assert_eq!(foreign, Error::ForeignSequence { sequence: 0 });

    let [mut after] = sequences;
    let mut untouched = cpu.new_sequence(8);
    feed(&cpu, &mut untouched, &TOKENS[..4], 4);
    assert_eq!(feed(&cpu, &mut after, &TOKENS[4..8], 4), feed(&cpu, &mut untouched, &TOKENS[4..8], 4));
}

#[test]
fn a_sequence_that_was_cut_goes_on_as_if_it_had_ended_there() {
    let cpu = model("gemma3");
    let mut sequence = cpu.new_sequence(64);
    let whole = feed(&cpu, &mut sequence, &TOKENS, 12);
    assert_eq!(sequence.truncate(5), 5);
    assert_eq!(sequence.truncate(9), 5, "nothing comes back");
    let rest = feed(&cpu, &mut sequence, &TOKENS[5..], 3);
    assert_eq!(rest, whole[5 * cpu.plan().vocab() as usize..]);
}

#[test]
fn a_recurrent_sequence_is_emptied_when_cut_and_returns_by_a_copy() {
    let cpu = model("qwen3next");
    let mut sequence = cpu.new_sequence(64);
    let start = feed(&cpu, &mut sequence, &TOKENS[..5], 5);
    let mut snapshot = sequence.clone();
    let rest = feed(&cpu, &mut sequence, &TOKENS[5..], 7);
    assert_eq!(feed(&cpu, &mut snapshot, &TOKENS[5..], 2), rest);
    assert_eq!(sequence.truncate(5), 0);
    assert_eq!(feed(&cpu, &mut sequence, &TOKENS[..5], 5), start);
}

#[test]
fn only_rows_that_want_logits_get_them() {
    let cpu = model("gptoss");
    let vocab = cpu.plan().vocab() as usize;
    let all = feed(&cpu, &mut cpu.new_sequence(64), &TOKENS, 12);
    let mut some = rows(0, 0, &TOKENS);
    some.iter_mut().for_each(|r| r.wants_logits = [2, 7].contains(&r.position));
    let logits = cpu.forward(&some, &mut [cpu.new_sequence(64)]).expect("forward");
    assert_eq!(logits.rows(), 2);
    assert_eq!(logits.row(0), &all[2 * vocab..3 * vocab]);
    assert_eq!(logits.row(1), &all[7 * vocab..8 * vocab]);

    some.iter_mut().for_each(|r| r.wants_logits = false);
    assert_eq!(cpu.forward(&some, &mut [cpu.new_sequence(64)]).expect("forward").rows(), 0);
    assert_eq!(cpu.forward(&[], &mut []).expect("forward").rows(), 0);
}
