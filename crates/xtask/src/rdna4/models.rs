//! Full-size models without weights: the shapes of every tensor, in files that are holes.
//!
//! A few layers stand for all: some of each kind, and one more, since prompts skip what the last layer does for rows that want no logits. The mixture of formats is that of Q4_K_M files.

use crate::Result;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use zinc_gguf::{GgmlType, Gguf, Writer};

/// A model by name.
pub struct Model {
    /// What tables call it.
    pub name: &'static str,
    describe: fn(&mut Writer),
}

/// The models whose default variants are looked at: Qwen3-8B, Gemma 4 31B and Qwen3.5-35B-A3B in Q4_K_M.
pub const MODELS: [Model; 3] = [
    Model { name: "8B", describe: qwen3_8b },
    Model { name: "31B", describe: gemma4_31b },
    Model { name: "35B-A3B", describe: qwen35_35b_a3b },
];

impl Model {
    /// Writes the model to a file and opens it.
    pub fn open(&self, file: &Path) -> Result<Gguf> {
        let mut writer = Writer::new();
        (self.describe)(&mut writer);
        let mut holes = Holes(File::create(file)?);
        writer.write(&mut holes, |tensor| {
            // Vectors are ones, matrices zeros.
            let bytes = tensor.bytes as usize;
            Ok(Cow::Owned(match tensor.ggml_type {
                GgmlType::F32 => 1f32.to_le_bytes().into_iter().cycle().take(bytes).collect(),
                _ => vec![0; bytes],
            }))
        })?;
        let length = holes.0.stream_position()?;
        holes.0.set_len(length)?;
        Ok(Gguf::open(file)?)
    }
}

/// Skips what is zero.
struct Holes(File);

impl Write for Holes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let page = &bytes[..bytes.len().min(ZEROS.len())];
        if page == &ZEROS[..page.len()] {
            self.0.seek(SeekFrom::Current(page.len() as i64))?;
            return Ok(page.len());
        }
        self.0.write(page)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn qwen3_8b(w: &mut Writer) {
    const LAYERS: u32 = 3;
    const HIDDEN: u64 = 4096;
    const HEAD: u64 = 128;
    w.metadata("general.architecture", "qwen3");
    for (key, value) in [
        ("block_count", LAYERS),
        ("embedding_length", HIDDEN as u32),
        ("context_length", 40_960),
        ("feed_forward_length", 12_288),
        ("attention.head_count", 32),
        ("attention.head_count_kv", 8),
        ("attention.key_length", HEAD as u32),
        ("attention.value_length", HEAD as u32),
    ] {
        w.metadata(&format!("qwen3.{key}"), value);
    }
    w.metadata("qwen3.attention.layer_norm_rms_epsilon", 1e-6f32).metadata("qwen3.rope.freq_base", 1e6f32);
    w.tensor("token_embd.weight", &[HIDDEN, 151_936], format("Q4_K"));
    w.tensor("output_norm.weight", &[HIDDEN], GgmlType::F32);
    w.tensor("output.weight", &[HIDDEN, 151_936], format("Q6_K"));
    for layer in 0..LAYERS {
        let norms =
            [("attn_norm", HIDDEN), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD), ("ffn_norm", HIDDEN)];
        vectors(w, layer, &norms);
        attention(w, layer, HIDDEN, 32 * HEAD, 8 * HEAD, true);
        feed_forward(w, layer, HIDDEN, 12_288);
    }
}

