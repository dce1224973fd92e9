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
    let all = ["llama", "qwen2", "qwen3", "gemma3", "gemma4"].into_iter().flat_map(fixtures);
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
        // Steps of 8 where experts differ most: biases and another activation, and integers of 4 bits.
        let few = ["gptoss", "qwen3moe"].contains(&fixture.name.as_str());
        for chunk in [8, 128].into_iter().skip(usize::from(!few)) {
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

/// Long parts of delta nets in chunks, and the states that they leave: the second step of two begins with them.
#[test]
fn delta_nets_in_chunks_are_within_the_tolerance() {
    for fixture in ["qwen35", "qwen3next"].into_iter().flat_map(|name| fixtures(name).into_iter().take(1)) {
        let options = LoadOptions { chunk: Some(176), ..options(KvType::F32) };
        let mut engine = vulkan(&fixture.model, &options);
        let worst = check_fixture(&mut engine, &fixture, &[300], tolerance::LOGITS_FAST);
        println!("{} {}: {worst:.2e}", fixture.name, fixture.quant);
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

/// Choices of experts are compared and counted; the paths' logits stay within the tolerance, turned ties or not.
#[test]
fn turned_choices_of_experts_are_counted() {
    let options = LoadOptions { chunk: Some(24), ..options(KvType::F32) };
    let mut engine = vulkan(&fixtures("qwen3moe")[0].model, &options);
    let mut sequence = engine.sequence().unwrap();
    let text: Vec<u32> = (0..41).map(|i| (i * 37 + 11) % 500).collect();
    let report = engine.validate(&mut sequence, &text, &ValidateOptions::default()).unwrap();
    let routes = &report.comparisons[0].routes;
    println!("{report}");
    // Two steps: in the last layer only the last token chooses.
    let layers = engine.model().plan.ops.iter().filter(|n| n.op.name() == "route").count();
    assert!(report.ok && routes.rows == (layers - 1) * text.len() + 1, "{report}");
    assert!(
        routes.flipped * 50 <= routes.rows && report.to_string().contains("with other experts"),
        "{report}"
    );
}
