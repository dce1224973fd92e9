//! What only the executor's inside can show: caches bit for bit, results that belong to one step.

use super::*;
use crate::sequence::Pool;
use crate::{LogitRow, PAGE_TOKENS, Part, PartOutput, Sampler, SamplingOptions, Sequence, Want};
use zinc_kernels::kv::{page_bytes, row_ranges};
use zinc_model::Model;

fn executor_of(model: &std::path::Path, kv_type: KvType, chunk: u32, sequences: u32) -> (Executor, Pool) {
    executor_with(model, 128, chunk, LoadOptions { sequences, kv_type, ..LoadOptions::new("") })
}

fn executor_with(
    model: &std::path::Path,
    context: u32,
    chunk: u32,
    options: LoadOptions,
) -> (Executor, Pool) {
    let gguf = Gguf::open(model).unwrap();
    let plan = Arc::new(Model::from_gguf(&gguf).unwrap().plan);
    let options = LoadOptions { chunk: Some(chunk), ..options };
    let device = zinc_vulkan::testing::device();
    let executor = Executor::new(device, &gguf, plan, context, &options, Cut::Policy, &mut |_| ()).unwrap();
    // Pages in no order at all.
    let (sequences, count) = (options.sequences, executor.page_count());
    let pages: Vec<u32> = (0..count).map(|i| (i * 7 + 2) % count).collect();
    let pool = Pool::new(sequences, pages.into_iter()).with_states(executor.state_slots());
    (executor, pool)
}

fn executor(chunk: u32) -> (Executor, Pool) {
    executor_of(&zinc_testkit::fixtures("qwen3").remove(0).model, KvType::F16, chunk, 1)
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

/// Keys and values of every token of a sequence, in order of position, layer by layer; then its recurrent states.
fn cache(executor: &Executor, sequence: &Sequence) -> Vec<u8> {
    executor.device.wait_idle().unwrap();
    let mut all = vec![];
    for (spec, (k, v)) in executor.plan.kv.iter().zip(&executor.buffers.kv) {
        for (slice, size) in [(k, spec.key_size), (v, spec.value_size)] {
            let bytes = executor.device.download(slice).unwrap();
            let head_bytes = page_bytes(executor.kv_type, 1, size) as usize;
            for position in 0..sequence.len() {
                let page = sequence.pages()[position / PAGE_TOKENS as usize] as usize;
                for head in 0..spec.heads as usize {
                    let of_head = &bytes[(page * spec.heads as usize + head) * head_bytes..];
                    for range in row_ranges(executor.kv_type, size, position as u32 % PAGE_TOKENS) {
                        all.extend_from_slice(&of_head[range.start as usize..range.end as usize]);
                    }
                }
            }
        }
    }
    for state in executor.read_states(sequence).unwrap() {
        all.extend_from_slice(bytemuck::cast_slice(&state));
    }
    all
}

/// The bits of a text read in steps of these sizes, in turn: the rows of logits by position, where they were wanted, and the cache.
fn bits_of(
    model: &std::path::Path,
    kv_type: KvType,
    text: &[u32],
    sizes: &[usize],
) -> (Vec<Vec<u32>>, Vec<u8>) {
    let (mut executor, pool) = executor_of(model, kv_type, 64, 1);
    let mut sequence = pool.sequence(!executor.plan.states.is_empty()).unwrap();
    let mut rows = vec![vec![]; text.len()];
    for (i, &size) in (0..text.len()).zip(sizes.iter().cycle()) {
        let from = sequence.len();
        let tokens = &text[from..text.len().min(from + size)];
        // Every row of every second step, and of the others the last one: there the last layer leaves rows out.
        let want = if i % 2 == 0 { Want::All } else { Want::Last };
        let logits = read(&mut executor, &mut sequence, tokens, want);
        let vocab = executor.extents.vocab as usize;
        for (row, values) in rows[..sequence.len()].iter_mut().rev().zip(logits.chunks(vocab).rev()) {
            *row = values.iter().map(|v| v.to_bits()).collect();
        }
        if sequence.len() == text.len() {
            break;
        }
    }
    (rows, cache(&executor, &sequence))
}

/// Steps of every class of rows give the bits of single tokens, at every position and in every cache, past the windows; so do odd
/// cuts. Other formats of the architecture likewise, in fewer classes, the second with a cache of blocks.
fn steps_of_every_width(name: &str) {
    let text: Vec<u32> = (0..101u32).map(|i| (i * 37 + 11) % 500).collect();
    for (i, fixture) in zinc_testkit::fixtures(name).iter().enumerate() {
        let text = if i == 0 { &text[..] } else { &text[..41] };
        let kv_type = if i == 1 { KvType::Q8_0 } else { KvType::F16 };
        let single = bits_of(&fixture.model, kv_type, text, &[1]);
        let classes: &[&[usize]] = match i {
            0 => &[&[7, 16, 64, 14], &[40, 2], &[1, 33, 2, 63]],
            1 => &[&[40], &[7, 33, 1]],
            _ => &[&[40]],
        };
        for sizes in classes {
            let (rows, cache) = bits_of(&fixture.model, kv_type, text, sizes);
            let what = format!("{name} {}, steps of {sizes:?}", fixture.quant);
            for (at, (got, want)) in rows.iter().zip(&single.0).enumerate() {
                assert!(got.is_empty() || want.is_empty() || got == want, "{what}: position {at}");
            }
            assert!(rows[text.len() - 1] == single.0[text.len() - 1], "{what}");
            assert!(cache == single.1, "{what}: the cache");
        }
    }
    zinc_vulkan::testing::assert_valid();
}

macro_rules! architectures {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            steps_of_every_width(stringify!($name));
        }
    )*};
}
architectures![llama qwen2 qwen3 gemma3 gemma4 qwen35];

