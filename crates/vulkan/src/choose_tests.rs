use super::*;
use crate::MemoryHeap;

fn device(name: &str, kind: DeviceKind, gib: u64) -> Capabilities {
    let heap = MemoryHeap { bytes: gib << 30, device_local: true, ..Default::default() };
    Capabilities { name: name.into(), kind, heaps: vec![heap], driver: "fake".into(), ..Default::default() }
}

fn broken(mut device: Capabilities) -> Capabilities {
    device.problems.push("its driver knows Vulkan 1.1, 1.3 is needed".into());
    device
}

#[test]
fn the_best_device_by_kind_memory_and_wish() {
    use DeviceKind::*;
    let lavapipe = || device("llvmpipe (LLVM)", Cpu, 64);
    let apu = || device("Radeon Graphics", Integrated, 32);
    let card = || device("Radeon RX 9070", Discrete, 16);
    let big_card = || device("NVIDIA H200", Discrete, 141);
    let auto = || DeviceWish::Auto;
    let name = |n: &str| DeviceWish::NameContains(n.into());
    let table: Vec<(Vec<Capabilities>, DeviceWish, bool, Option<usize>)> = vec![
        (vec![lavapipe(), apu(), card()], auto(), false, Some(2)),
        (vec![card(), big_card()], auto(), false, Some(1)),
        (vec![apu(), device("vGPU", Virtual, 64)], auto(), false, Some(0)),
        (vec![lavapipe(), device("odd", Other, 1)], auto(), true, Some(1)),
        (vec![broken(card()), apu()], auto(), false, Some(1)),
        (vec![lavapipe()], auto(), false, None),
        (vec![lavapipe()], auto(), true, Some(0)),
        (vec![lavapipe(), card()], DeviceWish::Index(0), false, Some(0)),
        (vec![card()], DeviceWish::Index(3), false, None),
        (vec![broken(card()), apu()], DeviceWish::Index(0), false, None),
        (vec![card(), lavapipe()], name("LLVM"), false, Some(1)),
        (vec![card(), apu(), big_card()], name("radeon"), false, Some(0)),
        (vec![card()], name("intel"), true, None),
        (vec![], auto(), true, None),
    ];
    for (devices, wish, allow_software, expected) in table {
        let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
        match (choose(&devices, &wish, allow_software), expected) {
            (Ok(choice), Some(index)) => {
                assert_eq!(choice.index, index, "{names:?} {wish}");
                assert_eq!(choice.reasons.len(), devices.len());
                for (i, reason) in choice.reasons.iter().enumerate() {
                    assert!(reason.contains(names[i]), "{reason}");
                    assert_eq!(reason.contains(": chosen"), i == index, "{reason}");
                }
            }
            (Err(Error::NoDevice { reasons, .. }), None) => assert_eq!(reasons.len(), devices.len()),
            (result, _) => panic!("{names:?} {wish}: {result:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn reasons_say_why_a_device_was_passed_over() {
    let devices = [device("llvmpipe", DeviceKind::Cpu, 2), broken(device("old", DeviceKind::Discrete, 8))];
    let error = choose(&devices, &DeviceWish::Auto, false).unwrap_err().to_string();
    assert!(
        error.contains(
            "device 0: llvmpipe (software): not chosen: a software driver, used only when asked for"
        ),
        "{error}"
    );
    assert!(error.contains("device 1: old (discrete): not chosen: its driver knows Vulkan 1.1"), "{error}");
    assert!(error.contains("hint: "), "{error}");
}
