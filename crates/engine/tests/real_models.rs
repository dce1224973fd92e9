//! CPU and Vulkan agree on a real model.

mod common;

use std::ops::ControlFlow;
use zinc_engine::{Event, GenerateOptions, KvType, LoadOptions, Want};

/// Greedy text of SmolLM2: the same tokens, or a difference only where the two best logits are nearly equal.
#[test]
fn smollm2_continues_alike() {
    let Some(model) = zinc_testkit::model_file("smollm2-135m-instruct-q4_1.gguf") else { return };
    let mut options = LoadOptions::new(&model);
    (options.context, options.kv_type) = (Some(128), KvType::F32);
    let mut cpu = common::cpu(&model, options.clone());
    let mut gpu = common::vulkan(&model, &options);
    let prompt =
        cpu.tokenizer().unwrap().encode("The capital of France is", zinc_text::ControlTokens::AsText);
    let mut runs = [&mut cpu, &mut gpu].map(|engine| {
        let mut sequence = engine.sequence().unwrap();
        let mut ids = vec![];
        let options = GenerateOptions { max_tokens: 64, ignore_end: true, ..Default::default() };
        let mut collect = |event| {
            if let Event::Token { id, .. } = event {
                ids.push(id);
            }
            ControlFlow::Continue(())
        };
        engine.generate(&mut sequence, &prompt, &options, &mut collect).unwrap();
        ids
    });
    let [a, b] = &mut runs;
    println!("{}", cpu.tokenizer().unwrap().decode(a));
    if let Some(at) = (0..64).find(|&i| a[i] != b[i]) {
        let mut text = prompt.clone();
        text.extend(&a[..at]);
        let logits = common::last_logits(&mut cpu, &text);
        let gap = (logits[a[at] as usize] - logits[b[at] as usize]).abs();
        let allowed = common::allowed_margin(&logits, zinc_testkit::tolerance::LOGITS_F32);
        assert!(gap <= allowed, "token {at}: {} or {}, {gap} apart, {allowed} allowed", a[at], b[at]);
    }
    let text: Vec<u32> = prompt.iter().chain(&a[..24]).copied().collect();
    let rows = |engine: &mut zinc_engine::Engine| {
        let mut sequence = engine.sequence().unwrap();
        engine.forward(&mut sequence, &text, Want::Last).unwrap().values
    };
    let (want, got) = (rows(&mut cpu), rows(&mut gpu));
    let error = zinc_testkit::relative_rms(&got, &want);
    println!("logits: {error:.2e}");
    assert!(error <= zinc_testkit::tolerance::LOGITS_F32, "{error:.2e}");
    zinc_vulkan::testing::assert_valid();
}
