//! Loads tokenizers for the tests.
#![allow(dead_code, reason = "every test file uses some of it")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use zinc_gguf::{Gguf, Metadata, Strings, Writer};
use zinc_testkit::{fixtures, fixtures_dir};
use zinc_text::Tokenizer;

/// The tokenizer of a GGUF file.
pub fn from_gguf(path: &Path) -> Tokenizer {
    Tokenizer::from_metadata(Gguf::open(path).unwrap().metadata(), None).unwrap()
}

/// The GGUF file of a tiny model; `None` where this set of fixtures lacks it.
pub fn fixture(name: &str) -> Option<PathBuf> {
    fixtures_dir().join(name).is_dir().then(|| fixtures(name).swap_remove(0).model)
}

/// The tokenizer of a real model whose `tokenizer.json` was fetched; `None` where it was not (CI panics).
pub fn from_hugging_face(name: &str) -> Option<Tokenizer> {
    let dir = zinc_testkit::tokenizer_dir(name)?;
    Some(Tokenizer::from_metadata(&metadata(&dir), None).unwrap())
}

/// What a converter would write into a GGUF file for the `tokenizer.json` in `dir`.
pub fn metadata(dir: &Path) -> Metadata {
    let json = std::fs::read(dir.join("tokenizer.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let config = std::fs::read(dir.join("tokenizer_config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let byte_level = json["model"]["byte_fallback"] == false;
    let (tokens, mut types) = vocabulary(&json);
    let mut writer = Writer::new();
    if byte_level {
        writer.metadata("tokenizer.ggml.model", "gpt2").metadata("tokenizer.ggml.pre", pretokenizer(&json));
        let merges: Strings = json["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
        writer.metadata("tokenizer.ggml.merges", merges);
    } else {
        // A sentencepiece file has scores and no merges: the score of a piece is its order, that of an added token −1000.
        let scores: Vec<f32> =
            types.iter().enumerate().map(|(id, &t)| if t == 1 { -(id as f32) } else { -1000.0 }).collect();
        writer.metadata("tokenizer.ggml.model", "llama").metadata("tokenizer.ggml.scores", scores);
        writer.metadata("tokenizer.ggml.add_space_prefix", false);
        let byte = |t: &String| t.len() == 6 && t.starts_with("<0x") && t.ends_with('>');
        tokens.iter().zip(&mut types).filter(|(text, _)| byte(text)).for_each(|(_, t)| *t = 6);
    }
    for (key, name) in
        [("bos_token", "tokenizer.ggml.bos_token_id"), ("eos_token", "tokenizer.ggml.eos_token_id")]
    {
        if let Some(id) = tokens.iter().position(|t| config[key] == t.as_str()) {
            writer.metadata(name, id as u32);
        }
    }
    if let Some(template) = config["chat_template"].as_str() {
        writer.metadata("tokenizer.chat_template", template);
    }
    writer.metadata("tokenizer.ggml.tokens", tokens.into_iter().collect::<Strings>());
    writer.metadata("tokenizer.ggml.token_type", types);
    let file = writer.to_bytes(|_| unreachable!("no tensors")).unwrap();
    Gguf::from_bytes(file, "tokenizer.json").unwrap().metadata().clone()
}

/// Tokens and their types by id.
fn vocabulary(json: &Value) -> (Vec<String>, Vec<i32>) {
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let added = json["added_tokens"].as_array().unwrap();
    let id = |v: &Value| v.as_u64().unwrap() as usize;
    let size = 1 + vocab.values().chain(added.iter().map(|t| &t["id"])).map(id).max().unwrap();
    let mut tokens: Vec<String> = (0..size).map(|id| format!("[PAD{id}]")).collect();
    let mut types = vec![5; size];
    for (text, token) in vocab {
        (tokens[id(token)], types[id(token)]) = (text.clone(), 1);
    }
    for token in added {
        let kind = if token["special"] == true { 3 } else { 4 };
        (tokens[id(&token["id"])], types[id(&token["id"])]) =
            (token["content"].as_str().unwrap().into(), kind);
    }
    (tokens, types)
}

fn merge(line: &Value) -> String {
    match line {
        Value::String(pair) => pair.clone(),
        pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
    }
}

/// The name of the pattern, as the converter tells it.
fn pretokenizer(json: &Value) -> &'static str {
    let pattern = json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].as_str().unwrap();
    match pattern {
        p if p.contains(r"\p{Lu}") => "gpt-4o",
        p if p.contains(r"\p{N}{1,3}") => "llama-bpe",
        _ => "qwen2",
    }
}

/// A byte-level tokenizer with a token for every byte and these control tokens, the first two of which are BOS and EOS.
pub fn bytes_and(control: &[&str]) -> Tokenizer {
    let mut spare = (0x100..).filter_map(char::from_u32);
    let byte = |b: u8| match b {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(b),
        _ => spare.next().unwrap(),
    };
    let mut tokens: Vec<String> = (0..=255).map(byte).map(String::from).collect();
    tokens.extend(control.iter().map(|&t| t.to_owned()));
    let types: Vec<i32> = (0..tokens.len()).map(|id| if id < 256 { 1 } else { 3 }).collect();
    let mut writer = Writer::new();
    writer.metadata("tokenizer.ggml.model", "gpt2").metadata("tokenizer.ggml.pre", "gpt-2");
    writer.metadata("tokenizer.ggml.merges", Strings::default());
    writer.metadata("tokenizer.ggml.bos_token_id", 256u32).metadata("tokenizer.ggml.eos_token_id", 257u32);
    writer.metadata("tokenizer.ggml.tokens", tokens.into_iter().collect::<Strings>());
    writer.metadata("tokenizer.ggml.token_type", types);
    let file = writer.to_bytes(|_| unreachable!("no tensors")).unwrap();
    Tokenizer::from_metadata(Gguf::from_bytes(file, "tiny").unwrap().metadata(), None).unwrap()
}

/// A sentencepiece tokenizer that puts a space in front of texts: bytes, some pieces, two control tokens, an added one.
pub fn pieces_with_space_prefix() -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "<tool>"].map(String::from).to_vec();
    let mut types = vec![2, 3, 3, 4];
    tokens.extend((0..=255).map(|b: u8| format!("<0x{b:02X}>")));
    types.resize(tokens.len(), 6);
    let pieces = ["▁", "a", "b", "h", "i", "▁h", "▁hi", "▁a", "ab", "▁ab", "é", "▁▁"];
    tokens.extend(pieces.map(String::from));
    types.resize(tokens.len(), 1);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| id as f32 - 1000.0).collect();
    let mut writer = Writer::new();
    writer.metadata("tokenizer.ggml.model", "llama").metadata("tokenizer.ggml.scores", scores);
    writer.metadata("tokenizer.ggml.tokens", tokens.into_iter().collect::<Strings>());
    writer.metadata("tokenizer.ggml.token_type", types).metadata("tokenizer.ggml.unknown_token_id", 0u32);
    writer.metadata("tokenizer.ggml.bos_token_id", 1u32).metadata("tokenizer.ggml.eos_token_id", 2u32);
    let file = writer.to_bytes(|_| unreachable!("no tensors")).unwrap();
    Tokenizer::from_metadata(Gguf::from_bytes(file, "tiny").unwrap().metadata(), None).unwrap()
}
