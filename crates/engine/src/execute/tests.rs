//! What only the executor's inside can show: caches bit for bit, results that belong to one step.

use super::*;
use crate::sequence::Pool;
use crate::{LogitRow, PAGE_TOKENS, Part, PartOutput, Sampler, SamplingOptions, Sequence, Want};
use zinc_model::Model;

fn executor(chunk: u32) -> (Executor, Pool) {
    let file = zinc_testkit::fixtures("qwen3").remove(0);
    let gguf = Gguf::open(&file.model).unwrap();
    let plan = Arc::new(Model::from_gguf(&gguf).unwrap().plan);
    let mut options = LoadOptions::new("");
    options.chunk = chunk;
    let device = zinc_vulkan::testing::device();
    let executor = Executor::new(device, &gguf, plan, 128, &options, &mut |_| ()).unwrap();
    // Pages in no order at all.
    let pool = Pool::new(1, [5, 2, 7, 0, 3, 6, 1, 4].into_iter());
    (executor, pool)
}

fn read(executor: &mut Executor, sequence: &mut Sequence, tokens: &[u32], want: Want) -> Vec<f32> {
    let mut values = vec![];
    for part in tokens.chunks(executor.chunk() as usize) {
        values = match executor.forward(&mut [Part { sequence, tokens: part, want }]).unwrap().remove(0) {
            PartOutput::Logits(logits) => logits.values,
            _ => vec![],
        };
        sequence.push(part);
    }
    values
}

/// Keys and values of every token of a sequence, in order of position, layer by layer.
fn cache(executor: &Executor, sequence: &Sequence) -> Vec<u8> {
    executor.device.wait_idle().unwrap();
    let mut all = vec![];
    for (spec, (k, v)) in executor.plan.kv.iter().zip(&executor.buffers.kv) {
        for (slice, size) in [(k, spec.key_size), (v, spec.value_size)] {
            let bytes = executor.device.download(slice).unwrap();
            let row = (size * executor.kv_type.bytes()) as usize;
            for position in 0..sequence.len() {
                let page = sequence.pages()[position / PAGE_TOKENS as usize] as usize;
                for head in 0..spec.heads as usize {
                    let at = (page * spec.heads as usize + head) * PAGE_TOKENS as usize
                        + position % PAGE_TOKENS as usize;
                    all.extend_from_slice(&bytes[at * row..(at + 1) * row]);
                }
            }
        }
    }
    all
}

#[test]
fn chunks_leave_the_same_cache_as_single_tokens() {
    let text: Vec<u32> = (0..45u32).map(|i| (i * 29 + 7) % 500).collect();
    let run = |chunk| {
        let (mut executor, pool) = executor(chunk);
        let mut sequence = pool.sequence(false).unwrap();
        let logits = read(&mut executor, &mut sequence, &text, Want::Last);
        (cache(&executor, &sequence), logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>())
    };
    let single = run(1);
    assert!(!single.0.is_empty());
    for chunk in [7, 32] {
        assert!(run(chunk) == single, "chunks of {chunk}");
    }
}

#[test]
fn a_result_is_read_once_and_only_for_its_step() {
    let (mut executor, pool) = executor(8);
    let mut sequence = pool.sequence(false).unwrap();
    let mut greedy = Greedy::new(2);
    let token = greedy.next(&mut executor, &mut sequence, &[1, 2, 3]).unwrap();
    sequence.push(&[1, 2, 3]);
    assert!(matches!(executor.chosen(0), Err(Error::StaleResult { .. })), "it was taken");
    greedy.finish(&mut executor).unwrap();
    assert!(matches!(executor.chosen(1), Err(Error::StaleResult { .. })), "finish took it");
    assert!(matches!(executor.chosen(2), Err(Error::StaleResult { .. })), "it was never computed");

    // A sampled step on another path chooses the same token, from its own results.
    sequence.truncate(0);
    let mut sampler = Sampler::new(SamplingOptions::default());
    assert_eq!(executor.sample(&mut sequence, &[1, 2, 3], &mut sampler).unwrap().0, token);
    sequence.push(&[1, 2, 3]);
    let held = LogitRow { step: executor.steps, row: 0 };
    let row = executor.logit_row(held).unwrap();
    read(&mut executor, &mut sequence, &[4], Want::None);
    assert!(matches!(executor.logit_row(held), Err(Error::StaleResult { .. })), "another step has run since");
    let later = LogitRow { step: executor.steps, row: 0 };
    assert!(matches!(executor.logit_row(later), Err(Error::StaleResult { .. })), "it computed no logits");
    // Poisoned buffers are not taken for results.
    executor.poison(Tail::Host { rows: true, candidates: true }, 1).unwrap();
    assert!(matches!(executor.read_rows(1), Err(Error::StaleResult { .. })));
    assert!(matches!(executor.read_candidates(later), Err(Error::StaleResult { .. })));
    sequence.truncate(2);
    assert_eq!(read(&mut executor, &mut sequence, &[3], Want::Last), row);
    zinc_vulkan::testing::assert_valid();
}
