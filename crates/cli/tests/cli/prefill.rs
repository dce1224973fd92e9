//! `zinc bench prefill` and `zinc bench sweep`.

use crate::{lavapipe, scratch, text, tiny, zinc};
use serde_json::Value;

fn results(json: &Value) -> Vec<&Value> {
    json["results"].as_array().unwrap().iter().collect()
}

#[test]
fn every_way_of_reading_a_prompt_is_measured_and_compared() {
    let Some(device) = lavapipe() else { return };
    let model = tiny("qwen3").model;
    let (json, markdown, svg) = (scratch("prefill.json"), scratch("prefill.md"), scratch("prefill.svg"));
    let files = [format!("--json={}", text(&json)), format!("--markdown={}", text(&markdown))];
    let args = [
        "bench",
        "prefill",
        "-m",
        text(&model),
        "--backend",
        "vulkan",
        "--device",
        device,
        "-p",
        "5,17",
        "-n",
        "3",
        "--columns",
        "4",
        "--serial-columns",
        "4",
        "--repeats",
        "2",
        &files[0],
        &files[1],
        "--svg",
        text(&svg),
    ];
    let table = zinc(&args).ok();
    for way in ["per token", "serial K, 4 columns", "K-parallel, 4 columns", "default"] {
        assert!(table.lines().filter(|l| l.contains(way)).count() == 2, "{way}: {table}");
    }
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let results = results(&json);
    assert_eq!(results.len(), 2 * 4);
    for r in &results {
        let (kind, columns) = (r["kind"].as_str().unwrap(), r["columns"].as_u64());
        assert!(r["tokens_per_second"]["median"].as_f64().unwrap() > 0.0, "{r}");
        assert_eq!((r["finite"].as_bool(), r["repeatable"].as_bool()), (Some(true), Some(true)), "{r}");
        assert_eq!(r["tokens"].as_array().unwrap().len(), 3);
        assert!(r["driver"].as_str().is_some_and(|d| !d.is_empty()) && r["policy"] == "exact", "{r}");
        assert!(r["wrong"].is_null(), "{r}");
        let tiles = r["products"].as_array().unwrap().iter().map(|p| &p["tile"]);
        for tile in tiles {
            assert!(columns.is_none_or(|c| tile["columns"].as_u64().unwrap() <= c), "{r}");
        }
        let serial = r["tile"]["lanes"] == 1;
        assert_eq!(serial, kind == "serial_k", "{r}");
        match kind {
            "per_token" => {
                assert!(r["same_bits"].is_null() && r["chunk"] == 1 && r["speed_up"] == 1.0, "{r}")
            }
            "serial_k" => assert!(r["max_abs_diff"].as_f64().unwrap() < 0.1, "{r}"),
            _ => {
                assert_eq!((&r["same_bits"], &r["same_tokens"]), (&Value::from(true), &Value::from(3)), "{r}")
            }
        }
    }
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("| way | step | 5 tokens | 17 tokens |"), "{markdown}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert_eq!(svg.matches("<circle").count(), 8, "{svg}");
}

#[test]
fn what_would_take_too_long_is_skipped_and_said_so() {
    let model = tiny("qwen3").model;
    let base =
        ["bench", "prefill", "-m", text(&model), "--backend", "cpu", "-n", "2", "--repeats", "1", "--json"];
    let all = zinc(&[&base[..], &["-p", "5,999999"]].concat()).json();
    let (measured, skipped): (Vec<&Value>, Vec<&Value>) =
        results(&all).into_iter().partition(|r| r["skipped"].is_null());
    assert_eq!((measured.len(), skipped.len()), (2, 2));
    assert!(
        skipped
            .iter()
            .all(|r| r["prompt_tokens"] == 999_999 && r["skipped"].as_str().unwrap().contains("context"))
    );
    assert_eq!(measured[1]["same_bits"], true);
    let none = zinc(&[&base[..], &["-p", "5", "--budget-seconds", "0.0000001"]].concat()).json();
    assert!(results(&none).iter().all(|r| r["skipped"].as_str().unwrap().contains("took")), "{none}");
}

#[test]
fn options_that_contradict_the_measurement_are_refused() {
    let model = tiny("qwen3").model;
    for bad in [
        &["--prefill", "batched"][..],
        &["--columns", "65"],
        &["--prompts", "0"],
        &["--budget-seconds", "-1"],
    ] {
        zinc(&[&["bench", "prefill", "-m", text(&model)], bad].concat()).fails(2);
    }
}

#[test]
fn experts_are_counted_beside_the_speed() {
    let Some(device) = lavapipe() else { return };
    let model = tiny("qwen3moe").model;
    let base = ["bench", "moe", "-m", text(&model), "-p", "9", "--repeats", "2", "--device", device];
    let json = zinc(&[&base[..], &["--json"]].concat()).json();
    let result = &json["results"][0];
    assert_eq!((result["prompt_tokens"].as_u64(), result["path"].as_str()), (Some(9), Some("batched")));
    let layers = result["layers"].as_array().unwrap();
    let slots = |layer: &Value| -> u64 {
        layer["slots"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
    };
    // Every row chooses as many experts; in the last layer the one with logits alone.
    let top_k = slots(layers.last().unwrap());
    assert!(top_k > 0 && layers.iter().rev().skip(1).all(|l| slots(l) == 9 * top_k), "{layers:?}");
    let table = zinc(&[&base[..], &["--layers"]].concat()).ok();
    assert!(table.contains("rows an expert") && table.contains("experts without"), "{table}");
    let dense = tiny("qwen3").model;
    zinc(&["bench", "moe", "-m", text(&dense), "-p", "9", "--device", device]).fails(2);
}

#[test]
fn a_scan_is_measured() {
    let Some(device) = lavapipe() else { return };
    let base = [
        "bench",
        "scan",
        "--rows",
        "5",
        "--heads",
        "4",
        "--key-heads",
        "2",
        "--repeats",
        "1",
        "--device",
        device,
    ];
    let json = zinc(&[&base[..], &["--json"]].concat()).json();
    // Four heads of 128 x 128, once read and once written.
    assert_eq!(json["results"][0]["state_bytes"].as_u64(), Some(2 * 4 * 128 * 128 * 4));
    assert!(json["results"][0]["us_a_token"].as_f64() > Some(0.0), "{json}");
}
