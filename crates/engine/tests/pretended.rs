//! The host path on a card that is not there: RADV on a pretended gfx1201 (`scripts/on-radv.sh`). Devices are chosen, memory is planned,
//! pipelines are compiled by the card's own compiler, steps recorded, submitted and waited for, all under the validation layer, which knows
//! the card's own limits. Nothing executes, so no values are compared.
//!
//! Run by that script: on another device every test here would fail.

mod common;

use common::{tokens, vulkan};
use std::ops::ControlFlow;
use zinc_engine::{
    BackendWish, Engine, Error, Event, GenerateOptions, KvType, LoadOptions, SamplingOptions, Want,
};
use zinc_kernels::{DeviceClass, Policy};
use zinc_testkit::fixtures;
use zinc_vulkan::{DeviceKind, DeviceWish, Instance, InstanceOptions, choose};

/// Every kind of step: chunks with a ragged end, logits of the last row and of every row, steps that the GPU chains, sampled steps, timed
/// ones, another sequence, a cut. What wants a result is submitted and waited for, and then says that its result was never written.
fn walk(name: &str) {
    for fixture in fixtures(name) {
        let text = tokens(&fixture.load_reference(), "tokens_105");
        for kv_type in KvType::ALL {
            let mut engine = vulkan(&fixture.model, &common::options(kv_type));
            let mut sequence = engine.sequence().unwrap();
            engine.forward(&mut sequence, &text, Want::None).unwrap();
            assert_eq!(sequence.len(), text.len());
            for want in [Want::Last, Want::All] {
                assert_never_written(engine.forward(&mut sequence, &text[..7], want));
            }
            sequence.truncate(20);
            engine.forward(&mut sequence, &[9], Want::None).unwrap();
            assert!(!engine.profile_step(&mut sequence, &[0]).unwrap().is_empty());

            let mut second = engine.sequence().unwrap();
            let sampled = SamplingOptions { temperature: 1.0, top_k: 20, ..Default::default() };
            let from_rows = SamplingOptions { top_k: 0, ..sampled.clone() };
            for sampling in [SamplingOptions::default(), sampled, from_rows] {
                let options = GenerateOptions { max_tokens: 5, sampling, ..Default::default() };
                let mut ignore = |_: Event| ControlFlow::Continue(());
                assert_never_written(engine.generate(&mut second, &text[..17], &options, &mut ignore));
            }
        }
    }
    zinc_vulkan::testing::assert_valid();
}

fn assert_never_written<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::StaleResult { .. })), "{answer:?}");
}

macro_rules! architectures {
    ($($name:ident)*) => {$(
        #[test]
        #[ignore = "scripts/on-radv.sh runs it"]
        fn $name() {
            walk(stringify!($name));
        }
    )*};
}
architectures![llama qwen2 qwen3 gemma3 gemma4 qwen35 qwen3moe qwen35moe qwen3next gemma4moe gptoss];

/// The card is found without being named, counts as AMD's, and its kernels have subgroups of 64 lanes.
#[test]
#[ignore = "scripts/on-radv.sh runs it"]
fn the_card_is_chosen_with_wide_subgroups() {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = instance.devices();
    let choice = choose(&devices, &DeviceWish::Auto, false).unwrap();
    let card = &devices[choice.index];
    assert!(card.name.contains("GFX1201"), "{}", card.name);
    assert_eq!((card.vendor_id, card.kind, card.problems.len()), (0x1002, DeviceKind::Discrete, 0));
    assert!(card.device_memory() >= 30 << 30, "{} bytes", card.device_memory());
    assert_eq!((card.subgroup.min_size, card.subgroup.max_size), (32, 64));
    let policy = Policy::of(card);
    assert_eq!((policy.class, policy.subgroup_size), (DeviceClass::Amd, 64));

    let mut options = LoadOptions::new(&fixtures("qwen3")[0].model);
    options.backend = BackendWish::Auto;
    options.cache = zinc_vulkan::CacheLocation::Off;
    let engine = Engine::load(&options, &mut |_| ()).unwrap();
    let summary = engine.summary();
    assert_eq!(summary.backend, "vulkan");
    assert!(summary.device.contains("GFX1201"), "{}", summary.device);
}
