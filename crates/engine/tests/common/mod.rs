//! What the engine's tests share.
#![allow(dead_code)] // each test file uses its part

use std::path::Path;
use std::sync::Arc;
use zinc_engine::{BackendWish, Engine, KvType, LoadOptions, Logits, Sequence, Want};
use zinc_gguf::Gguf;
use zinc_testkit::{Fixture, Reference, relative_rms, tolerance};

/// Options for a fixture: a small context, room for two sequences.
pub fn options(kv_type: KvType) -> LoadOptions {
    let mut o = LoadOptions::new("");
    (o.context, o.sequences, o.kv_type) = (Some(320), 2, kv_type);
    o
}

/// A model on the CPU executor.
pub fn cpu(model: &Path, mut options: LoadOptions) -> Engine {
    options.backend = BackendWish::Cpu;
    options.model = model.into();
    Engine::load(&options, &mut |_| ()).unwrap()
}

/// A model on the test device.
pub fn vulkan(model: &Path, options: &LoadOptions) -> Engine {
    let gguf = Arc::new(Gguf::open(model).unwrap());
    Engine::on_device(gguf, zinc_vulkan::testing::device(), options, &mut |_| ()).unwrap()
}

pub fn tokens(reference: &Reference, name: &str) -> Vec<u32> {
    reference.i32(name).into_iter().map(|t| t as u32).collect()
}

/// Logits after a text in a sequence of its own.
pub fn last_logits(engine: &mut Engine, text: &[u32]) -> Vec<f32> {
    let mut sequence = engine.sequence().unwrap();
    engine.forward(&mut sequence, text, Want::Last).unwrap().values
}

pub const LENGTHS: [usize; 6] = [1, 7, 17, 41, 105, 300];

/// What f16 caches may differ by.
pub fn f16_tolerance(fixture: &Fixture) -> f64 {
    (tolerance::LOGITS_F16_TIMES_NOISE * fixture.f16_noise()).min(tolerance::LOGITS_F16_MAX)
}

/// What q8_0 caches may differ by.
pub fn q8_0_tolerance(fixture: &Fixture) -> f64 {
    (tolerance::LOGITS_Q8_0_TIMES_NOISE * fixture.q8_noise()).min(tolerance::LOGITS_Q8_0_MAX)
}

/// Compares an engine with everything that a fixture stores of these lengths; returns the largest error of the logits.
pub fn check_fixture(engine: &mut Engine, fixture: &Fixture, lengths: &[usize], limit: f64) -> f64 {
    let reference = fixture.load_reference();
    let what = format!("{} {}", fixture.name, fixture.quant);
    let mut worst: f64 = 0.0;
    let mut check = |got: &[f32], want: &[f32], place: &str| {
        let error = relative_rms(got, want);
        worst = worst.max(error);
        assert!(error <= limit, "{what}, {place}: {error:.2e}, allowed {limit:.2e}");
    };
    for &len in lengths {
        let text = tokens(&reference, &format!("tokens_{len}"));
        let mut sequence = engine.sequence().unwrap();
        let logits = engine.forward(&mut sequence, &text, Want::Last).unwrap();
        let want = reference.f32(&format!("logits_{len}"));
        check(&logits.values, &want, &format!("length {len}"));
        let margins = reference.f32(&format!("margin_{len}"));
        let argmax = tokens(&reference, &format!("argmax_{len}"));
        let allowed = allowed_margin(&want, limit);
        if margins[len - 1] > allowed {
            assert_eq!(best(&logits.values), argmax[len - 1], "{what}, length {len}: argmax");
        }
        if reference.has(&format!("greedy_logits_{len}")) {
            check_decode(engine, &reference, &mut sequence, len, &mut check);
        }
    }
    worst
}

/// Compares logits, wanted ones second, of a place.
type Check<'a> = dyn FnMut(&[f32], &[f32], &str) + 'a;

/// Feeds the reference's greedy tokens one by one and compares each row.
fn check_decode(
    engine: &mut Engine,
    reference: &Reference,
    sequence: &mut Sequence,
    len: usize,
    check: &mut Check<'_>,
) {
    let greedy = tokens(reference, &format!("greedy_{len}"));
    let rows = reference.f32(&format!("greedy_logits_{len}"));
    let vocab = rows.len() / greedy.len();
    for (i, &token) in greedy[..greedy.len() - 1].iter().enumerate() {
        let logits = engine.forward(sequence, &[token], Want::Last).unwrap();
        check(
            &logits.values,
            &rows[(i + 1) * vocab..(i + 2) * vocab],
            &format!("length {len}, greedy {}", i + 1),
        );
    }
}

/// The margin from which an argmax is certain.
pub fn allowed_margin(logits: &[f32], limit: f64) -> f32 {
    let mean = logits.iter().sum::<f32>() / logits.len() as f32;
    let spread = (logits.iter().map(|l| (l - mean).powi(2)).sum::<f32>() / logits.len() as f32).sqrt();
    (tolerance::MARGIN_TIMES_ERROR * limit) as f32 * spread
}

pub fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).fold(0, |b, i| if logits[i] > logits[b] { i } else { b }) as u32
}

/// Bits of all values, so that a comparison is exact.
pub fn bits(logits: &Logits) -> Vec<u32> {
    logits.values.iter().map(|v| v.to_bits()).collect()
}
