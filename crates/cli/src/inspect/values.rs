//! Metadata values as text and as JSON. Long arrays and strings are cut unless everything was asked for.

use crate::output::printable;
use serde_json::{Value as Json, json};
use zinc_gguf::{Array, Value};

/// Arrays up to this length are shown whole.
const SHORT_ARRAY: usize = 16;
/// Elements shown of a longer one.
const FIRST: usize = 4;
/// Characters shown of a string in the table.
const LINE: usize = 96;

/// A value in a line of the table.
pub fn text(value: &Value, full: bool) -> String {
    match value {
        Value::Array(array) => array_text(array, full),
        Value::String(s) if full => printable(s),
        Value::String(s) => cut(s),
        Value::Bool(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
        Value::F64(v) => v.to_string(),
        other => other.integer().unwrap_or_default().to_string(),
    }
}

/// A value's type, with the length of an array: `u32`, `string[151936]`.
pub fn type_text(value: &Value) -> String {
    match value {
        Value::Array(a) => format!("{}[{}]", a.element_type(), a.len()),
        other => other.type_name().to_string(),
    }
}

/// A value as JSON. An array that is cut becomes an object with its element type, length and first elements.
pub fn json(value: &Value, full: bool) -> Json {
    match value {
        Value::Array(a) if full || a.len() <= SHORT_ARRAY => json!(elements(a, a.len())),
        Value::Array(a) => {
            json!({ "element_type": a.element_type(), "len": a.len(), "first": elements(a, FIRST) })
        }
        Value::String(s) => json!(s),
        Value::Bool(v) => json!(v),
        Value::F32(v) => float(*v),
        Value::F64(v) => json!(v),
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => {
            json!(value.integer().unwrap_or_default() as i64)
        }
        _ => json!(value.integer().unwrap_or_default() as u64),
    }
}

/// The shortest decimal that is this f32 again: 1e-6 stays `1e-6` and does not become 9.999999974752427e-7.
fn float(v: f32) -> Json {
    json!(v.to_string().parse::<f64>().unwrap_or(f64::from(v)))
}

fn cut(s: &str) -> String {
    let head: String = s.chars().take(LINE).collect();
    let rest = s.len() - head.len();
    let head = printable(&head);
    if rest == 0 { head } else { format!("{head}… ({rest} bytes more)") }
}

fn array_text(array: &Array, full: bool) -> String {
    let shown = if full || array.len() <= SHORT_ARRAY { array.len() } else { FIRST };
    let items: Vec<String> = elements(array, shown).iter().map(Json::to_string).collect();
    let more = if shown < array.len() { ", …" } else { "" };
    let line = printable(&format!("[{}{more}]", items.join(", ")));
    if full || line.chars().count() <= 2 * LINE { line } else { cut(&line) }
}

/// The first `n` elements.
fn elements(array: &Array, n: usize) -> Vec<Json> {
    fn some<T, F: Fn(&T) -> Json>(v: &[T], n: usize, f: F) -> Vec<Json> {
        v.iter().take(n).map(f).collect()
    }
    match array {
        Array::U8(v) => some(v, n, |x| json!(x)),
        Array::I8(v) => some(v, n, |x| json!(x)),
        Array::U16(v) => some(v, n, |x| json!(x)),
        Array::I16(v) => some(v, n, |x| json!(x)),
        Array::U32(v) => some(v, n, |x| json!(x)),
        Array::I32(v) => some(v, n, |x| json!(x)),
        Array::U64(v) => some(v, n, |x| json!(x)),
        Array::I64(v) => some(v, n, |x| json!(x)),
        Array::F32(v) => some(v, n, |&x| float(x)),
        Array::F64(v) => some(v, n, |x| json!(x)),
        Array::Bool(v) => some(v, n, |x| json!(x)),
        Array::String(v) => v.iter().take(n).map(|x| json!(x)).collect(),
        Array::Nested(v) => some(v, n, |a| json!(elements(a, n))),
    }
}
