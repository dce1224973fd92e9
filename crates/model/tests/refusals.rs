//! Files that can not be run: each is refused with the tensor or key and what was expected of it.

use zinc_gguf::{Array, GgmlType, Gguf, Value, Writer};
use zinc_model::{Error, Model, support};
use zinc_testkit::fixtures;

/// A copy of a fixture with changes.
#[derive(Default)]
struct Change {
    set: Vec<(&'static str, Option<Value>)>,
    /// Tensor and its new name.
    rename: Vec<(&'static str, &'static str)>,
    drop: Vec<&'static str>,
    /// Tensors of F32 zeros.
    add: Vec<(&'static str, Vec<u64>)>,
    /// Tensor and its new dimensions and type; the data is zeros.
    reshape: Vec<(&'static str, Vec<u64>, GgmlType)>,
}

fn change(name: &str, change: Change) -> Result<Model, Error> {
    let gguf = Gguf::open(&fixtures(name)[0].model).expect("opens");
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter().filter(|(k, _)| !k.starts_with("tokenizer.")) {
        if !change.set.iter().any(|(k, _)| k == &key) {
            writer.metadata(key, value.clone());
        }
    }
    for (key, value) in change.set.iter().filter_map(|(k, v)| Some((k, v.clone()?))) {
        writer.metadata(key, value);
    }
    let mut data: Vec<Vec<u8>> = vec![];
    for tensor in gguf.tensors().iter().filter(|t| !change.drop.contains(&t.name.as_str())) {
        let name =
            change.rename.iter().find(|(from, _)| *from == tensor.name).map_or(tensor.name.as_str(), |r| r.1);
        let reshaped = change.reshape.iter().find(|(n, _, _)| *n == tensor.name);
        let (dims, ty) = reshaped.map_or((&tensor.dims, tensor.ggml_type), |(_, dims, ty)| (dims, *ty));
        writer.tensor(name, dims, ty);
        let bytes = dims.iter().product::<u64>() / ty.block_elems() * ty.block_bytes();
        data.push(if reshaped.is_some() { vec![0; bytes as usize] } else { gguf.data(tensor).to_vec() });
    }
    for (name, dims) in &change.add {
        writer.tensor(name, dims, GgmlType::F32);
        data.push(vec![0; dims.iter().product::<u64>() as usize * 4]);
    }
    let mut data = data.into_iter();
    let bytes = writer.to_bytes(|_| Ok(data.next().expect("a tensor's data").into())).expect("writes");
    Model::from_gguf(&Gguf::from_bytes(bytes, "changed.gguf").expect("reads"))
}

fn refusal(name: &str, what: Change) -> String {
    change(name, what).map(drop).expect_err("is refused").to_string()
}

fn with(set: &[(&'static str, Value)]) -> Change {
    Change { set: set.iter().map(|(k, v)| (*k, Some(v.clone()))).collect(), ..Change::default() }
}

#[test]
fn an_unchanged_copy_is_supported() {
    change("qwen3", Change::default()).expect("is supported");
    assert!(support(&Gguf::open(&fixtures("llama")[0].model).expect("opens")).is_ok());
}

#[test]
fn an_unknown_architecture_lists_the_known_ones() {
    let text = refusal("qwen3", with(&[("general.architecture", "mamba\n".into())]));
    assert!(text.contains("`mamba\\n`") && text.contains("llama, qwen2, qwen3"), "{text}");
}

#[test]
fn missing_and_mistyped_keys_are_named() {
    let without = Change { set: vec![("qwen3.attention.head_count", None)], ..Change::default() };
    assert!(refusal("qwen3", without).contains("qwen3.attention.head_count"));
    let text = refusal("qwen3", with(&[("qwen3.block_count", "three".into())]));
    assert!(text.contains("qwen3.block_count") && text.contains("string"), "{text}");
}

#[test]
fn senseless_values_are_errors() {
    for (name, key, value) in [
        ("qwen3", "qwen3.block_count", Value::U32(0)),
        ("qwen3", "qwen3.block_count", Value::U32(u32::MAX)),
        ("qwen3", "qwen3.embedding_length", Value::U32(0)),
        ("qwen3", "qwen3.attention.head_count", Value::U32(0)),
        ("qwen3", "qwen3.attention.key_length", Value::U32(0)),
        ("qwen3", "qwen3.attention.head_count", Value::Array(Array::U32(vec![4]))),
        ("qwen3", "qwen3.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN)),
        ("qwen3", "qwen3.rope.freq_base", Value::F32(-1.0)),
        ("qwen3", "qwen3.nextn_predict_layers", Value::U32(3)),
        ("llama", "llama.rope.dimension_count", Value::U32(u32::MAX)),
        ("llama", "llama.rope.dimension_count", Value::U32(3)),
        ("gemma3", "gemma3.rope.scaling.factor", Value::F32(0.0)),
        ("gemma4", "gemma4.attention.sliding_window_pattern", Value::Array(Array::Bool(vec![true]))),
        ("qwen3moe", "qwen3moe.expert_used_count", Value::U32(7)),
        ("qwen3moe", "qwen3moe.expert_count", Value::U32(0)),
        ("qwen35", "qwen35.ssm.time_step_rank", Value::U32(3)),
        ("qwen35", "qwen35.ssm.group_count", Value::U32(0)),
    ] {
        let text = refusal(name, with(&[(key, value)]));
        assert!(text.contains(key), "`{key}`: {text}");
    }
}

#[test]
fn values_that_contradict_the_tensors_are_shape_errors() {
    for (name, key, value) in [
        ("qwen3", "qwen3.embedding_length", 512u32),
        ("qwen3", "qwen3.attention.head_count", 6),
        ("qwen2", "qwen2.attention.head_count", 8),
        ("qwen3moe", "qwen3moe.expert_count", 8),
        ("qwen35", "qwen35.ssm.conv_kernel", 5),
        ("gptoss", "gpt-oss.attention.head_count", 6),
    ] {
        let error = change(name, with(&[(key, value.into())])).map(drop).expect_err("is refused");
        assert!(matches!(error, Error::Shape { .. } | Error::Dimension { .. }), "`{key}`: {error}");
    }
}

#[test]
fn a_missing_tensor_is_named_with_its_shape() {
    let error = change("qwen3", Change { drop: vec!["blk.1.ffn_up.weight"], ..Change::default() });
    match error.map(drop).expect_err("is refused") {
        Error::MissingTensor { tensor, layer: Some(1), expected } => {
            assert_eq!((tensor.as_str(), expected), ("blk.1.ffn_up.weight", vec![256, 512]));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_tensor_without_use_is_an_error() {
    let extra = Change { add: vec![("blk.0.attn_q.bias", vec![512])], ..Change::default() };
    let text = refusal("qwen3", extra);
    assert!(text.contains("`blk.0.attn_q.bias`") && text.contains("no use"), "{text}");
    let renamed = Change { rename: vec![("output.weight", "outputs.weight")], ..Change::default() };
    assert!(refusal("qwen3", renamed).contains("`outputs.weight`"));
}

#[test]
fn a_wrong_shape_says_both() {
    let reshape = vec![("blk.2.attn_norm.weight", vec![255], GgmlType::F32)];
    let text = refusal("qwen3", Change { reshape, ..Change::default() });
    assert!(
        text.contains("`blk.2.attn_norm.weight`") && text.contains("[255]") && text.contains("[256]"),
        "{text}"
    );
}

#[test]
fn a_format_that_can_not_be_decoded_is_named() {
    let format = GgmlType::known().find(|t| t.name() == "TQ2_0").expect("a known type");
    let reshape = vec![("blk.0.ffn_gate.weight", vec![256, 512], format)];
    let text = refusal("qwen3", Change { reshape, ..Change::default() });
    assert!(text.contains("`blk.0.ffn_gate.weight`") && text.contains("TQ2_0"), "{text}");
}

#[test]
fn variants_that_are_not_supported_say_so() {
    for (name, key, word) in [
        ("gemma4", "gemma4.embedding_length_per_layer_input", "E2B"),
        ("gemma4", "gemma4.attention.shared_kv_layers", "E2B"),
        ("llama", "llama.expert_count", "Mixtral"),
    ] {
        assert!(refusal(name, with(&[(key, 2u32.into())])).contains(word));
    }
    let text = refusal("qwen3", with(&[("qwen3.rope.scaling.type", "yarn".into())]));
    assert!(text.contains("`yarn`"), "{text}");
}

#[test]
fn layers_that_predict_further_tokens_are_left_out_with_a_note() {
    let model = change(
        "qwen35",
        Change {
            set: vec![
                ("qwen35.block_count", Some(5u32.into())),
                ("qwen35.nextn_predict_layers", Some(1u32.into())),
            ],
            add: vec![("blk.4.nextn.eh_proj.weight", vec![512, 256]), ("blk.4.attn_norm.weight", vec![256])],
            ..Change::default()
        },
    )
    .expect("is supported");
    assert_eq!(model.spec.layers.len(), 4);
    assert!(
        model.notes.len() == 1 && model.notes[0].contains("`blk.4.nextn.eh_proj.weight`"),
        "{:?}",
        model.notes
    );
}

#[test]
fn fused_experts_are_read_as_gate_and_up() {
    let fused = Change {
        drop: vec!["blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight"],
        add: vec![("blk.1.ffn_gate_up_exps.weight", vec![256, 512, 6])],
        ..Change::default()
    };
    change("qwen35moe", fused).expect("is supported");
}
