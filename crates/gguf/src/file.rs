//! An opened model: one file or several parts, mapped.

use crate::error::{Error, Problem, shown};
use crate::ggml_type::GgmlType;
use crate::metadata::Metadata;
use crate::mmap::map;
use crate::parse::{Row, parse};
use crate::split;
use std::collections::HashMap;
use std::path::Path;

/// An opened GGUF model. Every tensor in it has a known type and lies within its file.
pub struct Gguf {
    parts: Vec<Part>,
    tensors: Vec<TensorInfo>,
    index: HashMap<String, usize>,
}

/// One file of a model.
pub struct Part {
    /// Path or name of the file, for messages.
    pub file: String,
    /// Version of the container, 2 or 3.
    pub version: u32,
    /// Alignment of the tensors, in bytes.
    pub alignment: u64,
    /// What this file's metadata says; that of the model is the first part's.
    pub metadata: Metadata,
    bytes: Bytes,
}

/// A tensor's name, shape, type and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// 1 to 4 dimensions in elements, fastest first: `dims[0]` is the length of a row. None is 0.
    pub dims: Vec<u64>,
    /// Type of the elements. `dims[0]` is a multiple of its block.
    pub ggml_type: GgmlType,
    /// Where the data begins, in bytes from the start of its file.
    pub offset: u64,
    /// Size of the data in bytes.
    pub bytes: u64,
    /// Number of the file, an index into [`Gguf::parts`].
    pub part: usize,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Gguf {
    /// Opens a model. Any part of a split model (`NAME-00001-of-0000N.gguf`) opens all of it.
    pub fn open(path: &Path) -> Result<Gguf, Error> {
        let Some(name) = split::part_name(path) else {
            return Gguf::from_parts(vec![(path.display().to_string(), Bytes::Mapped(map(path)?))]);
        };
        // Opened first, so that a missing file that was asked for is an I/O error with its own name.
        map(path)?;
        let mut parts = Vec::new();
        for index in 0..name.count {
            let sibling = name.sibling(path, index);
            if !sibling.exists() {
                return Err(Error::MissingPart {
                    file: path.display().to_string(),
                    missing: sibling.display().to_string(),
                    count: name.count,
                });
            }
            parts.push((sibling.display().to_string(), Bytes::Mapped(map(&sibling)?)));
        }
        Gguf::from_parts(parts)
    }

    /// A model from the bytes of one file; `name` is for messages.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Gguf, Error> {
        Gguf::from_parts(vec![(name.into(), Bytes::Owned(bytes))])
    }

    fn from_parts(files: Vec<(String, Bytes)>) -> Result<Gguf, Error> {
        let mut parts = Vec::new();
        let mut tensors: Vec<TensorInfo> = Vec::new();
        let mut index = HashMap::new();
        for (number, (file, bytes)) in files.into_iter().enumerate() {
            let parsed = parse(&bytes, &file, number)?;
            for Row { info, name_at, .. } in parsed.tensors {
                if index.insert(info.name.clone(), tensors.len()).is_some() {
                    let problem = Box::new(Problem::DuplicateTensor { tensor: shown(&info.name) });
                    return Err(Error::Malformed { file, offset: name_at, problem });
                }
                tensors.push(info);
            }
            let (version, alignment, metadata) = (parsed.version, parsed.alignment, parsed.metadata);
            parts.push(Part { file, version, alignment, metadata, bytes });
        }
        split::check(&parts, &tensors)?;
        Ok(Gguf { parts, tensors, index })
    }

    /// The model's metadata: that of the first part.
    pub fn metadata(&self) -> &Metadata {
        &self.parts[0].metadata
    }

    /// The files, in order; there is at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// All tensors, in the order of the files.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index.get(name).map(|&i| &self.tensors[i])
    }

    /// The data of one of this model's tensors. Panics on a tensor of another model that does not lie within this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        &self.parts[tensor.part].bytes[tensor.offset as usize..][..tensor.bytes as usize]
    }
}

impl Part {
    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<&str> = self.parts.iter().map(|p| p.file.as_str()).collect();
        f.debug_struct("Gguf")
            .field("files", &files)
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}