/// Batched and single-token prompts in turn, and several parts in a step, with every result buffer spoilt in between: argmax,
/// candidates and rows are those of their step and of their part.
#[test]
fn results_are_those_of_their_step_and_part() {
    let model = zinc_testkit::fixtures("qwen3").remove(0).model;
    let (mut executor, pool) = executor_of(&model, KvType::F16, 16, 2);
    let (mut a, mut b) = (pool.sequence(false).unwrap(), pool.sequence(false).unwrap());
    let prompts: Vec<Vec<u32>> = [(3, 21), (5, 1), (11, 40), (13, 2)]
        .map(|(seed, n)| (0..n).map(|i| (i * seed + seed) % 500).collect())
        .into();
    let mut row_of = |prompt: &Vec<u32>, executor: &mut Executor| {
        a.truncate(0);
        read(executor, &mut a, prompt, Want::Last)
    };
    let rows: Vec<Vec<f32>> = prompts.iter().map(|p| row_of(p, &mut executor)).collect();
    let best = |row: &[f32]| (0..row.len()).fold(0, |b, i| if row[i] > row[b] { i } else { b }) as u32;
    let spoil = |executor: &mut Executor| {
        executor.device.wait_idle().unwrap();
        executor.poison(Tail::Host { rows: true, candidates: true }, executor.logit_rows()).unwrap();
    };
    for i in [0, 1, 2, 3, 1, 2] {
        let (prompt, next) = (&prompts[i], &prompts[(i + 1) % 4]);
        let (last, row) = (prompt.len() - 1, &rows[i]);
        // One token a step, or as many as fit; the argmax chosen on the device.
        a.truncate(0);
        for part in prompt[..last].chunks(if i % 2 == 0 { 1 } else { 16 }) {
            executor.forward(&mut [Part { sequence: &mut a, tokens: part, want: Want::None }]).unwrap();
            a.push(part);
        }
        spoil(&mut executor);
        let mut greedy = Greedy::new(1);
        assert_eq!(greedy.next(&mut executor, &mut a, &prompt[last..]).unwrap(), best(row), "prompt {i}");
        greedy.finish(&mut executor).unwrap();
        // The same token again, beside another sequence that wants something else.
        b.truncate(0);
        read(&mut executor, &mut b, &next[..next.len() - 1], Want::None);
        spoil(&mut executor);
        let end = &next[next.len() - 1..];
        let wants = [[Want::Candidates, Want::Last], [Want::Last, Want::Candidates]][i % 2];
        let mut parts = [
            Part { sequence: &mut a, tokens: &prompt[last..], want: wants[0] },
            Part { sequence: &mut b, tokens: end, want: wants[1] },
        ];
        let outputs = executor.forward(&mut parts).unwrap();
        for (output, want) in outputs.iter().zip([row, &rows[(i + 1) % 4]]) {
            match output {
                PartOutput::Logits(logits) => assert!(&logits.values == want, "prompt {i}"),
                PartOutput::Candidates { best: found, .. } => {
                    assert_eq!(found.tokens[0].0, best(want), "prompt {i}")
                }
                PartOutput::Nothing => panic!("something was wanted"),
            }
        }
        // What the next step did not compute cannot be read as its own.
        let step = executor.steps + 1;
        executor.forward(&mut [Part { sequence: &mut b, tokens: &[1], want: Want::Last }]).unwrap();
        assert!(executor.read_candidates(LogitRow { step, row: 0 }).is_err(), "it gave no candidates");
    }
    zinc_vulkan::testing::assert_valid();
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
    // Poisoned buffers are not taken for results.
    executor.poison(Tail::Host { rows: true, candidates: true }, 1).unwrap();
    assert!(matches!(executor.read_rows(1), Err(Error::StaleResult { .. })));
    assert!(matches!(executor.read_candidates(held), Err(Error::StaleResult { .. })));
    read(&mut executor, &mut sequence, &[4], Want::None);
    assert!(matches!(executor.logit_row(held), Err(Error::StaleResult { .. })), "another step has run since");
    let later = LogitRow { step: executor.steps, row: 0 };
    assert!(matches!(executor.logit_row(later), Err(Error::StaleResult { .. })), "it computed no logits");
    sequence.truncate(2);
    assert_eq!(read(&mut executor, &mut sequence, &[3], Want::Last), row);
    zinc_vulkan::testing::assert_valid();
}

