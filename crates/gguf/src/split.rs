//! Models split over several files: their names and the keys that tell the parts apart.

use crate::error::{Error, Problem};
use crate::file::{Part, TensorInfo};
use std::path::{Path, PathBuf};

/// The name of a part, `NAME-00002-of-00003.gguf`: numbers from 1.
pub(crate) struct PartName<'a> {
    prefix: &'a str,
    pub(crate) count: u32,
}

/// Reads a part's file name; `None` where it is no such name.
pub(crate) fn part_name(path: &Path) -> Option<PartName<'_>> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let five_digits =
        |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())?;
    let (number, count): (u32, u32) = (five_digits(number)?, five_digits(count)?);
    (1..=count).contains(&number).then_some(PartName { prefix, count })
}

impl PartName<'_> {
    /// The path of part `index`, counted from 0, beside `path`.
    pub(crate) fn sibling(&self, path: &Path, index: u32) -> PathBuf {
        path.with_file_name(format!("{}-{:05}-of-{:05}.gguf", self.prefix, index + 1, self.count))
    }
}

/// Checks that each part says of itself what its place in the row of files says. A single file may say nothing.
pub(crate) fn check(parts: &[Part], tensors: &[TensorInfo]) -> Result<(), Error> {
    let count = parts.len() as u64;
    for (index, part) in parts.iter().enumerate() {
        for (key, expected) in [("split.count", count), ("split.no", index as u64)] {
            let found = part.metadata.optional::<u64>(key)?;
            // `split.count` 0 is written by tools that joined the parts again.
            let alone = count == 1 && matches!(found, None | Some(0));
            if found != Some(expected) && !alone {
                let found = found.map_or("no such key".into(), |v| v.to_string());
                return Err(at_key(part, key, Problem::Split { key, expected, found }));
            }
        }
    }
    let key = "split.tensors.count";
    let first = &parts[0];
    if let Some(expected) = first.metadata.optional::<u64>(key)?
        && expected != tensors.len() as u64
    {
        return Err(at_key(first, key, Problem::SplitTensors { expected, found: tensors.len() as u64 }));
    }
    Ok(())
}

fn at_key(part: &Part, key: &str, problem: Problem) -> Error {
    let offset = part.metadata.offset(key).unwrap_or_default();
    Error::Malformed { file: part.file.clone(), offset, problem: Box::new(problem) }
}
