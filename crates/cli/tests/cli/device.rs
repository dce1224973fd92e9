//! `zinc devices` and `zinc check`.

use crate::{lavapipe, text, tiny, zinc};
use zinc_testkit::fixtures_dir;

#[test]
fn devices_are_listed_with_reasons() {
    let Some(device) = lavapipe() else { return };
    let json = zinc(&["devices", "--json"]).json();
    let all = json["devices"].as_array().unwrap();
    let soft = all.iter().find(|d| d["name"].as_str().unwrap().contains(device)).unwrap();
    assert_eq!((soft["kind"].as_str(), soft["usable"].as_bool()), (Some("software"), Some(true)));
    assert!(soft["reason"].as_str().unwrap().contains("not chosen"), "{soft}");
    let table = zinc(&["devices"]).ok();
    assert!(
        table.contains("subgroups") && table.contains("hint:") | table.contains("would be taken"),
        "{table}"
    );

    let wished = zinc(&["devices", "--json", "--device", device]).json();
    assert_eq!(wished["chosen"], soft["index"]);
    let nothing = zinc(&["devices", "--json", "--device", "no such card"]).json();
    assert_eq!(nothing["chosen"], serde_json::Value::Null);
}

#[test]
fn a_missing_driver_is_told_and_does_no_harm() {
    // The loader finds no driver here.
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(["devices"])
        .env("VK_DRIVER_FILES", "/nonexistent.json")
        .env("VK_ICD_FILENAMES", "/nonexistent.json")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("hint:") && !said.contains("panicked"), "{said}");
}

#[test]
fn check_tells_how_a_model_runs() {
    let model = tiny("qwen3").model;
    let cpu = zinc(&["check", "-m", text(&model), "--backend", "cpu"]).ok();
    assert!(cpu.contains("CPU executor") && cpu.contains("no fault found"), "{cpu}");
    assert!(cpu.contains("accelerated paths: fusion"), "{cpu}");
    assert!(cpu.contains("prompts  batched, 64 tokens a step"), "{cpu}");
    let Some(device) = lavapipe() else { return };
    let place = ["--backend", "vulkan", "--device", device];
    let vulkan = zinc(&[&["check", "-m", text(&model)], &place[..]].concat()).ok();
    assert!(vulkan.contains("weights") && vulkan.contains("KV cache"), "{vulkan}");
    assert!(vulkan.contains("prompts  batched, 512 tokens a step, exact arithmetic"), "{vulkan}");
    assert!(vulkan.contains("products gemv of"), "{vulkan}");
    let short = zinc(&[&["check", "-m", text(&model), "--budget", "64KiB"], &place[..]].concat());
    assert!(short.out.contains("FAULT") && short.out.contains("short"), "{}", short.out);
    short.fails(1);
}

#[test]
fn check_plans_memory_without_a_device() {
    let model = tiny("qwen3").model;
    let plan = zinc(&["check", "-m", text(&model), "--budget", "32GiB"]).ok();
    assert!(plan.contains("a device of 32.00 GiB") && plan.contains("weights"), "{plan}");
    let error = zinc(&["check", "-m", text(&fixtures_dir().join("quants/quants.gguf")), "--backend", "cpu"]);
    assert!(error.out.contains("FAULT"), "{}", error.out);
    error.fails(1);
}

#[test]
fn check_names_the_device_it_cannot_find() {
    let error = zinc(&["check", "--device", "no such card"]).fails(1);
    assert!(error.contains("no such card"), "{error}");
    zinc(&["check", "--ops", "--backend", "cpu"]).fails(1);
}

#[test]
fn check_runs_the_suites_of_kernels() {
    zinc(&["check", "--ops=nonsense"]).fails(2);
    let Some(device) = lavapipe() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran.json");
    let said = zinc(&["check", "--ops=embed,kv", "--executed", text(&file), "--device", device]).ok();
    let suites: Vec<&str> = said.lines().filter(|l| l.starts_with("kernels of ")).collect();
    assert_eq!(suites.len(), 2, "{said}");
    assert!(suites.iter().all(|l| l.ends_with(" cases, ok")), "{said}");
    let ran: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let shaders: Vec<&str> = ran["shaders"].as_array().unwrap().iter().filter_map(|s| s.as_str()).collect();
    assert!(shaders.contains(&"kv_write KV=f16") && shaders.contains(&"embed FORMAT=Q4_K"), "{shaders:?}");
    assert!(!shaders.contains(&"rope"), "what did not run is not there: {shaders:?}");
}
