//! Metadata values.

use std::fmt;

/// A metadata value of any of GGUF's types.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "named as their types are")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of one of GGUF's types, stored without overhead per element.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "named as their types are")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Strings),
    /// Arrays in an array; each has its own type and length.
    Nested(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// Many strings in one allocation: a vocabulary has hundreds of thousands of short ones.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Strings {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<usize>,
}

impl Strings {
    /// How many strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String number `i`.
    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Some(&self.text[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.text[start..end];
            start = end;
            string
        })
    }

    /// Appends a string.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut strings = Strings::default();
        iter.into_iter().for_each(|s| strings.push(s.as_ref()));
        strings
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Runs an expression on the elements, whatever their type.
macro_rules! on_array {
    ($array:expr, $v:ident => $body:expr) => {
        match $array {
            Array::U8($v) => $body,
            Array::I8($v) => $body,
            Array::U16($v) => $body,
            Array::I16($v) => $body,
            Array::U32($v) => $body,
            Array::I32($v) => $body,
            Array::F32($v) => $body,
            Array::Bool($v) => $body,
            Array::String($v) => $body,
            Array::Nested($v) => $body,
            Array::U64($v) => $body,
            Array::I64($v) => $body,
            Array::F64($v) => $body,
        }
    };
}

impl Array {
    /// How many elements.
    pub fn len(&self) -> usize {
        on_array!(self, v => v.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements' type, as `u32`.
    pub fn element_type(&self) -> &'static str {
        TYPE_NAMES[self.element_type_id() as usize]
    }

    /// GGUF's number of the elements' type.
    pub(crate) fn element_type_id(&self) -> u32 {
        match self {
            Array::U8(_) => 0,
            Array::I8(_) => 1,
            Array::U16(_) => 2,
            Array::I16(_) => 3,
            Array::U32(_) => 4,
            Array::I32(_) => 5,
            Array::F32(_) => 6,
            Array::Bool(_) => 7,
            Array::String(_) => 8,
            Array::Nested(_) => ARRAY_TYPE,
            Array::U64(_) => 10,
            Array::I64(_) => 11,
            Array::F64(_) => 12,
        }
    }

    /// The elements as integers, where they are; `None` for other types.
    pub fn integers(&self) -> Option<Vec<i128>> {
        fn wide<T: Copy + Into<i128>>(v: &[T]) -> Option<Vec<i128>> {
            Some(v.iter().map(|&x| x.into()).collect())
        }
        match self {
            Array::U8(v) => wide(v),
            Array::I8(v) => wide(v),
            Array::U16(v) => wide(v),
            Array::I16(v) => wide(v),
            Array::U32(v) => wide(v),
            Array::I32(v) => wide(v),
            Array::U64(v) => wide(v),
            Array::I64(v) => wide(v),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::String(_) | Array::Nested(_) => None,
        }
    }
}

/// GGUF's number of the array type.
pub(crate) const ARRAY_TYPE: u32 = 9;

/// GGUF's value types by number.
pub(crate) const TYPE_NAMES: [&str; 13] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];

impl Value {
    /// The type's name: `u32`, `string`, `array`.
    pub fn type_name(&self) -> &'static str {
        TYPE_NAMES[self.type_id() as usize]
    }

    /// GGUF's number of the type.
    pub(crate) fn type_id(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::String(_) => 8,
            Value::Array(_) => ARRAY_TYPE,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
        }
    }

    /// The value as an integer, where it is one of any width; `None` for other types.
    pub fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::I8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::I16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::I32(v) => Some(v.into()),
            Value::U64(v) => Some(v.into()),
            Value::I64(v) => Some(v.into()),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// Type and, where it is short, value: for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::F32(v) => format!("f32 {v}"),
            Value::F64(v) => format!("f64 {v}"),
            Value::Bool(v) => format!("bool {v}"),
            Value::String(v) => format!("string `{}`", crate::error::shown(v)),
            Value::Array(v) => format!("an array of {} {}", v.len(), v.element_type()),
            integer => format!("{} {}", integer.type_name(), integer.integer().unwrap_or_default()),
        }
    }
}

macro_rules! conversions {
    ($($variant:ident $scalar:ty),*) => {$(
        impl From<$scalar> for Value {
            fn from(v: $scalar) -> Self {
                Value::$variant(v)
            }
        }
        impl From<Vec<$scalar>> for Value {
            fn from(v: Vec<$scalar>) -> Self {
                Value::Array(Array::$variant(v))
            }
        }
    )*};
}

conversions!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, F32 f32, Bool bool, U64 u64, I64 i64, F64 f64);

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::String(v.into())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Value::String(v)
    }
}

impl From<Strings> for Value {
    fn from(v: Strings) -> Self {
        Value::Array(Array::String(v))
    }
}

impl From<Array> for Value {
    fn from(v: Array) -> Self {
        Value::Array(v)
    }
}
