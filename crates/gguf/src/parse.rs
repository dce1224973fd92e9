//! From the bytes of one file to its metadata and table of tensors.

use crate::cursor::Cursor;
use crate::error::{Error, Problem, shown};
use crate::file::TensorInfo;
use crate::ggml_type::GgmlType;
use crate::metadata::Metadata;
use crate::value::{ARRAY_TYPE, Array, Strings, Value};

/// Arrays in arrays deeper than this are refused; no known file nests at all.
const MAX_NESTING: u32 = 4;

/// Smallest entries: a string has its length; a key-value pair also one byte of key, a type and one byte of value; a
/// tensor a name, one dimension, type and offset; an array its type and length.
const MIN_STRING: u64 = 8;
const MIN_PAIR: u64 = 8 + 1 + 4 + 1;
const MIN_TENSOR: u64 = 8 + 4 + 8 + 4 + 8;
const MIN_ARRAY: u64 = 4 + 8;

/// What one file says.
pub(crate) struct Parsed {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Row>,
}

/// A row of the table of tensors, and where in the file it is said.
pub(crate) struct Row {
    /// The tensor. Its offset counts from the start of the data until [`place`] makes it count from the start of the file.
    pub(crate) info: TensorInfo,
    /// Offset of the tensor's name.
    pub(crate) name_at: u64,
    /// Offset of the tensor's `offset` field.
    offset_at: u64,
}

/// Parses one file; `part` is its number in a split model.
pub(crate) fn parse(bytes: &[u8], file: &str, part: usize) -> Result<Parsed, Error> {
    let mut cursor = Cursor::new(bytes, file);
    let version = header(&mut cursor)?;
    let tensor_count = cursor.count("tensors", MIN_TENSOR)?;
    let pair_count = cursor.count("metadata entries", MIN_PAIR)?;
    let metadata = metadata(&mut cursor, file, pair_count)?;
    let alignment = alignment(&cursor, &metadata)?;
    let mut tensors =
        (0..tensor_count).map(|_| tensor(&mut cursor, part)).collect::<Result<Vec<Row>, Error>>()?;
    place(&cursor, &mut tensors, alignment, bytes.len() as u64)?;
    Ok(Parsed { version, alignment, metadata, tensors })
}

/// Magic and version.
fn header(cursor: &mut Cursor) -> Result<u32, Error> {
    let magic: [u8; 4] = cursor.array("the magic bytes `GGUF`")?;
    if &magic != b"GGUF" {
        return Err(cursor.error(0, Problem::NotGguf { found: magic.escape_ascii().to_string() }));
    }
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => Ok(version),
        v if (1..=3).contains(&v.swap_bytes()) => Err(cursor.error(4, Problem::BigEndian)),
        found => Err(cursor.error(4, Problem::Version { found })),
    }
}

fn metadata(cursor: &mut Cursor, file: &str, count: usize) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new(file);
    for _ in 0..count {
        let at = cursor.offset();
        let key = cursor.string("a metadata key")?;
        if !(1..=65535).contains(&key.len()) {
            return Err(cursor.error(at, Problem::KeyLength { found: key.len() as u64 }));
        }
        let type_at = cursor.offset();
        let type_id = cursor.u32("a metadata value type")?;
        let bad_type =
            |cursor: &Cursor, found| cursor.error(type_at, Problem::ValueType { key: shown(key), found });
        let value = value(cursor, type_id)?.ok_or_else(|| bad_type(cursor, type_id))?;
        if !metadata.insert(key.into(), at, value) {
            return Err(cursor.error(at, Problem::DuplicateKey { key: shown(key) }));
        }
    }
    Ok(metadata)
}

/// A value of the type with this number; `None` where there is no such type.
fn value(cursor: &mut Cursor, type_id: u32) -> Result<Option<Value>, Error> {
    let what = "a metadata value";
    Ok(Some(match type_id {
        0 => Value::U8(u8::from_le_bytes(cursor.array(what)?)),
        1 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
        2 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
        3 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
        4 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
        5 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
        6 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
        7 => {
            let at = cursor.offset();
            let [byte] = cursor.array(what)?;
            Value::Bool(to_bool(cursor, at, byte)?)
        }
        8 => Value::String(cursor.string("a metadata string")?.into()),
        ARRAY_TYPE => Value::Array(array(cursor, 1)?),
        10 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
        11 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
        12 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
        _ => return Ok(None),
    }))
}

fn to_bool(cursor: &Cursor, at: u64, byte: u8) -> Result<bool, Error> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(cursor.error(at, Problem::Bool { found })),
    }
}

