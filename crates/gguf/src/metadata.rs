//! The metadata of a file: keys in file order, and typed access that says what is wrong with a key.

use crate::error::{Error, shown};
use crate::value::{Array, Strings, Value};
use std::collections::HashMap;

/// Key-value metadata, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    file: String,
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    offset: u64,
    value: Value,
}

/// A Rust type that a metadata value may be read as. Integers of any width convert where they fit.
pub trait FromValue<'a>: Sized {
    /// How messages call the type.
    const EXPECTED: &'static str;
    /// The value, where it is of this type and fits.
    fn from_value(value: &'a Value) -> Option<Self>;
}

impl Metadata {
    pub(crate) fn new(file: &str) -> Self {
        Metadata { file: file.into(), ..Metadata::default() }
    }

    /// Adds an entry; false where the key is there already.
    pub(crate) fn insert(&mut self, key: String, offset: u64, value: Value) -> bool {
        if self.index.contains_key(&key) {
            return false;
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push(Entry { key, offset, value });
        true
    }

    pub(crate) fn offset(&self, key: &str) -> Option<u64> {
        self.index.get(key).map(|&i| self.entries[i].offset)
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|e| (e.key.as_str(), &e.value))
    }

    /// The value of a key, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&i| &self.entries[i].value)
    }

    /// The value of a key that may be absent. [`Error::WrongType`] where it is there with another type.
    pub fn optional<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, Error> {
        let Some(entry) = self.index.get(key).map(|&i| &self.entries[i]) else { return Ok(None) };
        let wrong = || Error::WrongType {
            file: self.file.clone(),
            offset: entry.offset,
            key: shown(key),
            expected: T::EXPECTED,
            found: entry.value.describe(),
        };
        T::from_value(&entry.value).map(Some).ok_or_else(wrong)
    }

    /// The value of a key. [`Error::MissingKey`] where it is absent, [`Error::WrongType`] where it has another type.
    pub fn required<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, Error> {
        let missing = || Error::MissingKey { file: self.file.clone(), key: shown(key) };
        self.optional(key)?.ok_or_else(missing)
    }

    /// A string; errors as [`Metadata::required`].
    pub fn str(&self, key: &str) -> Result<&str, Error> {
        self.required(key)
    }

    /// An unsigned integer; errors as [`Metadata::required`].
    pub fn u32(&self, key: &str) -> Result<u32, Error> {
        self.required(key)
    }

    /// An unsigned integer; errors as [`Metadata::required`].
    pub fn u64(&self, key: &str) -> Result<u64, Error> {
        self.required(key)
    }

    /// A float; errors as [`Metadata::required`].
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.required(key)
    }

    /// A bool; errors as [`Metadata::required`].
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.required(key)
    }

    /// An array of strings; errors as [`Metadata::required`].
    pub fn strings(&self, key: &str) -> Result<&Strings, Error> {
        self.required(key)
    }
}

macro_rules! integers {
    ($($t:ty, $one:literal, $many:literal);*) => {$(
        impl FromValue<'_> for $t {
            const EXPECTED: &'static str = $one;
            fn from_value(value: &Value) -> Option<Self> {
                value.integer()?.try_into().ok()
            }
        }
        impl FromValue<'_> for Vec<$t> {
            const EXPECTED: &'static str = $many;
            fn from_value(value: &Value) -> Option<Self> {
                let Value::Array(array) = value else { return None };
                array.integers()?.into_iter().map(|v| v.try_into().ok()).collect()
            }
        }
    )*};
}

integers!(
    u32, "an unsigned 32-bit integer", "an array of unsigned 32-bit integers";
    u64, "an unsigned 64-bit integer", "an array of unsigned 64-bit integers";
    i32, "a signed 32-bit integer", "an array of signed 32-bit integers";
    i64, "a signed 64-bit integer", "an array of signed 64-bit integers"
);

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string";
    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::String(v) = value { Some(v) } else { None }
    }
}

impl<'a> FromValue<'a> for &'a Strings {
    const EXPECTED: &'static str = "an array of strings";
    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::Array(Array::String(v)) = value { Some(v) } else { None }
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a bool";
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bool(v) = value { Some(*v) } else { None }
    }
}

impl FromValue<'_> for Vec<bool> {
    const EXPECTED: &'static str = "an array of bools";
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Array(Array::Bool(v)) = value { Some(v.clone()) } else { None }
    }
}

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "a float";
    fn from_value(value: &Value) -> Option<Self> {
        match *value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        }
    }
}

impl FromValue<'_> for Vec<f32> {
    const EXPECTED: &'static str = "an array of floats";
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Array(Array::F32(v)) => Some(v.clone()),
            Value::Array(Array::F64(v)) => Some(v.iter().map(|&v| v as f32).collect()),
            _ => None,
        }
    }
}