fn gemma4_31b(w: &mut Writer) {
    const LAYERS: u32 = 7;
    const HIDDEN: u64 = 5376;
    let sliding: Vec<bool> = (0..LAYERS).map(|i| i % 6 != 5).collect();
    w.metadata("general.architecture", "gemma4");
    for (key, value) in [
        ("block_count", LAYERS),
        ("embedding_length", HIDDEN as u32),
        ("context_length", 262_144),
        ("feed_forward_length", 21_504),
        ("attention.head_count", 32),
        ("attention.key_length", 512),
        ("attention.value_length", 512),
        ("attention.key_length_swa", 256),
        ("attention.value_length_swa", 256),
        ("attention.sliding_window", 1024),
        ("rope.dimension_count", 512),
        ("rope.dimension_count_swa", 256),
    ] {
        w.metadata(&format!("gemma4.{key}"), value);
    }
    let kv_heads: Vec<u32> = sliding.iter().map(|s| if *s { 16 } else { 4 }).collect();
    w.metadata("gemma4.attention.head_count_kv", kv_heads.clone());
    w.metadata("gemma4.attention.sliding_window_pattern", sliding.clone());
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", 1e-6),
        ("rope.freq_base", 1e6),
        ("rope.freq_base_swa", 1e4),
        ("final_logit_softcapping", 30.0f32),
    ] {
        w.metadata(&format!("gemma4.{key}"), value);
    }
    w.tensor("token_embd.weight", &[HIDDEN, 262_144], format("Q6_K"));
    w.tensor("output_norm.weight", &[HIDDEN], GgmlType::F32);
    w.tensor("rope_freqs.weight", &[256], GgmlType::F32);
    for layer in 0..LAYERS {
        let windowed = sliding[layer as usize];
        let head = if windowed { 256 } else { 512 };
        vectors(
            w,
            layer,
            &[
                ("attn_norm", HIDDEN),
                ("attn_q_norm", head),
                ("attn_k_norm", head),
                ("post_attention_norm", HIDDEN),
                ("ffn_norm", HIDDEN),
                ("post_ffw_norm", HIDDEN),
                ("layer_output_scale", 1),
            ],
        );
        attention(w, layer, HIDDEN, 32 * head, u64::from(kv_heads[layer as usize]) * head, windowed);
        feed_forward(w, layer, HIDDEN, 21_504);
    }
}

fn qwen35_35b_a3b(w: &mut Writer) {
    // The third is one of attention, where all of the model's fourth ones are: fewer experts to write.
    const LAYERS: u32 = 4;
    const PERIOD: u32 = 3;
    const HIDDEN: u64 = 2048;
    const EXPERTS: u64 = 256;
    const INNER: u64 = 512;
    const HEAD: u64 = 256;
    // Heads of the delta net: 16 of keys, 32 of values, 128 elements each.
    const KEYS: u64 = 16 * 128;
    const VALUES: u64 = 32 * 128;
    w.metadata("general.architecture", "qwen35moe");
    for (key, value) in [
        ("block_count", LAYERS),
        ("embedding_length", HIDDEN as u32),
        ("context_length", 262_144),
        ("attention.head_count", 16),
        ("attention.head_count_kv", 2),
        ("attention.key_length", HEAD as u32),
        ("attention.value_length", HEAD as u32),
        ("rope.dimension_count", 64),
        ("expert_count", EXPERTS as u32),
        ("expert_used_count", 8),
        ("expert_feed_forward_length", INNER as u32),
        ("expert_shared_feed_forward_length", INNER as u32),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 128),
        ("ssm.group_count", 16),
        ("ssm.time_step_rank", 32),
        ("ssm.inner_size", VALUES as u32),
        ("full_attention_interval", PERIOD),
    ] {
        w.metadata(&format!("qwen35moe.{key}"), value);
    }
    w.metadata("qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f32);
    w.metadata("qwen35moe.rope.freq_base", 1e7f32);
    w.tensor("token_embd.weight", &[HIDDEN, 248_320], format("Q4_K"));
    w.tensor("output_norm.weight", &[HIDDEN], GgmlType::F32);
    w.tensor("output.weight", &[HIDDEN, 248_320], format("Q6_K"));
    for layer in 0..LAYERS {
        vectors(w, layer, &[("attn_norm", HIDDEN), ("post_attention_norm", HIDDEN)]);
        let mut tensor = |name: &str, dims: &[u64], format| {
            w.tensor(&format!("blk.{layer}.{name}"), dims, format);
        };
        if (layer + 1).is_multiple_of(PERIOD) {
            tensor("attn_q_norm.weight", &[HEAD], GgmlType::F32);
            tensor("attn_k_norm.weight", &[HEAD], GgmlType::F32);
            tensor("attn_q.weight", &[HIDDEN, 2 * 16 * HEAD], format("Q4_K"));
            tensor("attn_k.weight", &[HIDDEN, 2 * HEAD], format("Q4_K"));
            tensor("attn_v.weight", &[HIDDEN, 2 * HEAD], finer(layer));
            tensor("attn_output.weight", &[16 * HEAD, HIDDEN], format("Q4_K"));
        } else {
            tensor("ssm_a", &[32], GgmlType::F32);
            tensor("ssm_conv1d.weight", &[4, 2 * KEYS + VALUES], GgmlType::F32);
            tensor("ssm_dt.bias", &[32], GgmlType::F32);
            tensor("ssm_norm.weight", &[128], GgmlType::F32);
            tensor("ssm_alpha.weight", &[HIDDEN, 32], format("Q4_K"));
            tensor("ssm_beta.weight", &[HIDDEN, 32], format("Q4_K"));
            tensor("attn_qkv.weight", &[HIDDEN, 2 * KEYS + VALUES], finer(layer));
            tensor("attn_gate.weight", &[HIDDEN, VALUES], format("Q4_K"));
            tensor("ssm_out.weight", &[VALUES, HIDDEN], format("Q4_K"));
        }
        tensor("ffn_gate_inp.weight", &[HIDDEN, EXPERTS], GgmlType::F32);
        tensor("ffn_gate_inp_shexp.weight", &[HIDDEN], GgmlType::F32);
        for (name, dims, format) in [
            ("ffn_gate", [HIDDEN, INNER], format("Q4_K")),
            ("ffn_up", [HIDDEN, INNER], format("Q4_K")),
            ("ffn_down", [INNER, HIDDEN], finer(layer)),
        ] {
            tensor(&format!("{name}_exps.weight"), &[dims[0], dims[1], EXPERTS], format);
            tensor(&format!("{name}_shexp.weight"), &dims, format);
        }
    }
}

