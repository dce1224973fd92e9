//! Arguments in the forms that are not JSON: Qwen's tags and Gemma's.

use super::rules::{Rules, literal};
use super::schema::{Case, Schema};
use serde_json::{Value, json};

const TAG_END: &str = "\n</parameter>\n";

/// Qwen's parameters in tags: text as it is, everything else as JSON.
pub fn tags(rules: &mut Rules<'_>, schema: &Schema<'_>) -> Result<String, String> {
    let mut all = Vec::new();
    for (key, value) in schema.properties() {
        let head = literal(&format!("<parameter={key}>\n"));
        let value = tag_value(rules, &value).map_err(|e| format!("`{key}`: {e}"))?;
        let parameter = rules.add(&format!("{head} {value}"));
        all.push(if schema.requires(key) { parameter } else { format!("{parameter}?") });
    }
    if all.is_empty() && schema.value.get("additionalProperties") != Some(&Value::Bool(false)) {
        // Nothing is said of the parameters.
        let key = rules.text_until("/[^<>\\n]+/", ">\n");
        let value = rules.text_until("/(?s:.*)/", TAG_END);
        let one = rules.add(&format!("\"<parameter=\" {key} {value}"));
        all.push(format!("{one}*"));
    }
    Ok(all.join(" "))
}

/// A value and the tag that ends it.
fn tag_value(rules: &mut Rules<'_>, schema: &Schema<'_>) -> Result<String, String> {
    let cases = schema.cases()?;
    let only_text = cases.iter().all(Case::is_text);
    let mut alternatives = Vec::new();
    for case in cases {
        alternatives.push(match case {
            Case::Text { least, most } => {
                let any = characters(least, most);
                // Beside other kinds what looks like one of these would be taken for it.
                let but =
                    " & ~/\\s*(-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null|[{\\[](?s:.*))\\s*/";
                rules.text_until(&format!("/{any}/{}", if only_text { "" } else { but }), TAG_END)
            }
            Case::Exactly(Value::String(text)) => literal(&format!("{text}{TAG_END}")),
            Case::Exactly(value) => literal(&format!("{value}{TAG_END}")),
            Case::Plain(plain) => format!("{} {}", rules.json(&plain, &plain), literal(TAG_END)),
            Case::Object(s) | Case::Array(s) => {
                format!("{} {}", rules.json(s.value, s.root), literal(TAG_END))
            }
            Case::Any => rules.text_until("/(?s:.*)/", TAG_END),
        });
    }
    Ok(rules.add(&alternatives.join(" | ")))
}

/// A regular expression of so many characters.
fn characters(least: u64, most: Option<u64>) -> String {
    match most {
        Some(most) => format!("(?s:.{{{least},{most}}})"),
        None if least == 0 => "(?s:.*)".into(),
        None => format!("(?s:.{{{least},}})"),
    }
}

/// Gemma's values: bare keys, text between quotes of its own.
pub struct Gemma<'r, 'a> {
    rules: &'r mut Rules<'a>,
    quote: &'static str,
}

impl<'r, 'a> Gemma<'r, 'a> {
    pub fn new(rules: &'r mut Rules<'a>, quote: &'static str) -> Gemma<'r, 'a> {
        Gemma { rules, quote }
    }

    /// An object: its properties in the schema's order.
    pub fn object(&mut self, schema: &Schema<'_>) -> Result<String, String> {
        let (rule, known) = self.rules.known(format!("object {}", schema.value));
        if known {
            return Ok(rule);
        }
        let mut fields = Vec::new();
        for (key, value) in schema.properties() {
            let value = self.value(&value).map_err(|e| format!("`{key}`: {e}"))?;
            let field = format!("{} {value}", self.key(key));
            fields.push((self.rules.add(&field), schema.requires(key)));
        }
        if fields.is_empty() && schema.value.get("additionalProperties") != Some(&Value::Bool(false)) {
            let any = self.any_object();
            self.rules.define(&rule, &any);
            return Ok(rule);
        }
        // From the last field to the first: what follows where a field came before, and where none did.
        let (mut after, mut first) = (String::new(), String::new());
        for (field, required) in fields.iter().rev() {
            let with = format!("{field} {after}");
            let (next_first, next_after) = match required {
                true => (with.clone(), format!("\",\" {with}")),
                false => {
                    let alone = if first.is_empty() { "\"\"" } else { &first };
                    (format!("{with} | {alone}"), format!("(\",\" {field})? {after}"))
                }
            };
            (first, after) = (self.rules.add(&next_first), self.rules.add(&next_after));
        }
        self.rules.define(&rule, &format!("\"{{\" {first} \"}}\""));
        Ok(rule)
    }

