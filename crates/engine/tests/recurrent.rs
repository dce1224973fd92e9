//! Recurrent states on the device: kept, gone back to, shared, and what they take.

mod common;

use common::{bits, vulkan};
use std::ops::ControlFlow;
use zinc_engine::{
    Engine, Error, Event, GenerateOptions, KvType, LoadOptions, Part, PartOutput, Sequence, Stats,
    ValidateOptions, Want,
};
use zinc_testkit::fixtures;

/// Bytes of a sequence's states: three delta nets of 4 heads of 128 x 128 with 3 inputs of 2·256 + 512 channels.
const STATE: u64 = 3 * 4 * (4 * 128 * 128 + 3 * 1024);

fn engine_with(change: impl FnOnce(&mut LoadOptions)) -> Engine {
    let mut options = common::options(KvType::F16);
    (options.chunk, options.context) = (Some(24), Some(160));
    change(&mut options);
    vulkan(&fixtures("qwen35")[0].model, &options)
}

fn text(seed: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * seed + seed) % 500).collect()
}

/// The bits of the logits of the last `n` tokens of a text that is read from its beginning.
fn cold(engine: &mut Engine, text: &[u32], n: usize) -> Vec<u32> {
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, &text[..text.len() - n], Want::None).unwrap();
    bits(&engine.forward(&mut sequence, &text[text.len() - n..], Want::All).unwrap())
}

/// Generates until `stop` tokens have come.
fn generate(
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    stop: usize,
    keep: bool,
) -> (Vec<u32>, Stats) {
    let mut ids = vec![];
    let options = GenerateOptions { max_tokens: 60, ignore_end: true, keep, ..Default::default() };
    let mut on_event = |event| {
        if let Event::Token { id, .. } = event {
            ids.push(id);
        }
        if ids.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stats = engine.generate(sequence, prompt, &options, &mut on_event).unwrap();
    (ids, stats)
}

/// A generation that is broken off leaves the states of the tokens that it gave, however many steps were on the queue: the next turn
/// computes what is new, with the bits of a cold run.
#[test]
fn a_second_turn_computes_only_its_new_tokens() {
    let submissions = [0, 1, 3].map(second_turn);
    // A step ahead for each slot more, up to two.
    assert_eq!(submissions, [0, 1, 2].map(|ahead| submissions[0] + ahead));
}

/// Two turns where there is memory for so many more states; the submissions of the first.
fn second_turn(spare_states: u64) -> u64 {
    let mut engine = engine_with(|o| o.checkpoint_bytes = spare_states * STATE);
    let mut sequence = engine.sequence().unwrap();
    let mut conversation = text(7, 40);
    let (said, stats) = generate(&mut engine, &mut sequence, &conversation, 6, false);
    let submissions = stats.submissions;
    assert_eq!((stats.prompt_tokens, stats.reused_tokens, said.len()), (40, 0, 6));
    conversation.extend(&said);
    assert_eq!(sequence.tokens(), &conversation[..45], "the last token was never computed");
    conversation.extend(text(11, 9));
    let (again, stats) = generate(&mut engine, &mut sequence, &conversation, 3, false);
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (55, 45));
    conversation.extend(&again);
    // What it holds now is what a cold run holds.
    let next = text(13, 5);
    let warm =
        bits(&engine.forward(&mut sequence, &[&conversation[57..], &next].concat(), Want::All).unwrap());
    let all = [&conversation[..], &next].concat();
    assert!(warm == cold(&mut engine, &all, 6));
    // And what it said is what single steps say.
    let mut single = engine.sequence().unwrap();
    let mut feed = conversation[..40].to_vec();
    for &id in &said {
        let logits = engine.forward(&mut single, &feed, Want::Last).unwrap();
        assert_eq!(common::best(&logits.values), id);
        feed = vec![id];
    }
    zinc_vulkan::testing::assert_valid();
    submissions
}

/// A prompt that differs from the last one near its end alone, as where a template drops reasoning.
#[test]
fn a_prompt_that_begins_like_the_last_one_goes_on_from_where_states_were_kept() {
    let mut engine = engine_with(|_| ());
    let mut sequence = engine.sequence().unwrap();
    let first = text(7, 60);
    generate(&mut engine, &mut sequence, &first, 5, true);
    assert_eq!(sequence.kept().collect::<Vec<_>>(), [52]);
    let second = [&first[..56], &text(17, 20)[..]].concat();
    let (said, stats) = generate(&mut engine, &mut sequence, &second, 4, true);
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (76, 52));
    assert_eq!(sequence.kept().collect::<Vec<_>>(), [52, 68]);
    let mut fresh = engine.sequence().unwrap();
    let (want, stats) = generate(&mut engine, &mut fresh, &second, 4, false);
    assert_eq!((said, stats.reused_tokens), (want, 0));
}

