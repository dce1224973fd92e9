//! Tiny measurements: they run and find what they computed right.

use super::*;

const TINY: Effort =
    Effort { bytes: 1 << 20, dispatches: 20, matrix_us: 50.0, repeats: 2, warm_up: Duration::ZERO };

#[test]
fn everything_that_the_device_can_do_is_measured() {
    let kernels = Kernels::new(&zinc_vulkan::testing::device());
    let memory = bandwidth(&kernels, &TINY).unwrap();
    assert!(memory.bytes > 0 && memory.bytes <= 1 << 20, "{memory:?}");
    assert!(memory.read_gb_per_s > 0.0 && memory.copy_gb_per_s > 0.0, "{memory:?}");
    let costs = dispatch_costs(&kernels, &TINY).unwrap();
    assert!(costs.submit_us > 0.0, "{costs:?}");
    for case in matrix_cases(&kernels) {
        let rate = matrix_rate(&kernels, &case, &TINY).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        assert!(rate.tera_per_s > 0.0, "{rate:?}");
    }
    zinc_vulkan::testing::assert_valid();
}

#[test]
fn a_wrong_result_is_no_measurement() {
    assert!(all_are("x", [1.0, 1.0], 1.0).is_ok());
    let said = all_are("x", [1.0, 2.0], 1.0).unwrap_err().to_string();
    assert!(said.contains("gave 2, 1 is right"), "{said}");
}