/// Element type, count and elements; `depth` counts the arrays around, itself included.
fn array(cursor: &mut Cursor, depth: u32) -> Result<Array, Error> {
    let at = cursor.offset();
    let type_id = cursor.u32("an array's element type")?;
    Ok(match type_id {
        0 => Array::U8(numbers(cursor, u8::from_le_bytes)?),
        1 => Array::I8(numbers(cursor, i8::from_le_bytes)?),
        2 => Array::U16(numbers(cursor, u16::from_le_bytes)?),
        3 => Array::I16(numbers(cursor, i16::from_le_bytes)?),
        4 => Array::U32(numbers(cursor, u32::from_le_bytes)?),
        5 => Array::I32(numbers(cursor, i32::from_le_bytes)?),
        6 => Array::F32(numbers(cursor, f32::from_le_bytes)?),
        7 => {
            let bytes = numbers(cursor, u8::from_le_bytes)?;
            let start = cursor.offset() - bytes.len() as u64;
            let bools = bytes.iter().enumerate().map(|(i, &byte)| to_bool(cursor, start + i as u64, byte));
            Array::Bool(bools.collect::<Result<_, _>>()?)
        }
        8 => {
            let count = cursor.count("array elements", MIN_STRING)?;
            let mut strings = Strings::default();
            for _ in 0..count {
                strings.push(cursor.string("a string of an array")?);
            }
            Array::String(strings)
        }
        ARRAY_TYPE if depth == MAX_NESTING => {
            return Err(cursor.error(at, Problem::Nesting { limit: MAX_NESTING }));
        }
        ARRAY_TYPE => {
            let count = cursor.count("array elements", MIN_ARRAY)?;
            let mut arrays = Vec::new();
            for _ in 0..count {
                arrays.push(array(cursor, depth + 1)?);
            }
            Array::Nested(arrays)
        }
        10 => Array::U64(numbers(cursor, u64::from_le_bytes)?),
        11 => Array::I64(numbers(cursor, i64::from_le_bytes)?),
        12 => Array::F64(numbers(cursor, f64::from_le_bytes)?),
        found => return Err(cursor.error(at, Problem::ValueType { key: "an array".into(), found })),
    })
}

/// Count and elements of `N` bytes each.
fn numbers<T, const N: usize>(cursor: &mut Cursor, from: fn([u8; N]) -> T) -> Result<Vec<T>, Error> {
    let count = cursor.count("array elements", N as u64)?;
    // The count was compared with the bytes that are left, so the product fits.
    let bytes = cursor.take((count * N) as u64, "an array")?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&b| from(b)).collect())
}

fn alignment(cursor: &Cursor, metadata: &Metadata) -> Result<u64, Error> {
    const KEY: &str = "general.alignment";
    let Some(value) = metadata.get(KEY) else { return Ok(32) };
    match value.integer().and_then(|v| u32::try_from(v).ok()) {
        Some(alignment) if alignment.is_power_of_two() => Ok(alignment.into()),
        _ => {
            let at = metadata.offset(KEY).unwrap_or_default();
            Err(cursor.error(at, Problem::Alignment { found: value.describe() }))
        }
    }
}

/// One row of the table of tensors. The offset is still the table's.
fn tensor(cursor: &mut Cursor, part: usize) -> Result<Row, Error> {
    let name_at = cursor.offset();
    let name = cursor.string("a tensor name")?;
    let shown = || shown(name);

    let at = cursor.offset();
    let n_dims = cursor.u32("a number of dimensions")?;
    if !(1..=4).contains(&n_dims) {
        return Err(cursor.error(at, Problem::Dims { tensor: shown(), found: n_dims }));
    }
    let dims_at = cursor.offset();
    let dims = (0..n_dims).map(|_| cursor.u64("a dimension")).collect::<Result<Vec<u64>, Error>>()?;
    if dims.contains(&0) {
        return Err(cursor.error(dims_at, Problem::ZeroDim { tensor: shown(), dims }));
    }

    let at = cursor.offset();
    let id = cursor.u32("a tensor type")?;
    let unknown = || cursor.error(at, Problem::UnknownType { tensor: shown(), found: id });
    let ggml_type = GgmlType::from_id(id).ok_or_else(unknown)?;
    let (row, block) = (dims[0], ggml_type.block_elems());
    if !row.is_multiple_of(block) {
        let problem = Problem::RowLength { tensor: shown(), ggml_type: ggml_type.name(), block, row };
        return Err(cursor.error(dims_at, problem));
    }
    let Some(bytes) = tensor_bytes(&dims, ggml_type) else {
        return Err(cursor.error(dims_at, Problem::TooLarge { tensor: shown(), dims }));
    };

    let offset_at = cursor.offset();
    let offset = cursor.u64("a tensor offset")?;
    Ok(Row {
        info: TensorInfo { name: name.into(), dims, ggml_type, offset, bytes, part },
        name_at,
        offset_at,
    })
}

/// Bytes of a tensor with whole blocks in a row; `None` where bytes or elements do not fit 64 bits.
pub(crate) fn tensor_bytes(dims: &[u64], ggml_type: GgmlType) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &d| product.checked_mul(d))?;
    let row = (dims[0] / ggml_type.block_elems()).checked_mul(ggml_type.block_bytes())?;
    dims[1..].iter().try_fold(row, |product, &d| product.checked_mul(d))
}

/// Makes offsets count from the start of the file and checks that every tensor lies within it, aligned and alone.
fn place(cursor: &Cursor, rows: &mut [Row], alignment: u64, file_bytes: u64) -> Result<(), Error> {
    let data = u128::from(cursor.offset()).next_multiple_of(alignment.into());
    for Row { info, offset_at, .. } in rows.iter_mut() {
        let (tensor, bytes, found) = (|| shown(&info.name), info.bytes, info.offset);
        if !found.is_multiple_of(alignment) {
            return Err(cursor.error(*offset_at, Problem::Misaligned { tensor: tensor(), alignment, found }));
        }
        let start = data + u128::from(found);
        if start + u128::from(bytes) > u128::from(file_bytes) {
            let problem = Problem::Outside { tensor: tensor(), start, bytes, file_bytes };
            return Err(cursor.error(*offset_at, problem));
        }
        info.offset = start as u64;
    }

    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| row.info.offset);
    for (before, row) in order.iter().zip(order.iter().skip(1)) {
        if row.info.offset < before.info.offset + before.info.bytes {
            let problem = Problem::Overlap { tensor: shown(&row.info.name), other: shown(&before.info.name) };
            return Err(cursor.error(row.offset_at, problem));
        }
    }
    Ok(())
}
