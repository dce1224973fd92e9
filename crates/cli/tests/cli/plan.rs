//! Memory of a full-size model, planned from its header: the weights are a hole in the file.

use crate::{run_in, text};
use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use zinc_gguf::{GgmlType, Strings, Writer};

const HIDDEN: u64 = 2048;
const VOCAB: u64 = 248_320;
const LAYERS: u32 = 40;
const EXPERTS: u64 = 256;

/// Writes what comes before the data and leaves out the rest.
struct Header<'a> {
    file: File,
    data: &'a Cell<bool>,
}

impl Write for Header<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.data.get() {
            self.file.seek(SeekFrom::Current(bytes.len() as i64))?;
            return Ok(bytes.len());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let length = self.file.stream_position()?;
        self.file.set_len(length)
    }
}

/// Qwen3.5 35B-A3B, matrices in Q4_K, as far as a plan looks at it.
fn qwen35_35b_a3b(path: &Path) {
    let mut w = Writer::new();
    w.metadata("general.architecture", "qwen35moe");
    for (key, value) in [
        ("block_count", LAYERS),
        ("context_length", 262_144),
        ("embedding_length", HIDDEN as u32),
        ("attention.head_count", 16),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 256),
        ("attention.value_length", 256),
        ("rope.dimension_count", 64),
        ("expert_count", EXPERTS as u32),
        ("expert_used_count", 8),
        ("expert_feed_forward_length", 512),
        ("expert_shared_feed_forward_length", 512),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 128),
        ("ssm.group_count", 16),
        ("ssm.time_step_rank", 32),
        ("ssm.inner_size", 4096),
        ("full_attention_interval", 4),
    ] {
        w.metadata(&format!("qwen35moe.{key}"), value);
    }
    w.metadata("qwen35moe.rope.freq_base", 1e7f32);
    w.metadata("qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f32);
    w.metadata("tokenizer.ggml.model", "gpt2").metadata("tokenizer.ggml.pre", "qwen2");
    let tokens: Strings = (0..VOCAB).map(|i| format!("t{i}")).collect();
    w.metadata("tokenizer.ggml.tokens", tokens);
    w.metadata("tokenizer.ggml.merges", Strings::default());
    let q4 = GgmlType::known().find(|t| t.name() == "Q4_K").unwrap();
    w.tensor("output.weight", &[HIDDEN, VOCAB], q4).tensor("token_embd.weight", &[HIDDEN, VOCAB], q4);
    w.tensor("output_norm.weight", &[HIDDEN], GgmlType::F32);
    for i in 0..LAYERS {
        let mut add = |name: &str, dims: &[u64]| {
            let kind = if dims.len() == 1 || name.contains("conv") { GgmlType::F32 } else { q4 };
            w.tensor(&format!("blk.{i}.{name}"), dims, kind);
        };
        add("attn_norm.weight", &[HIDDEN]);
        add("post_attention_norm.weight", &[HIDDEN]);
        if i % 4 == 3 {
            add("attn_q.weight", &[HIDDEN, 8192]);
            add("attn_k.weight", &[HIDDEN, 512]);
            add("attn_v.weight", &[HIDDEN, 512]);
            add("attn_output.weight", &[4096, HIDDEN]);
            add("attn_q_norm.weight", &[256]);
            add("attn_k_norm.weight", &[256]);
        } else {
            add("attn_qkv.weight", &[HIDDEN, 8192]);
            add("attn_gate.weight", &[HIDDEN, 4096]);
            add("ssm_alpha.weight", &[HIDDEN, 32]);
            add("ssm_beta.weight", &[HIDDEN, 32]);
            add("ssm_conv1d.weight", &[4, 8192]);
            add("ssm_dt.bias", &[32]);
            add("ssm_a", &[32]);
            add("ssm_norm.weight", &[128]);
            add("ssm_out.weight", &[4096, HIDDEN]);
        }
        add("ffn_gate_inp.weight", &[HIDDEN, EXPERTS]);
        add("ffn_gate_exps.weight", &[HIDDEN, 512, EXPERTS]);
        add("ffn_up_exps.weight", &[HIDDEN, 512, EXPERTS]);
        add("ffn_down_exps.weight", &[512, HIDDEN, EXPERTS]);
        add("ffn_gate_inp_shexp.weight", &[HIDDEN]);
        add("ffn_gate_shexp.weight", &[HIDDEN, 512]);
        add("ffn_up_shexp.weight", &[HIDDEN, 512]);
        add("ffn_down_shexp.weight", &[512, HIDDEN]);
    }
    let data = Cell::new(false);
    let mut header = Header { file: File::create(path).unwrap(), data: &data };
    w.write(&mut header, |tensor| {
        data.set(true);
        Ok(Cow::Owned(vec![0; tensor.bytes as usize])) // never touched
    })
    .unwrap();
}

#[test]
fn check_plans_a_full_size_hybrid_from_its_header() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("35b.gguf");
    qwen35_35b_a3b(&model);
    let check = |more: &[&str]| {
        let args = [&["check", "-m", text(&model), "--ctx", "32768"], more].concat();
        // The loader finds no driver here.
        let none = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|name| (name, "/nonexistent.json"));
        run_in(&none, &args, b"")
    };
    let plan = check(&["--budget", "32GiB"]).ok();
    let line = |name: &str| plan.lines().find(|l| l.trim_start().starts_with(name)).unwrap_or_default();
    // 35 milliard elements of 4.5 bits; 32,768 tokens and a page more in ten layers of 2 heads of 256 keys and values in f16; a slot of
    // states in thirty layers is 63 MiB.
    assert!(line("weights").contains("18.") && line("weights").ends_with("GiB"), "{plan}");
    assert!(line("KV cache").contains("640.3"), "{plan}");
    let blocks = check(&["--budget", "32GiB", "--kv", "q8_0"]).ok();
    let cache = blocks.lines().find(|l| l.trim_start().starts_with("KV cache")).unwrap_or_default();
    assert!(cache.contains("340.17"), "34 bytes for 64: {blocks}");
    assert!(line("states").ends_with("iB") && line("scratch").ends_with("iB"), "{plan}");
    assert!(line("the largest context that fits is 262144 tokens").contains("trained for 262144"), "{plan}");
    let short = check(&["--budget", "16GiB"]);
    assert!(short.out.contains("short") && short.out.contains("use a smaller model"), "{}", short.out);
    short.fails(1);
}