/// Cuts go back to where states were kept, beside another sequence in the same steps, and give the bits of a cold run.
#[test]
fn a_cut_goes_back_to_kept_states() {
    let mut engine = engine_with(|_| ());
    let (a, b) = (text(31, 70), text(77, 50));
    let (mut sa, mut sb) = (engine.sequence().unwrap(), engine.sequence().unwrap());
    let mut both = |engine: &mut Engine, sa: &mut Sequence, ta: &[u32], tb: &[u32], want: Want| {
        let parts = &mut [
            Part { sequence: sa, tokens: ta, want },
            Part { sequence: &mut sb, tokens: tb, want: Want::Last },
        ];
        match engine.forward_batch(parts).unwrap().remove(0) {
            PartOutput::Logits(logits) => bits(&logits),
            _ => vec![],
        }
    };
    both(&mut engine, &mut sa, &a[..9], &b[..1], Want::None);
    assert!(sa.keep());
    both(&mut engine, &mut sa, &a[9..32], &b[1..20], Want::None);
    assert!(sa.keep());
    both(&mut engine, &mut sa, &a[32..], &b[20..30], Want::None);
    sa.truncate(40);
    assert_eq!(sa.len(), 32);
    let rest = text(5, 20);
    let got = both(&mut engine, &mut sa, &rest, &b[30..31], Want::All);
    sa.truncate(31);
    assert_eq!(sa.len(), 9, "what was kept of 32 is gone with them");
    let again = both(&mut engine, &mut sa, &a[9..], &b[31..], Want::All);
    // In the end the other one holds what it would hold alone.
    let end = bits(&engine.forward(&mut sb, &[3], Want::Last).unwrap());
    drop(sa);
    assert!(got == cold(&mut engine, &[&a[..32], &rest].concat(), 20));
    assert!(again == cold(&mut engine, &a, 61));
    assert!(end == cold(&mut engine, &[&b[..], &[3]].concat(), 1));
    zinc_vulkan::testing::assert_valid();
}

/// A sequence begins with what another one has read, whatever becomes of that one.
#[test]
fn a_shared_prefix_changes_no_bit() {
    let mut engine = engine_with(|o| o.kept_tokens = 32);
    let (prefix, rest) = (text(7, 40), text(11, 13));
    let mut first = engine.sequence().unwrap();
    engine.forward(&mut first, &prefix[..32], Want::None).unwrap();
    assert!(first.keep());
    engine.forward(&mut first, &prefix[32..], Want::None).unwrap();
    let (pages, states) = (first.share(40), first.share_states(32).unwrap());
    assert!(first.share_states(40).is_none(), "only where they were kept");
    let refused = engine.sequence_of(&prefix[..16], &pages[..1], Some(&states));
    assert!(matches!(refused, Err(Error::NotShareable(_))));
    assert!(matches!(engine.sequence_of(&prefix[..32], &pages, None), Err(Error::NotShareable(_))));
    let mut second = engine.sequence_of(&prefix[..32], &pages, Some(&states)).unwrap();
    let parts = &mut [
        Part { sequence: &mut first, tokens: &text(3, 30), want: Want::None },
        Part { sequence: &mut second, tokens: &rest, want: Want::All },
    ];
    let PartOutput::Logits(got) = engine.forward_batch(parts).unwrap().remove(1) else { panic!("logits") };
    drop((first, second));
    let want = cold(&mut engine, &[&prefix[..32], &rest].concat(), 13);
    assert!(bits(&got) == want, "beside the first one");
    let mut third = engine.sequence_of(&prefix[..32], &pages, Some(&states)).unwrap();
    assert!(bits(&engine.forward(&mut third, &rest, Want::All).unwrap()) == want, "kept");
}

/// Without memory for kept states a cut starts over, and what needs them is refused; a profile leaves the states alone.
#[test]
fn what_is_kept_is_bounded() {
    let mut engine = engine_with(|o| (o.checkpoint_bytes, o.sequences) = (0, 1));
    assert_eq!(engine.spare_states(), 0);
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, &text(3, 9), Want::None).unwrap();
    assert!(!sequence.keep());
    assert!(matches!(engine.profile_step(&mut sequence, &[0]), Err(Error::Option(_))));
    let refused = engine.validate(&mut sequence, &text(5, 4), &ValidateOptions::default());
    assert!(matches!(refused, Err(Error::Option(_))));
    sequence.truncate(5);
    assert!(sequence.is_empty());
    assert!(bits(&engine.forward(&mut sequence, &text(3, 9), Want::All).unwrap()).len() > 9, "and goes on");
    drop(sequence);

    let mut engine = engine_with(|_| ());
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, &text(3, 9), Want::None).unwrap();
    for rows in [1, 5] {
        assert!(!engine.profile_step(&mut sequence, &vec![0; rows]).unwrap().is_empty());
    }
    let got = bits(&engine.forward(&mut sequence, &text(5, 4), Want::All).unwrap());
    drop(sequence);
    assert!(got == cold(&mut engine, &[text(3, 9), text(5, 4)].concat(), 4), "after profiles");
}

/// Keys and values of attention layers alone; states of the sequences and of what is kept.
#[test]
fn memory_is_planned_for_states() {
    let mut options = common::options(KvType::F16);
    (options.context, options.sequences, options.checkpoint_bytes) = (Some(160), 2, 3 << 20);
    let engine = vulkan(&fixtures("qwen35")[0].model, &options);
    let item = |name: &str| engine.summary().memory.iter().find(|i| i.0 == name).unwrap().1;
    assert_eq!(item("states"), STATE * (2 + (3 << 20) / STATE));
    // One layer of one KV head of 256, two sequences of 10 pages and the page of rows that fill up a step.
    assert_eq!(item("KV cache"), 2 * 256 * 2 * 16 * (2 * 10 + 1));
}
