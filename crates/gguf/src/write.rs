//! Writes GGUF files, version 3.

use crate::error::shown;
use crate::file::TensorInfo;
use crate::ggml_type::GgmlType;
use crate::parse::tensor_bytes;
use crate::value::{Array, Value};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// Collects metadata and tensors, then writes a file. Tensors are laid out in the order in which they were added; their data
/// is asked for when it is written, so that a large model never lies in memory as a whole.
///
/// The alignment is 32 bytes, or what a metadata entry `general.alignment` says.
#[derive(Debug, Default)]
pub struct Writer {
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<u64>, GgmlType)>,
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output could not be written, or a tensor's data not be had.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The dimensions of a tensor are none, too many, zero, too large, or no whole blocks.
    #[error("tensor `{tensor}`: {ggml_type} can't have dimensions {dims:?}")]
    Dims {
        /// The tensor.
        tensor: String,
        /// Its type.
        ggml_type: GgmlType,
        /// Its dimensions, fastest first.
        dims: Vec<u64>,
    },
    /// The data of a tensor has another size than its dimensions say.
    #[error("tensor `{tensor}` should have {expected} bytes, got {found}")]
    DataLength {
        /// The tensor.
        tensor: String,
        /// Bytes by type and dimensions.
        expected: u64,
        /// Bytes that were given.
        found: u64,
    },
    /// A key or a tensor name was added twice.
    #[error("`{name}` was added twice")]
    Duplicate {
        /// The key or name.
        name: String,
    },
    /// `general.alignment` is not a power of two.
    #[error("`general.alignment` should be a power of two, found {found}")]
    Alignment {
        /// What it is.
        found: String,
    },
}

impl Writer {
    /// A writer without metadata or tensors.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Adds a metadata entry.
    pub fn metadata(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Adds a tensor: dimensions in elements, fastest first.
    pub fn tensor(&mut self, name: &str, dims: &[u64], ggml_type: GgmlType) -> &mut Self {
        self.tensors.push((name.into(), dims.into(), ggml_type));
        self
    }

    /// Writes the file. `data` is asked for each tensor's bytes, in order.
    pub fn write<'d>(
        &self,
        out: &mut dyn Write,
        mut data: impl FnMut(&TensorInfo) -> io::Result<Cow<'d, [u8]>>,
    ) -> Result<(), WriteError> {
        let alignment = self.alignment()?;
        let (header, tensors) = self.header(alignment)?;
        out.write_all(&header)?;
        for tensor in &tensors {
            let bytes = data(tensor)?;
            let found = bytes.len() as u64;
            if found != tensor.bytes {
                return Err(WriteError::DataLength {
                    tensor: shown(&tensor.name),
                    expected: tensor.bytes,
                    found,
                });
            }
            out.write_all(&bytes)?;
            pad(out, found, alignment)?;
        }
        Ok(out.flush()?)
    }

    /// As [`Writer::write`], to a file.
    pub fn save<'d>(
        &self,
        path: &Path,
        data: impl FnMut(&TensorInfo) -> io::Result<Cow<'d, [u8]>>,
    ) -> Result<(), WriteError> {
        self.write(&mut io::BufWriter::new(std::fs::File::create(path)?), data)
    }

    /// As [`Writer::write`], to memory.
    pub fn to_bytes<'d>(
        &self,
        data: impl FnMut(&TensorInfo) -> io::Result<Cow<'d, [u8]>>,
    ) -> Result<Vec<u8>, WriteError> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, data)?;
        Ok(bytes)
    }

    fn alignment(&self) -> Result<u64, WriteError> {
        let Some((_, value)) = self.metadata.iter().find(|(key, _)| key == "general.alignment") else {
            return Ok(32);
        };
        let found = value.integer().and_then(|v| u32::try_from(v).ok()).filter(|v| v.is_power_of_two());
        found.map(u64::from).ok_or_else(|| WriteError::Alignment { found: value.describe() })
    }

    /// Everything before the data, padded, and the tensors with their final offsets.
    fn header(&self, alignment: u64) -> Result<(Vec<u8>, Vec<TensorInfo>), WriteError> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        put_u64(&mut out, self.tensors.len() as u64);
        put_u64(&mut out, self.metadata.len() as u64);
        unique(self.metadata.iter().map(|(key, _)| key))?;
        unique(self.tensors.iter().map(|(name, ..)| name))?;
        for (key, value) in &self.metadata {
            put_string(&mut out, key);
            put_u32(&mut out, value.type_id());
            put_value(&mut out, value);
        }
        let mut tensors = Vec::new();
        let mut offset = 0u64;
        for (name, dims, ggml_type) in &self.tensors {
            let wrong =
                || WriteError::Dims { tensor: shown(name), ggml_type: *ggml_type, dims: dims.clone() };
            let sane = (1..=4).contains(&dims.len()) && !dims.contains(&0);
            let whole = sane && dims[0].is_multiple_of(ggml_type.block_elems());
            let bytes = whole.then(|| tensor_bytes(dims, *ggml_type)).flatten().ok_or_else(wrong)?;
            put_string(&mut out, name);
            put_u32(&mut out, dims.len() as u32);
            dims.iter().for_each(|&d| put_u64(&mut out, d));
            put_u32(&mut out, ggml_type.id());
            put_u64(&mut out, offset);
            let (name, dims, ggml_type) = (name.clone(), dims.clone(), *ggml_type);
            tensors.push(TensorInfo { name, dims, ggml_type, offset, bytes, part: 0 });
            offset = bytes
                .checked_next_multiple_of(alignment)
                .and_then(|b| b.checked_add(offset))
                .ok_or_else(wrong)?;
        }
        let end = out.len() as u64;
        pad(&mut out, end, alignment)?;
        let data = out.len() as u64;
        tensors.iter_mut().for_each(|t| t.offset += data);
        Ok((out, tensors))
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), WriteError> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(WriteError::Duplicate { name: shown(name) });
        }
    }
    Ok(())
}

fn pad(out: &mut dyn Write, written: u64, alignment: u64) -> io::Result<()> {
    let missing = written.next_multiple_of(alignment) - written;
    io::copy(&mut io::Read::take(io::repeat(0), missing), out).map(|_| ())
}

fn put_u32(out: &mut Vec<u8>, v: u32) {
    out.extend(v.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, v: u64) {
    out.extend(v.to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, v: &str) {
    put_u64(out, v.len() as u64);
    out.extend(v.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.push(*v),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push((*v).into()),
        Value::String(v) => put_string(out, v),
        Value::Array(v) => put_array(out, v),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    put_u32(out, array.element_type_id());
    put_u64(out, array.len() as u64);
    match array {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&v| u8::from(v))),
        Array::String(v) => v.iter().for_each(|s| put_string(out, s)),
        Array::Nested(v) => v.iter().for_each(|a| put_array(out, a)),
        Array::U64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
    }
}
