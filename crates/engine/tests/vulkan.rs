//! The executor on Vulkan against the fixtures, on the test device.

mod common;

use common::{LENGTHS, bits, check_fixture, f16_tolerance, last_logits, q8_0_tolerance, vulkan};
use std::ops::ControlFlow;
use std::sync::Arc;
use zinc_engine::{
    Engine, Error, Event, GenerateOptions, KvType, LoadOptions, Precision, SamplingOptions, Want,
};
use zinc_gguf::Gguf;
use zinc_testkit::{fixtures, relative_rms, tolerance};

/// All stored logits of all quantisations of an architecture: f32 caches against the f32 tolerance.
fn exact(name: &str) {
    for fixture in fixtures(name) {
        let mut engine = vulkan(&fixture.model, &common::options(KvType::F32));
        let worst = check_fixture(&mut engine, &fixture, &LENGTHS, tolerance::LOGITS_F32);
        println!("{name} {}, f32 cache: {worst:.2e}", fixture.quant);
    }
    zinc_vulkan::testing::assert_valid();
}

/// The same with f16 caches, of one quantisation: the cache knows nothing of them.
fn half(name: &str) {
    let fixture = &fixtures(name)[0];
    let mut engine = vulkan(&fixture.model, &common::options(KvType::F16));
    let limit = f16_tolerance(fixture);
    let worst = check_fixture(&mut engine, fixture, &LENGTHS, limit);
    println!("{name} {}, f16 cache: {worst:.2e} of {limit:.2e}", fixture.quant);
    zinc_vulkan::testing::assert_valid();
}

/// Caches of blocks.
fn blocks(name: &str) {
    let fixture = &fixtures(name)[0];
    let mut engine = vulkan(&fixture.model, &common::options(KvType::Q8_0));
    let limit = q8_0_tolerance(fixture);
    let worst = check_fixture(&mut engine, fixture, &[17, 105], limit);
    println!("{name} {}, q8_0 cache: {worst:.2e} of {limit:.2e}", fixture.quant);
    zinc_vulkan::testing::assert_valid();
}

/// Prompts under the fast policy, whose products have f16 factors, against the fixtures' f32.
fn fast(name: &str) {
    let fixture = &fixtures(name)[0];
    let mut options = common::options(KvType::F16);
    options.precision = Some(Precision::Fast);
    let mut engine = vulkan(&fixture.model, &options);
    let families: Vec<_> = engine.products(105).unwrap().iter().map(|p| p.product.family()).collect();
    assert!(families.contains(&"gemm"), "{families:?}");
    let reference = fixture.load_reference();
    let got = last_logits(&mut engine, &common::tokens(&reference, "tokens_105"));
    let error = relative_rms(&got, &reference.f32("logits_105"));
    println!("{name} {}, fast: {error:.2e}", fixture.quant);
    assert!(error <= tolerance::LOGITS_FAST, "{error:.2e}");
    zinc_vulkan::testing::assert_valid();
}

macro_rules! architectures {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            fn exact() {
                super::exact(stringify!($name));
            }
        }
    )*};
}
architectures![llama qwen2 qwen3 gemma3 gemma4 qwen35 gptoss];

/// Caches of f16 where attention differs: plain, windows and large heads, sinks. `scripts/device-check.py` has all of them.
macro_rules! half_caches {
    ($($name:ident)*) => {
        mod half {
            $(#[test]
            fn $name() {
                super::half(stringify!($name));
            })*
        }
    };
}
half_caches![llama gemma3 gptoss];

/// Caches of q8_0: likewise.
macro_rules! block_caches {
    ($($name:ident)*) => {
        mod blocks {
            $(#[test]
            fn $name() {
                super::blocks(stringify!($name));
            })*
        }
    };
}
block_caches![llama gemma3 gptoss];

/// Those whose products differ in what is fused with them: biases, gates, sandwich norms, a hybrid, experts.
macro_rules! fast_policy {
    ($($name:ident)*) => {
        mod fast {
            $(#[test]
            fn $name() {
                super::fast(stringify!($name));
            })*
        }
    };
}
fast_policy![qwen2 gemma4 qwen35 gptoss];

/// Architectures whose caches are those of others.
macro_rules! experts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            exact(stringify!($name));
        }
    )*};
}
experts![qwen3moe qwen35moe qwen3next gemma4moe];

fn engine_with(name: &str, change: impl FnOnce(&mut LoadOptions)) -> Engine {
    let mut options = common::options(KvType::F16);
    change(&mut options);
    vulkan(&fixtures(name)[0].model, &options)
}

/// Fusion changes no bit that matters: the unfused schedule stays within the f32 tolerance, and usually equals it.
#[test]
fn the_unfused_schedule_agrees() {
    for fixture in ["qwen2", "gemma3", "gemma4moe"].into_iter().flat_map(fixtures) {
        let mut options = common::options(KvType::F32);
        options.fuse = false;
        let mut engine = vulkan(&fixture.model, &options);
        check_fixture(&mut engine, &fixture, &[7, 41], tolerance::LOGITS_F32);
    }
}