    fn value(&mut self, schema: &Schema<'_>) -> Result<String, String> {
        let mut alternatives = Vec::new();
        for case in schema.cases()? {
            alternatives.push(match case {
                Case::Text { least, most } => self.text(least, most),
                Case::Exactly(value) => self.exactly(value),
                Case::Plain(plain) => self.rules.json(&plain, &plain),
                Case::Object(schema) => self.object(&schema)?,
                Case::Array(schema) => self.array(&schema)?,
                Case::Any => self.any(),
            });
        }
        Ok(self.rules.add(&alternatives.join(" | ")))
    }

    fn array(&mut self, schema: &Schema<'_>) -> Result<String, String> {
        let (rule, known) = self.rules.known(format!("array {}", schema.value));
        if known {
            return Ok(rule);
        }
        let item = self.value(&schema.items())?;
        let bound = |key: &str| schema.value.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let more = match bound("maxItems") {
            Some(most) => format!("{{{},{}}}", least.saturating_sub(1), most.saturating_sub(1)),
            None => format!("{{{},}}", least.saturating_sub(1)),
        };
        let items = match bound("maxItems") {
            Some(0) => "\"\"".to_owned(),
            _ => format!("({item} (\",\" {item}){more}){}", if least == 0 { "?" } else { "" }),
        };
        self.rules.define(&rule, &format!("\"[\" {items} \"]\""));
        Ok(rule)
    }

    /// Text between quotes, which it does not have inside.
    fn text(&mut self, least: u64, most: Option<u64>) -> String {
        if self.rules.control(self.quote).is_none() {
            let rest = self.rules.text_until(&format!("/{}/", characters(least, most)), self.quote);
            return format!("{} {rest}", literal(self.quote));
        }
        let quote = self.rules.mark(self.quote);
        if most == Some(0) {
            return format!("{quote} {quote}");
        }
        let some = characters(least.max(1), most);
        let text = self.rules.terminal(&format!("/{some}/ & ~/(?s:.*)<\\|\"\\|>(?s:.*)/"));
        format!("{quote} {text}{} {quote}", if least == 0 { "?" } else { "" })
    }

    fn quoted(&self, text: &str) -> String {
        let quote = self.rules.mark(self.quote);
        if text.is_empty() {
            format!("{quote} {quote}")
        } else {
            format!("{quote} {} {quote}", literal(text))
        }
    }

    fn key(&self, key: &str) -> String {
        let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        if plain { literal(&format!("{key}:")) } else { format!("{} \":\"", self.quoted(key)) }
    }

    fn exactly(&self, value: &Value) -> String {
        match value {
            Value::String(text) => self.quoted(text),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|v| self.exactly(v)).collect();
                format!("\"[\" {} \"]\"", items.join(" \",\" "))
            }
            Value::Object(map) => {
                let field = |(k, v): (&String, &Value)| format!("{} {}", self.key(k), self.exactly(v));
                let fields: Vec<String> = map.iter().map(field).collect();
                format!("\"{{\" {} \"}}\"", fields.join(" \",\" "))
            }
            plain => literal(&plain.to_string()),
        }
    }

    fn any(&mut self) -> String {
        let (rule, known) = self.rules.known("any".into());
        if !known {
            let plain = self.rules.json(&json!({"type": ["number", "boolean", "null"]}), &Value::Null);
            let (text, object) = (self.text(0, None), self.any_object());
            let array = format!("\"[\" ({rule} (\",\" {rule})*)? \"]\"");
            self.rules.define(&rule, &format!("{plain} | {text} | {object} | {array}"));
        }
        rule
    }

    fn any_object(&mut self) -> String {
        let (rule, known) = self.rules.known("any object".into());
        if !known {
            let any = self.any();
            let field = self.rules.add(&format!("/[A-Za-z_][A-Za-z0-9_]*/ \":\" {any}"));
            self.rules.define(&rule, &format!("\"{{\" ({field} (\",\" {field})*)? \"}}\""));
        }
        rule
    }
}
