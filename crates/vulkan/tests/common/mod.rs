//! Test shaders (GLSL beside them in `tests/shaders`) and their pipelines.
#![allow(dead_code)]

use zinc_vulkan::*;

macro_rules! shader {
    ($name:literal) => {
        words(include_bytes!(concat!("../shaders/", $name, ".spv")))
    };
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
}

/// `y[i] = x[i] * scale + add`, workgroups of 64; bindings x, y; params n, scale.
pub fn affine(device: &Device, add: u32) -> Pipeline {
    let spirv = shader!("affine");
    let specialization = [(0, 64), (1, add)];
    device
        .pipeline(&PipelineDesc {
            name: "affine",
            spirv: &spirv,
            entry: "main",
            specialization: &specialization,
            subgroup_size: None,
            bindings: 2,
            params_bytes: 8,
        })
        .unwrap()
}

/// `y[i] = x[(i + shift) % n] + 1`, workgroups of 64; bindings x, y; params n, shift.
pub fn shift(device: &Device) -> Pipeline {
    let spirv = shader!("shift");
    device.pipeline(&PipelineDesc { name: "shift", spirv: &spirv, ..desc(2, 8) }).unwrap()
}

pub fn desc(bindings: u32, params_bytes: u32) -> PipelineDesc<'static> {
    PipelineDesc {
        name: "test",
        spirv: &[],
        entry: "main",
        specialization: &[],
        subgroup_size: None,
        bindings,
        params_bytes,
    }
}

pub fn subgroup_words() -> Vec<u32> {
    shader!("subgroup")
}

pub fn shared_words() -> Vec<u32> {
    shader!("shared")
}

pub fn params(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A device buffer of `n` words holding `values(i)`.
pub fn device_words(device: &Device, n: u32, values: impl Fn(u32) -> u32) -> Slice {
    let slice = device.alloc(MemoryKind::Device, u64::from(n) * 4, "words").unwrap().all();
    let bytes: Vec<u8> = (0..n).flat_map(|i| values(i).to_le_bytes()).collect();
    device.upload(&slice, &bytes).unwrap();
    slice
}

pub fn recorder(device: &Device, label: &str) -> Recorder {
    device.recorder(&RecorderOptions { label: label.into(), ..Default::default() }).unwrap()
}

/// A pseudo-random stream, the same each run.
pub fn random(seed: u64) -> impl FnMut() -> u8 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    }
}