/// Two sequences in turn, whose pages interleave, give what each gives alone.
#[test]
fn sequences_do_not_see_each_other() {
    let text = |seed: u32| (0..60u32).map(move |i| (i * seed + 3) % 500).collect::<Vec<_>>();
    let (a, b) = (text(31), text(77));
    let alone = |text: &[u32]| {
        let mut engine = engine_with("qwen3", |_| ());
        let mut sequence = engine.sequence().unwrap();
        bits(&engine.forward(&mut sequence, text, Want::All).unwrap())
    };
    let mut engine = engine_with("qwen3", |_| ());
    let (mut sa, mut sb) = (engine.sequence().unwrap(), engine.sequence().unwrap());
    let (mut got_a, mut got_b) = (vec![], vec![]);
    for (pa, pb) in a.chunks(7).zip(b.chunks(7)) {
        got_a.extend(bits(&engine.forward(&mut sa, pa, Want::All).unwrap()));
        got_b.extend(bits(&engine.forward(&mut sb, pb, Want::All).unwrap()));
    }
    assert!(got_a == alone(&a), "the first sequence");
    assert!(got_b == alone(&b), "the second sequence");
    // Cut and go on: as if the cut part had never been.
    sa.truncate(20);
    engine.forward(&mut sa, &a[20..], Want::None).unwrap();
    let again = bits(&engine.forward(&mut sa, &[9], Want::Last).unwrap());
    let mut longer = a.clone();
    longer.push(9);
    assert!(alone(&longer).ends_with(&again), "after a cut");
}

fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
) -> (Vec<u32>, zinc_engine::Stats) {
    let mut sequence = engine.sequence().unwrap();
    let mut ids = vec![];
    let stats = engine
        .generate(&mut sequence, prompt, options, &mut |event| {
            if let Event::Token { id, .. } = event {
                ids.push(id);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    (ids, stats)
}

/// Greedy steps that the GPU chains give what single steps with the host's argmax give, over several key buckets, and a second
/// generation is not disturbed by steps that the first had submitted ahead.
#[test]
fn chained_steps_equal_single_steps() {
    let mut engine = engine_with("qwen3", |_| ());
    let prompt: Vec<u32> = (0..250u32).map(|i| (i * 13 + 5) % 500).collect();
    let mut sequence = engine.sequence().unwrap();
    let mut want = vec![];
    let mut feed = prompt.clone();
    for _ in 0..30 {
        let logits = engine.forward(&mut sequence, &feed, Want::Last).unwrap();
        want.push(common::best(&logits.values));
        feed = vec![want[want.len() - 1]];
    }
    let options = GenerateOptions { max_tokens: 30, ignore_end: true, ..Default::default() };
    for _ in 0..2 {
        let (ids, stats) = generate(&mut engine, &prompt, &options);
        assert_eq!(ids, want);
        assert_eq!(stats.choices.gpu_argmax, 30);
        // embed, 7 a layer (in the last one queries are apart), norm, head, argmax, advance.
        assert_eq!(stats.dispatches_per_token, 1 + (7 + 7 + 8) + 2 + 2);
        // 7 a layer: norm, products, attention, output, norm, gated products, down.
        assert!(stats.barriers_per_token <= 3 * 7 + 5, "{} barriers", stats.barriers_per_token);
        let chunks = prompt.len().div_ceil(engine.prefill_path().chunk as usize) as u64;
        assert_eq!(stats.submissions, chunks + 29, "one submission a token");
    }
    zinc_vulkan::testing::assert_valid();
}

/// The sampler's choice from the GPU's candidates is that from the full row.
#[test]
fn sampling_from_candidates_equals_sampling_from_rows() {
    let mut engine = engine_with("qwen3", |_| ());
    let prompt = [3, 1, 4, 1, 5];
    for (top_k, top_p) in [(20, 0.9), (0, 0.8), (0, 1.0)] {
        let sampling = SamplingOptions {
            temperature: 1.2,
            top_k,
            top_p,
            repetition_penalty: 1.1,
            seed: 5,
            ..Default::default()
        };
        let options = GenerateOptions {
            max_tokens: 20,
            ignore_end: true,
            sampling: sampling.clone(),
            ..Default::default()
        };
        let (ids, stats) = generate(&mut engine, &prompt, &options);
        assert!(top_k == 0 || stats.choices.candidates == 20, "{:?}", stats.choices);
        let mut sampler = zinc_engine::Sampler::new(sampling);
        sampler.accept(&prompt);
        let mut sequence = engine.sequence().unwrap();
        let mut feed = prompt.to_vec();
        for id in ids {
            let logits = engine.forward(&mut sequence, &feed, Want::Last).unwrap();
            assert_eq!(sampler.sample(&logits.values).unwrap(), id);
            sampler.accept(&[id]);
            feed = vec![id];
        }
    }
}

/// Where wide steps do not fit, narrower ones are taken and that is said; what does not fit at all is refused before anything is
/// allocated, and the advice can be followed.
#[test]
fn a_budget_narrows_steps_then_refuses_and_advises() {
    let model = &fixtures("qwen3")[0].model;
    let load = |context: u32, budget: u64| {
        let gguf = Arc::new(Gguf::open(model).unwrap());
        let mut options = LoadOptions::new(model);
        (options.context, options.budget, options.chunk) = (Some(context), Some(budget), Some(64));
        Engine::on_device(gguf, zinc_vulkan::testing::device(), &options, &mut |_| ())
    };
    let needed = |engine: &Engine| engine.summary().memory.iter().map(|m| m.1).sum::<u64>();
    let full = load(512, u64::MAX).unwrap();
    assert_eq!((full.prefill_path().chunk, full.prefill_path().fallbacks), (64, vec![]));
    let mut narrow = load(512, needed(&full) - 1).unwrap();
    let path = narrow.prefill_path();
    assert_eq!((path.chunk, path.fallbacks.len(), path.fallbacks[0].rows), (48, 1, 64));
    assert!(path.fallbacks[0].op == "memory" && path.fallbacks[0].reason.contains("MiB"), "{path:?}");
    let text: Vec<u32> = (0..70).collect();
    let logits = last_logits(&mut narrow, &text);
    assert!(logits == last_logits(&mut engine_with("qwen3", |o| o.chunk = Some(64)), &text));

    let Err(Error::DoesNotFit(refused)) = load(512, 1 << 20) else { panic!("not refused") };
    assert_eq!(refused.largest_context, None);
    let Err(Error::DoesNotFit(refused)) = load(512, refused.needed - 1) else { panic!("not refused") };
    let largest = refused.largest_context.unwrap();
    assert!(load(largest, refused.available).is_ok(), "{largest} tokens");
}

/// The profile names every dispatch of a step.
#[test]
fn a_profile_times_each_dispatch() {
    let mut engine = engine_with("qwen3", |_| ());
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, &[1, 2, 3], Want::None).unwrap();
    let times = engine.profile_step(&mut sequence, &[0]).unwrap();
    for label in ["embed", "0.qkv", "2.ffn_down", "head", "top_k"] {
        assert!(times.iter().any(|t| t.label == label), "{label} is not in {times:?}");
    }
    assert_eq!(sequence.len(), 3);
}

/// Logits that are no numbers are an error on every path, not token 0.
#[test]
fn logits_without_a_number_are_an_error() {
    let path = &fixtures("qwen3")[0].model;
    let mut bytes = std::fs::read(path).unwrap();
    let gguf = Gguf::open(path).unwrap();
    let norm = gguf.tensor("output_norm.weight").unwrap();
    for value in bytes[norm.offset as usize..][..norm.bytes as usize].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    let gguf = Arc::new(Gguf::from_bytes(bytes, "nan.gguf").unwrap());
    let device = zinc_vulkan::testing::device();
    let mut engine = Engine::on_device(gguf, device, &common::options(KvType::F16), &mut |_| ()).unwrap();
    for temperature in [0.0, 1.0] {
        let mut options = GenerateOptions { max_tokens: 4, ..GenerateOptions::default() };
        options.sampling.temperature = temperature;
        let mut sequence = engine.sequence().unwrap();
        let answer = engine.generate(&mut sequence, &[1, 2, 3], &options, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(answer, Err(Error::NotFinite(_))), "temperature {temperature}: {answer:?}");
    }
}

#[test]
fn embeddings_are_those_of_the_cpu() {
    for name in ["qwen3", "gemma4"] {
        let fixture = fixtures(name).remove(0);
        let text = common::tokens(&fixture.load_reference(), "tokens_41");
        let want = common::cpu(&fixture.model, common::options(KvType::F32)).embed(&text).unwrap();
        let mut options = common::options(KvType::F32);
        options.chunk = Some(16);
        let mut engine = vulkan(&fixture.model, &options);
        let got = engine.embed(&text).unwrap();
        let error = relative_rms(&got, &want);
        assert!(error <= tolerance::LOGITS_F32, "{name}: {error:.2e}");
        assert_eq!(engine.embed(&text).unwrap(), got, "{name}");
        assert!(matches!(engine.embed(&[]), Err(Error::EmptyPrompt)));
    }
}

/// Also where products could norm what they read: what the final norm gives is stored.
#[test]
fn embeddings_of_few_tokens_at_a_time_are_stored_under_the_fast_policy() {
    let fixture = fixtures("qwen3").into_iter().find(|f| f.quant == "q4_k_m").unwrap();
    let text = common::tokens(&fixture.load_reference(), "tokens_7");
    let want = common::cpu(&fixture.model, common::options(KvType::F32)).embed(&text).unwrap();
    let mut options = common::options(KvType::F32);
    (options.precision, options.chunk) = (Some(Precision::Fast), Some(2));
    let got = vulkan(&fixture.model, &options).embed(&text).unwrap();
    let error = relative_rms(&got, &want);
    assert!(error <= tolerance::LOGITS_FAST, "{error:.2e}");
}
