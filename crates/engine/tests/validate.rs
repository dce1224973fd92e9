//! Validate mode: it passes where paths agree, changes nothing, and finds a fault in every kind of operation.

mod common;

use common::{bits, vulkan};
use zinc_engine::{Against, Engine, Error, KvType, LoadOptions, ValidateOptions, Want};
use zinc_testkit::{ARCHITECTURES, fixtures};

fn engine_of(name: &str, kv_type: KvType, set: impl FnOnce(&mut LoadOptions)) -> Engine {
    let mut options = common::options(kv_type);
    options.chunk = Some(8);
    set(&mut options);
    vulkan(&fixtures(name)[0].model, &options)
}

fn text(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 37 + 11) % 500).collect()
}

fn asking(reference: bool, all_logits: bool) -> ValidateOptions {
    let mut options = ValidateOptions::default();
    (options.reference, options.all_logits) = (reference, all_logits);
    options
}

/// After a history, over several steps, with all kinds of caches, for the last and for all logits.
#[test]
fn what_agrees_passes_and_is_left_as_without() {
    let text = text(26);
    let (history, rest) = text.split_at(5);
    let (rest, next) = rest.split_at(19);
    for (i, name) in ARCHITECTURES.into_iter().enumerate() {
        // Blocks where no choice of experts turns on what they lose.
        let kv_type = match name {
            "qwen3" | "qwen35" => KvType::Q8_0,
            _ => KvType::ALL[i % 2],
        };
        let options = asking(true, i % 2 == 0);
        let mut engine = engine_of(name, kv_type, |_| ());
        let mut plain = engine.sequence().unwrap();
        engine.forward(&mut plain, history, Want::None).unwrap();
        engine.forward(&mut plain, rest, Want::None).unwrap();
        let want = bits(&engine.forward(&mut plain, next, Want::All).unwrap());

        let mut sequence = engine.sequence().unwrap();
        engine.forward(&mut sequence, history, Want::None).unwrap();
        let report = engine.validate(&mut sequence, rest, &options).unwrap();
        println!("{name}: {report}");
        assert!(report.ok, "{name}: {report}");
        assert_eq!((report.n_tokens, report.history), (19, 5));
        assert_eq!(report.steps, [8, 8, 3]);
        let (caches, states) = (engine.model().plan.kv.len(), engine.model().plan.states.len());
        for c in &report.comparisons {
            assert_eq!(c.logits.rows, if options.all_logits { 19 } else { 1 });
            assert_eq!((c.keys.rows, c.values.rows), (19 * caches, 19 * caches));
            assert_eq!(c.states.rows, 3 * states);
        }
        let [single, reference] = &report.comparisons[..] else { panic!("two comparisons") };
        assert_eq!(single.against, Against::PerToken);
        let differences = [&single.logits, &single.keys, &single.states].map(|m| m.max_abs_diff);
        assert_eq!(differences, [0.0; 3]);
        assert_eq!((single.choice.same_best, single.choice.kl_max), (single.logits.rows, 0.0));
        assert_eq!(reference.against, Against::CpuReference);
        assert!(reference.logits.max_abs_diff > 0.0, "another executor");
        assert_eq!(sequence.tokens(), &text[..24]);
        assert!(bits(&engine.forward(&mut sequence, next, Want::All).unwrap()) == want, "{name}: afterwards");
    }
    zinc_vulkan::testing::assert_valid();
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let mut engine = engine_of("qwen3", KvType::F16, |o| o.chunk = Some(1));
    let mut sequence = engine.sequence().unwrap();
    let refused = engine.validate(&mut sequence, &[1, 2], &ValidateOptions::default());
    assert!(matches!(refused, Err(Error::Option(_))), "one token a step");
    let options = asking(true, false);
    assert!(engine.validate(&mut sequence, &[1, 2], &options).unwrap().ok, "but the CPU can be compared");
    let mut cpu = common::cpu(&fixtures("qwen3")[0].model, common::options(KvType::F32));
    let mut sequence = cpu.sequence().unwrap();
    assert!(matches!(cpu.validate(&mut sequence, &[1, 2], &options), Err(Error::Option(_))));
}

/// SmolLM2 on prompts of some tokens; on a software driver a token takes half a second.
#[test]
fn smollm2_passes() {
    let Some(model) = zinc_testkit::model_file("smollm2-135m-instruct-q4_1.gguf") else { return };
    let mut options = LoadOptions::new(&model);
    (options.context, options.chunk) = (Some(128), Some(16));
    let mut engine = vulkan(&model, &options);
    let tokenizer = engine.tokenizer().unwrap();
    let encode = |text: &str, n: usize| {
        let mut ids = tokenizer.encode(text, zinc_text::ControlTokens::AsText);
        ids.truncate(n);
        ids
    };
    let long = "Once upon a time there was a fox who lived at the edge of a forest. Every morning it walked to the river, \
        where it met a heron that had seen many winters and told stories of them.";
    let prompts =
        [encode("The capital of France is", 4), encode("def fibonacci(n):\n    if n", 8), encode(long, 20)];
    for (prompt, reference) in prompts.iter().zip([true, false, true]) {
        let mut sequence = engine.sequence().unwrap();
        let options = asking(reference, false);
        let report = engine.validate(&mut sequence, prompt, &options).unwrap();
        println!("{report}");
        assert!(report.ok, "{report}");
        assert_eq!(report.n_tokens, prompt.len());
    }
    zinc_vulkan::testing::assert_valid();
}