fn vectors(w: &mut Writer, layer: u32, vectors: &[(&str, u64)]) {
    for (name, length) in vectors {
        w.tensor(&format!("blk.{layer}.{name}.weight"), &[*length], GgmlType::F32);
    }
}

fn format(name: &str) -> GgmlType {
    GgmlType::known().find(|t| t.name() == name).expect("a format of ggml")
}

/// Q4_K_M files keep values and the down projection of every other layer in Q6_K.
fn finer(layer: u32) -> GgmlType {
    if layer.is_multiple_of(2) { format("Q6_K") } else { format("Q4_K") }
}

fn attention(w: &mut Writer, layer: u32, hidden: u64, queries: u64, keys: u64, values: bool) {
    let mut matrix = |name: &str, dims: [u64; 2], format| {
        w.tensor(&format!("blk.{layer}.{name}.weight"), &dims, format);
    };
    matrix("attn_q", [hidden, queries], format("Q4_K"));
    matrix("attn_k", [hidden, keys], format("Q4_K"));
    if values {
        matrix("attn_v", [hidden, keys], finer(layer));
    }
    matrix("attn_output", [queries, hidden], format("Q4_K"));
}

fn feed_forward(w: &mut Writer, layer: u32, hidden: u64, inner: u64) {
    for (name, dims, format) in [
        ("ffn_gate", [hidden, inner], format("Q4_K")),
        ("ffn_up", [hidden, inner], format("Q4_K")),
        ("ffn_down", [inner, hidden], finer(layer)),
    ] {
        w.tensor(&format!("blk.{layer}.{name}.weight"), &dims, format);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_are_what_the_engine_reads() {
        for model in MODELS {
            let folder = tempfile::tempdir().unwrap();
            let gguf = model.open(&folder.path().join("model.gguf")).unwrap();
            let read = zinc_model::Model::from_gguf(&gguf).unwrap_or_else(|e| panic!("{}: {e}", model.name));
            let plan = zinc_engine::plan_without_device(&read, &zinc_engine::LoadOptions::new(""), 32 << 30);
            assert!(plan.is_ok(), "{}: {:?}", model.name, plan.err());
        }
    }
}
