//! A JSON schema as the alternatives that a value has, for forms of calls that are not JSON.

use serde_json::{Map, Value, json};

/// A schema, and where its references lead.
#[derive(Clone, Copy)]
pub struct Schema<'a> {
    pub value: &'a Value,
    pub root: &'a Value,
}

/// A kind of value that a schema allows.
pub enum Case<'a> {
    /// Text of so many characters.
    Text {
        least: u64,
        most: Option<u64>,
    },
    /// This value.
    Exactly(&'a Value),
    /// A number, a truth value or null, by this schema.
    Plain(Value),
    Object(Schema<'a>),
    Array(Schema<'a>),
    Any,
}

impl Case<'_> {
    /// Whether it is text.
    pub fn is_text(&self) -> bool {
        matches!(self, Case::Text { .. } | Case::Exactly(Value::String(_)))
    }
}

/// References that lead to references at most.
const HOPS: usize = 32;

impl<'a> Schema<'a> {
    /// That of a tool's parameters.
    pub fn new(value: &'a Value) -> Schema<'a> {
        Schema { value, root: value }
    }

    fn at(&self, value: &'a Value) -> Schema<'a> {
        Schema { value, root: self.root }
    }

    /// The properties of an object, in the schema's order.
    pub fn properties(&self) -> impl Iterator<Item = (&'a str, Schema<'a>)> {
        let schema = self.resolved().unwrap_or(*self);
        let all = schema.value.get("properties").and_then(Value::as_object);
        all.into_iter().flatten().map(move |(key, value)| (key.as_str(), schema.at(value)))
    }

    /// Whether an object must have a property.
    pub fn requires(&self, key: &str) -> bool {
        let schema = self.resolved().unwrap_or(*self);
        schema.value["required"].as_array().is_some_and(|list| list.iter().any(|k| k == key))
    }

    /// What an array holds.
    pub fn items(&self) -> Schema<'a> {
        self.at(self.value.get("items").unwrap_or(&Value::Null))
    }

    /// The schema that references lead to.
    fn resolved(&self) -> Result<Schema<'a>, String> {
        let mut schema = *self;
        for _ in 0..HOPS {
            let Some(reference) = schema.value["$ref"].as_str() else { return Ok(schema) };
            let place = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            schema = self.at(place.ok_or_else(|| format!("`{reference}` leads nowhere"))?);
        }
        Err("references lead to each other".into())
    }

    /// The kinds of value that the schema allows.
    ///
    /// # Errors
    /// What cannot be enforced.
    pub fn cases(&self) -> Result<Vec<Case<'a>>, String> {
        self.cases_within(HOPS)
    }

    fn cases_within(&self, depth: usize) -> Result<Vec<Case<'a>>, String> {
        let depth = depth.checked_sub(1).ok_or("alternatives are nested too deep")?;
        let schema = self.resolved()?;
        let map = match schema.value {
            Value::Null | Value::Bool(true) => return Ok(vec![Case::Any]),
            Value::Object(map) => map,
            _ => return Err("a schema that nothing satisfies".into()),
        };
        if let Some(value) = map.get("const") {
            return Ok(vec![Case::Exactly(value)]);
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return Ok(values.iter().map(Case::Exactly).collect());
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            let Some(list) = map.get(key).and_then(Value::as_array) else { continue };
            if key == "allOf" && list.len() > 1 {
                return Err("`allOf` cannot be enforced in the form of this model's calls".into());
            }
            let all: Result<Vec<_>, _> = list.iter().map(|s| schema.at(s).cases_within(depth)).collect();
            return Ok(all?.into_iter().flatten().collect());
        }
        match map.get("type") {
            Some(Value::String(kind)) => Ok(vec![schema.of_type(map, kind)?]),
            Some(Value::Array(kinds)) => {
                kinds.iter().map(|kind| schema.of_type(map, kind.as_str().unwrap_or_default())).collect()
            }
            _ if map.contains_key("properties") => Ok(vec![Case::Object(schema)]),
            _ if map.contains_key("items") => Ok(vec![Case::Array(schema)]),
            _ => Ok(vec![Case::Any]),
        }
    }

    fn of_type(self, map: &Map<String, Value>, kind: &str) -> Result<Case<'a>, String> {
        let refuse = |keys: &[&str]| match keys.iter().find(|key| map.contains_key(**key)) {
            Some(key) => Err(format!("`{key}` cannot be enforced in the form of this model's calls")),
            None => Ok(()),
        };
        Ok(match kind {
            "string" => {
                refuse(&["pattern", "format"])?;
                let least = map.get("minLength").and_then(Value::as_u64).unwrap_or(0);
                Case::Text { least, most: map.get("maxLength").and_then(Value::as_u64) }
            }
            "object" => Case::Object(self),
            "array" => {
                refuse(&["prefixItems", "uniqueItems", "contains"])?;
                Case::Array(self)
            }
            "number" | "integer" | "boolean" | "null" => {
                let mut plain = json!({"type": kind});
                for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"] {
                    if let Some(bound) = map.get(key).filter(|_| matches!(kind, "number" | "integer")) {
                        plain[key] = bound.clone();
                    }
                }
                Case::Plain(plain)
            }
            other => return Err(format!("the type `{other}` is unknown")),
        })
    }
}
