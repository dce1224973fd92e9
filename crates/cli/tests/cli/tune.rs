//! `zinc tune`.

use crate::{lavapipe, scratch, text, tiny, zinc, zinc_in};

#[test]
fn what_is_tuned_is_stored_used_and_forgotten() {
    let Some(device) = lavapipe() else { return };
    let model = tiny("qwen3").model;
    let folder = scratch("tuned");
    let home = [("ZINC_CACHE_DIR", text(&folder))];
    let tune = ["tune", "--device", device, "--rotate", "16KiB"];
    let shape = ["--shape", "Q8_0:32x64", "--columns", "2"];
    let dry = zinc_in(&home, &[&tune[..], &shape, &["--dry-run", "--json"]].concat()).json();
    let file = std::path::PathBuf::from(dry["file"].as_str().unwrap());
    assert!(file.starts_with(&folder) && !file.exists() && dry["stored"] == false, "{dry}");
    let result = &dry["results"][0];
    assert!(result["tried"].as_u64().unwrap() > 4, "{dry}");
    assert!(result["tuned_us"].as_f64() <= result["policy_us"].as_f64(), "{dry}");

    let devices = || zinc_in(&home, &["devices"]).ok();
    assert!(devices().contains("the policy's"));
    let said = zinc_in(&home, &[&tune[..], &shape].concat()).ok();
    assert!(said.contains("stored in") && file.exists(), "{said}");
    assert!(devices().contains("tuned on this device: 1 product"), "{}", devices());
    let check =
        || zinc_in(&home, &["check", "-m", text(&model), "--backend", "vulkan", "--device", device]).ok();
    assert!(check().contains("tiles    tuned on this device"));

    // Kernels too where products may round, and of the same product beside what was found before.
    let fast = zinc_in(&home, &[&tune[..], &shape, &["--policy", "fast", "--json"]].concat()).json();
    let best = &fast["results"][0]["best"];
    assert!(["dot", "gemm"].contains(&best["kernel"].as_str().unwrap()), "{fast}");
    assert!(devices().contains("tuned on this device: 1 product"), "{}", devices());

    // With a model: how many tokens its steps read.
    let steps = ["-m", text(&model), "--only", "steps", "--chunks", "4,8", "--json"];
    let with_model = zinc_in(&home, &[&tune[..], &steps].concat()).json();
    let (steps, best) = (&with_model["steps"], with_model["steps"]["best"].as_u64().unwrap());
    assert!(steps["results"].as_array().unwrap().len() == 2 && [4, 8].contains(&best), "{steps}");
    assert!(steps["model"].as_str().unwrap().starts_with("qwen3 exact "), "{steps}");
    let said = check();
    assert!(said.contains(&format!("steps    of {best} tokens, tuned on this device")), "{said}");
    assert!(devices().contains(", steps of 1 model"), "{}", devices());

    std::fs::write(&file, "{").unwrap();
    let said = check();
    assert!(said.contains("are not used") && !said.contains("tiles    tuned"), "{said}");
    assert!(zinc_in(&home, &["tune", "--device", device, "--reset"]).ok().contains("removed"));
    assert!(!file.exists());
}

#[test]
fn nothing_to_tune_is_refused() {
    zinc(&["tune", "--shape", "Q4_K:8x100"]).fails(2);
    zinc(&["tune", "--reset", "--dry-run"]).fails(2);
    let Some(device) = lavapipe() else { return };
    zinc(&["tune", "--device", device]).fails(2);
}
