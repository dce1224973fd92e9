//! The fast policy: it takes fast kernels, says so, and stays within its tolerance.

mod common;

use common::{check_fixture, vulkan};
use zinc_engine::{KvType, LoadOptions, Precision, Products, ValidateOptions};
use zinc_testkit::{fixtures, tolerance};

fn options(kv_type: KvType) -> LoadOptions {
    let mut options = common::options(kv_type);
    (options.precision, options.chunk) = (Some(Precision::Fast), Some(8));
    options
}

/// The integer dot products of few rows, against the fixtures' logits.
#[test]
fn few_rows_are_within_the_tolerance() {
    let all = ["llama", "qwen2", "qwen3", "gemma3"].into_iter().flat_map(fixtures);
    for fixture in all.filter(|f| f.quant != "f16" && (f.quant == "q4_k_m" || f.name == "qwen3")) {
        let mut engine = vulkan(&fixture.model, &options(KvType::F32));
        assert_eq!((engine.summary().policy, engine.prefill_path().policy), ("fast", "fast"));
        let products = engine.products(1).unwrap();
        let integers = products.iter().filter(|p| !["F32", "F16", "BF16"].contains(&p.class.format.name));
        assert!(
            integers.clone().count() > 0 && integers.clone().all(|p| p.product.family() == "dot"),
            "{products:?}"
        );
        let worst = check_fixture(&mut engine, &fixture, &[17], tolerance::LOGITS_FAST);
        println!("{} {}: {worst:.2e}", fixture.name, fixture.quant);
    }
    zinc_vulkan::testing::assert_valid();
}

/// Experts by integer dot products (steps of 8) and in tiles (a prompt in one step), the router exactly.
#[test]
fn experts_are_within_the_tolerance() {
    for fixture in ["qwen3moe", "qwen35moe", "gptoss", "gemma4moe"].into_iter().flat_map(fixtures) {
        for chunk in [8, 128] {
            let options = LoadOptions { chunk: Some(chunk), ..options(KvType::F32) };
            let mut engine = vulkan(&fixture.model, &options);
            let products = engine.products(chunk).unwrap();
            let experts = products.iter().filter(|p| p.experts.is_some());
            let family = |p: &Products| match p.class.format.name {
                _ if p.columns == 128 => "gemm", // the last layer has a row alone
                "F32" | "F16" | "BF16" => "gemv",
                _ => "dot",
            };
            assert!(experts.clone().count() > 0);
            assert!(experts.clone().all(|p| p.product.family() == family(p)), "{products:?}");
            let lengths: &[usize] = if chunk == 8 { &[17] } else { &[105] };
            let worst = check_fixture(&mut engine, &fixture, lengths, tolerance::LOGITS_FAST);
            println!("{} {} by {chunk}: {worst:.2e}", fixture.name, fixture.quant);
        }
    }
    zinc_vulkan::testing::assert_valid();
}

/// Validate allows the policy's tolerance in place of the same bits.
#[test]
fn validate_has_a_tolerance_of_its_own() {
    let mut engine = vulkan(&fixtures("qwen3")[0].model, &options(KvType::F16));
    let mut sequence = engine.sequence().unwrap();
    let asked = ValidateOptions { reference: true, ..Default::default() };
    let text: Vec<u32> = (0..19).map(|i| (i * 37 + 11) % 500).collect();
    let report = engine.validate(&mut sequence, &text, &asked).unwrap();
    assert!(report.ok && report.policy == "fast", "{report}");
    assert_eq!(report.comparisons.len(), 2);
    for c in &report.comparisons {
        assert_eq!(c.tolerance.limit(), tolerance::LOGITS_FAST, "{report}");
    }
}
