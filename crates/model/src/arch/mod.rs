//! The architectures: from metadata and tensors to a [`ModelSpec`]. Nothing outside this folder knows GGUF keys.

mod blocks;
mod gemma3;
mod gemma4;
mod gpt_oss;
mod llama;
mod qwen;
mod qwen35;

use crate::error::Error;
use crate::reader::Reader;
use crate::spec::ModelSpec;
use zinc_gguf::Gguf;

/// Reads a spec; the weights are filled in afterwards.
type Read = fn(&mut Reader) -> Result<ModelSpec, Error>;

/// Every architecture by its name in GGUF files.
const ARCHITECTURES: &[(&str, Read)] = &[
    ("llama", llama::read),
    ("qwen2", qwen::qwen2),
    ("qwen3", qwen::qwen3),
    ("qwen3moe", qwen::qwen3moe),
    ("qwen35", qwen35::qwen35),
    ("qwen35moe", qwen35::qwen35moe),
    ("qwen3next", qwen35::qwen3next),
    ("gemma3", gemma3::read),
    ("gemma4", gemma4::read),
    ("gpt-oss", gpt_oss::read),
];

/// The names of the known architectures, as `general.architecture` spells them.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|&(name, _)| name)
}

/// The spec of a file and the notes on what was left out.
pub(crate) fn read(gguf: &Gguf) -> Result<(ModelSpec, Vec<String>), Error> {
    let name = gguf.metadata().str("general.architecture")?;
    let Some(&(name, read)) = ARCHITECTURES.iter().find(|(known, _)| *known == name) else {
        let known = architectures().collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownArchitecture { name: name.escape_debug().to_string(), known });
    };
    let mut reader = Reader::new(gguf, name);
    let mut spec = read(&mut reader)?;
    let (weights, notes) = reader.finish()?;
    spec.weights = weights;
    Ok((spec, notes))
}
