//! JSON as Python writes it: `json.dumps(value, ensure_ascii=False)`, which is what models saw in training.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Parameters of `json.dumps`.
pub(super) struct Style {
    /// Spaces per level; one line without.
    pub(super) indent: Option<usize>,
    /// Between items, and between key and value.
    pub(super) separators: Option<[String; 2]>,
    pub(super) sort_keys: bool,
}

/// Nesting beyond this is refused, so that it cannot exhaust the stack.
const MAX_DEPTH: usize = 128;

pub(super) fn write(value: &Value, style: &Style) -> Result<String, Error> {
    let (comma, colon) = match &style.separators {
        Some([comma, colon]) => (comma.as_str(), colon.as_str()),
        None if style.indent.is_some() => (",", ": "),
        None => (", ", ": "),
    };
    let mut writer = Writer { out: String::new(), style, comma, colon };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: String,
    style: &'a Style,
    comma: &'a str,
    colon: &'a str,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(refuse("nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => {
                let number = python_float(f64::try_from(value.clone())?);
                self.out.push_str(&number.replace("inf", "Infinity").replace("nan", "NaN"));
            }
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.list(['[', ']'], &items, depth, |w, item| w.value(item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    items.push((key.to_string(), item));
                }
                if self.style.sort_keys {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.list(['{', '}'], &items, depth, |w, (key, item)| {
                    w.string(key);
                    w.out.push_str(w.colon);
                    w.value(item, depth + 1)
                })?;
            }
            ValueKind::Undefined => return Err(refuse("undefined")),
            kind => return Err(refuse(&kind.to_string())),
        }
        Ok(())
    }

    fn list<T>(
        &mut self,
        [open, close]: [char; 2],
        items: &[T],
        depth: usize,
        mut each: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(self.comma);
            }
            self.line(depth + 1);
            each(self, item)?;
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.style.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent.min(16) * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' => self.out.push_str(&format!("\\u{:04x}", c as u32)),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

fn refuse(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {what} cannot be written as JSON"))
}

/// A float as Python's `repr` has it: shortest, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn python_float(v: f64) -> String {
    if !v.is_finite() {
        return if v.is_nan() {
            "nan".into()
        } else if v > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{v:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if v != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{v:?}")
}

/// A value of the API as a value of the template engine.
pub(super) fn to_jinja(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(b) => Value::from(*b),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Value::from(n),
            (_, Some(n)) => Value::from(n),
            _ => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(s) => Value::from(s.as_str()),
        serde_json::Value::Array(items) => items.iter().map(to_jinja).collect(),
        serde_json::Value::Object(map) => {
            Value::from_pairs(map.iter().map(|(k, v)| (k.clone(), to_jinja(v))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (123456.789, "123456.789"),
        ];
        for (v, want) in cases {
            assert_eq!(python_float(v), want);
        }
    }
}
