//! `zinc bench device`, and the percentages that follow from it.

use crate::{lavapipe, scratch, text, tiny, zinc_in};

#[test]
fn limits_are_measured_kept_and_used() {
    let Some(device) = lavapipe() else { return };
    let folder = scratch("figures");
    let home = [("ZINC_CACHE_DIR", text(&folder))];
    let model = tiny("qwen3").model;
    let on = ["--device", device];
    let kernels = [
        "bench",
        "kernels",
        "--format",
        "Q8_0",
        "--rows",
        "8",
        "--inner",
        "256",
        "--rotate",
        "9KiB",
        "--repeats",
        "1",
    ];
    let bench = [
        "bench",
        "-m",
        text(&model),
        "--backend",
        "vulkan",
        "-p",
        "4",
        "-n",
        "2",
        "--warm-up",
        "0",
        "--repeats",
        "1",
    ];
    assert!(!zinc_in(&home, &[&kernels[..], &on].concat()).ok().contains('%'));

    let file = folder.join("device.json");
    let measure =
        ["bench", "device", "--bytes", "1MiB", "--dispatches", "10", "--matrix-us", "50", "--repeats", "1"];
    let json = format!("--json={}", text(&file));
    let said = zinc_in(&home, &[&measure[..], &on, &[json.as_str()]].concat()).ok();
    for what in ["read", "copy", "replayed", "without barrier", "recorded each time", "submit one", "kept in"]
    {
        assert!(said.contains(what), "{what}: {said}");
    }
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(figures["figures"]["read_gb_per_s"].as_f64().unwrap() > 0.0, "{figures}");

    assert!(zinc_in(&home, &[&kernels[..], &on].concat()).ok().contains('%'));
    let said = zinc_in(&home, &[&bench[..], &on].concat()).ok();
    assert!(said.contains("% of the device's read bandwidth"), "{said}");
}
