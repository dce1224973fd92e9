//! Where test data lies. A missing fixture is a failure in CI, never a silent skip.

use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};

/// Root of the repository.
fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of fixtures: `ZINC_FIXTURES`, else the full set beside the checkout, else the small set inside it.
pub fn fixtures_dir() -> PathBuf {
    let mut places = vec![repo().join("../shared/fixtures"), repo().join("tests/fixtures")];
    if let Some(dir) = std::env::var_os("ZINC_FIXTURES") {
        places.insert(0, dir.into());
    }
    places.into_iter().find(|p| p.is_dir()).expect("no fixtures: set ZINC_FIXTURES or restore tests/fixtures")
}

/// Every architecture, by its fixture.
pub const ARCHITECTURES: [&str; 11] = [
    "llama",
    "qwen2",
    "qwen3",
    "gemma3",
    "gemma4",
    "qwen35",
    "qwen3moe",
    "qwen35moe",
    "qwen3next",
    "gemma4moe",
    "gptoss",
];

/// A real model's file by name, from `ZINC_MODELS`, `models/` or `../models`; `None` where it was not fetched, which CI does not allow.
pub fn model_file(name: &str) -> Option<PathBuf> {
    in_models(name, "fetch it with `scripts/fetch-models.sh`")
}

/// The folder with `tokenizer.json` of a real tokenizer (`qwen3`, `llama3_1`, `gptoss`, `gemma3`), under the same rules as [`model_file`].
pub fn tokenizer_dir(name: &str) -> Option<PathBuf> {
    in_models(&format!("tokenizers/{name}"), "fetch it with `scripts/fetch-models.sh models tokenizers`")
}

fn in_models(name: &str, hint: &str) -> Option<PathBuf> {
    let mut roots = vec![repo().join("models"), repo().join("../models")];
    if let Some(dir) = std::env::var_os("ZINC_MODELS") {
        roots.insert(0, dir.into());
    }
    let found = roots.into_iter().map(|r| r.join(name)).find(|p| p.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "`{name}` is missing in CI\nhint: {hint}");
        eprintln!("`{name}` is missing\nhint: {hint}");
    }
    found
}

/// One quantisation of a tiny model and what it must answer.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Folder name: `qwen3`, `gemma4moe`, …
    pub name: String,
    /// File suffix: `q4_k_m`, `q8_0`, `f16`, `mxfp4`.
    pub quant: String,
    /// The GGUF file.
    pub model: PathBuf,
    /// The safetensors file with the reference outputs.
    pub reference: PathBuf,
    /// The parsed `fixture.json`.
    pub info: serde_json::Value,
}

impl Fixture {
    /// The noise to expect of f16 matrix inputs, as a relative RMS (not percent).
    pub fn f16_noise(&self) -> f64 {
        self.noise("f16")
    }

    /// The noise to expect of matrix inputs in blocks of 32 integers with an f16 scale, as a relative RMS.
    pub fn q8_noise(&self) -> f64 {
        self.noise("q8")
    }

    fn noise(&self, of: &str) -> f64 {
        let file = format!("model-{}.gguf", self.quant);
        let noise = &self.info["files"][file]["noise"][of]["last_rel_rms"];
        noise.as_f64().unwrap_or_else(|| panic!("noise.{of}.last_rel_rms"))
    }

    /// Loads the reference outputs.
    pub fn load_reference(&self) -> Reference {
        Reference::load(&self.reference)
    }
}

/// All quantisations of one tiny model that are present; at least one must be.
pub fn fixtures(name: &str) -> Vec<Fixture> {
    let dir = fixtures_dir().join(name);
    let json =
        std::fs::read_to_string(dir.join("fixture.json")).unwrap_or_else(|e| panic!("fixture `{name}`: {e}"));
    let info: serde_json::Value = serde_json::from_str(&json).expect("fixture.json");
    let mut found: Vec<Fixture> = std::fs::read_dir(&dir)
        .expect("fixture folder")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter_map(|f| Some(f.strip_prefix("model-")?.strip_suffix(".gguf")?.to_owned()))
        .map(|quant| Fixture {
            name: name.into(),
            model: dir.join(format!("model-{quant}.gguf")),
            reference: dir.join(format!("reference-{quant}.safetensors")),
            quant,
            info: info.clone(),
        })
        .collect();
    found.sort_by(|a, b| a.quant.cmp(&b.quant));
    assert!(!found.is_empty(), "fixture `{name}` has no model file");
    found
}

/// Named tensors of a safetensors file.
pub struct Reference(Vec<u8>);

impl Reference {
    /// Reads a safetensors file.
    pub fn load(path: &Path) -> Self {
        Reference(std::fs::read(path).unwrap_or_else(|e| panic!("`{}`: {e}", path.display())))
    }

    fn bytes(&self, name: &str, dtype: Dtype) -> Vec<[u8; 4]> {
        let file = SafeTensors::deserialize(&self.0).expect("safetensors");
        let t = file.tensor(name).unwrap_or_else(|e| panic!("tensor `{name}`: {e}"));
        assert_eq!(t.dtype(), dtype, "dtype of `{name}`");
        t.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]).collect()
    }

    /// A tensor of f32, flattened, row-major.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.bytes(name, Dtype::F32).into_iter().map(f32::from_le_bytes).collect()
    }

    /// A tensor of i32, flattened.
    pub fn i32(&self, name: &str) -> Vec<i32> {
        self.bytes(name, Dtype::I32).into_iter().map(i32::from_le_bytes).collect()
    }

    /// Whether the file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        SafeTensors::deserialize(&self.0).expect("safetensors").tensor(name).is_ok()
    }
}
