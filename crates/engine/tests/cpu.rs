//! Generation on the CPU executor: what does not depend on a device.

mod common;

use std::ops::ControlFlow;
use zinc_engine::{
    BackendWish, Engine, Error, Event, GenerateOptions, KvType, LoadOptions, SamplingOptions, StopReason,
    Want,
};
use zinc_testkit::fixtures;

fn engine() -> Engine {
    common::cpu(&fixtures("qwen3")[0].model, common::options(KvType::F32))
}

/// Tokens and text of a generation.
fn run(engine: &mut Engine, prompt: &[u32], options: &GenerateOptions) -> (Vec<u32>, String, StopReason) {
    let mut sequence = engine.sequence().unwrap();
    let (mut ids, mut all) = (vec![], String::new());
    let stats = engine
        .generate(&mut sequence, prompt, options, &mut |event| {
            match event {
                Event::Token { id, text } => {
                    ids.push(id);
                    all.push_str(&text);
                }
                Event::Rest { text } => all.push_str(&text),
                Event::Prefill { .. } => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(stats.generated, ids.len());
    assert_eq!(stats.prompt_tokens, prompt.len());
    (ids, all, stats.stop)
}

#[test]
fn greedy_text_is_the_fixtures() {
    let fixture = &fixtures("qwen3")[0];
    let reference = fixture.load_reference();
    let mut engine = engine();
    for len in [7, 41] {
        let prompt = common::tokens(&reference, &format!("tokens_{len}"));
        let options = GenerateOptions { max_tokens: 16, ignore_end: true, ..Default::default() };
        let (ids, text, stop) = run(&mut engine, &prompt, &options);
        let margins = reference.f32(&format!("greedy_margin_{len}"));
        let sure = margins.iter().take_while(|&&m| m > 1e-3).count();
        let want = common::tokens(&reference, &format!("greedy_{len}"));
        assert_eq!(ids[..sure], want[..sure]);
        assert_eq!(stop, StopReason::MaxTokens);
        let tokenizer = engine.tokenizer().unwrap();
        assert!(ids.iter().any(|&t| tokenizer.is_control(t)) || text == tokenizer.decode(&ids));
    }
}

#[test]
fn a_stop_string_cuts_the_text_before_it() {
    let mut engine = engine();
    let prompt = [5, 6, 7];
    let options = GenerateOptions { max_tokens: 40, ignore_end: true, ..Default::default() };
    let (ids, text, _) = run(&mut engine, &prompt, &options);
    let stop: String = text.chars().skip(4).take(3).collect();
    let (cut, short, why) =
        run(&mut engine, &prompt, &GenerateOptions { stop: vec![stop.clone()], ..options });
    assert_eq!(why, StopReason::StopString(stop.clone()));
    assert_eq!(short, text[..text.find(&stop).unwrap()]);
    assert_eq!(cut[..], ids[..cut.len()]);
}

#[test]
fn a_second_turn_computes_only_its_new_tokens() {
    let mut engine = engine();
    let mut sequence = engine.sequence().unwrap();
    let options = GenerateOptions { max_tokens: 8, ignore_end: true, ..Default::default() };
    let mut text: Vec<u32> = (1..40).collect();
    let mut first = vec![];
    let mut collect = |event| {
        if let Event::Token { id, .. } = event {
            first.push(id);
        }
        ControlFlow::Continue(())
    };
    engine.generate(&mut sequence, &text, &options, &mut collect).unwrap();
    text.extend(&first);
    text.extend(100..110);
    let mut second = vec![];
    let stats = engine
        .generate(&mut sequence, &text, &options, &mut |event| {
            if let Event::Token { id, .. } = event {
                second.push(id);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (57, 46), "the last token was never computed");
    drop(sequence);
    assert_eq!(run(&mut engine, &text, &options).0, second, "as if computed from the beginning");
}

#[test]
fn a_generation_ends_at_its_limits() {
    let mut engine = engine();
    let prompt: Vec<u32> = (0..318).map(|i| i % 500).collect();
    let options = GenerateOptions { max_tokens: 100, ignore_end: true, ..Default::default() };
    let (ids, _, stop) = run(&mut engine, &prompt, &options);
    assert_eq!((ids.len(), stop), (3, StopReason::ContextFull), "two places in the cache give three tokens");

    let mut sequence = engine.sequence().unwrap();
    let stats = engine
        .generate(&mut sequence, &[1, 2, 3], &options, &mut |event| match event {
            Event::Token { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    assert_eq!((stats.generated, stats.stop), (1, StopReason::Cancelled));
    let none = GenerateOptions { max_tokens: 0, ..options };
    assert!(run(&mut engine, &[1, 2, 3], &none).0.is_empty());
}

#[test]
fn sampling_repeats_by_seed() {
    let mut engine = engine();
    let with_seed = |seed| GenerateOptions {
        max_tokens: 24,
        ignore_end: true,
        sampling: SamplingOptions { temperature: 1.5, seed, ..Default::default() },
        ..Default::default()
    };
    let a = run(&mut engine, &[1, 2, 3], &with_seed(1)).0;
    assert_eq!(a, run(&mut engine, &[1, 2, 3], &with_seed(1)).0);
    assert_ne!(a, run(&mut engine, &[1, 2, 3], &with_seed(2)).0);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut engine = engine();
    let mut a = engine.sequence().unwrap();
    let _b = engine.sequence().unwrap();
    assert!(matches!(engine.sequence(), Err(Error::NoSequence { sequences: 2 })));
    assert!(matches!(engine.forward(&mut a, &[100_000], Want::Last), Err(Error::TokenOutOfRange { .. })));
    assert!(matches!(engine.forward(&mut a, &[1; 321], Want::None), Err(Error::ContextFull { .. })));
    let none = &mut |_| ControlFlow::Continue(());
    assert!(matches!(engine.generate(&mut a, &[], &Default::default(), none), Err(Error::EmptyPrompt)));
    let mut other = self::engine();
    assert!(matches!(other.forward(&mut a, &[1], Want::None), Err(Error::ForeignSequence)));
    let mut options = LoadOptions::new(&fixtures("qwen3")[0].model);
    (options.backend, options.context) = (BackendWish::Cpu, Some(1 << 30));
    let error = Engine::load(&options, &mut |_| ()).err().unwrap();
    assert!(error.to_string().contains("trained for"), "{error}");
}

/// All rows at once equal the last row of each beginning.
#[test]
fn all_rows_are_those_of_each_prefix() {
    let mut engine = engine();
    let text: Vec<u32> = (3..80).collect();
    let mut sequence = engine.sequence().unwrap();
    let all = engine.forward(&mut sequence, &text, Want::All).unwrap();
    assert_eq!(all.rows(), text.len());
    for len in [1, 40, 65, 77] {
        assert_eq!(all.row(len - 1), common::last_logits(&mut engine, &text[..len]), "length {len}");
    }
}

/// Any model whose operations have kernels can be planned for a device that is not here, large heads included.
#[test]
fn a_load_is_planned_without_a_device() {
    for name in ["llama", "qwen2", "qwen3", "gemma3", "qwen35"] {
        let engine = common::cpu(&fixtures(name)[0].model, common::options(KvType::F32));
        let options = common::options(KvType::F16);
        let plan = zinc_engine::plan_without_device(engine.model(), &options, 8 << 30).unwrap();
        assert_eq!((plan.context, plan.path.chunk), (320, 512), "{name}");
        let weights = plan.memory.items.iter().find(|i| i.0 == "weights").unwrap().1;
        assert!(weights > 1 << 20 && plan.memory.total() > weights, "{name}");
        let refused = zinc_engine::plan_without_device(engine.model(), &options, weights);
        assert!(matches!(refused, Err(Error::DoesNotFit(_))), "{name}");
    }
}