/// Once the pipelines of all steps are made, none is made by the first step of any shape, nor by greedy ones, nor with more keys.
#[test]
fn no_step_makes_a_pipeline_after_warming() {
    let options = LoadOptions { precision: Some(Precision::Fast), ..LoadOptions::new("") };
    let model = zinc_testkit::fixtures("qwen35moe").remove(0).model;
    let (mut executor, pool) = executor_with(&model, 320, 8, options);
    assert!(executor.warming.is_none(), "not on a software driver");
    executor.warm();
    executor.finish_warming();
    let made = executor.kernels.made();
    assert!(made > 10, "{made}");
    let mut sequence = pool.sequence(true).unwrap();
    let mut step = |executor: &mut Executor, tokens: usize, want| {
        let tokens: Vec<u32> = (0..tokens as u32).map(|i| i * 7 % 500).collect();
        sequence.truncate(0);
        read(executor, &mut sequence, &tokens, want);
        assert_eq!(executor.kernels.made(), made, "a step of {} rows, {want:?}", tokens.len());
    };
    for rows in executor.widths.rows().to_vec() {
        for want in [Want::None, Want::Candidates, Want::All] {
            step(&mut executor, rows as usize, want);
        }
    }
    step(&mut executor, 8 * 34, Want::Last);
    step(&mut executor, 1, Want::None);
    let mut greedy = Greedy::new(2);
    greedy.next(&mut executor, &mut sequence, &[1, 2, 3]).unwrap();
    greedy.finish(&mut executor).unwrap();
    assert_eq!(executor.kernels.made(), made, "greedy");
}
