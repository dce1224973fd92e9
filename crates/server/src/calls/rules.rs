//! Rules of a grammar in llguidance's form of Lark, as they are written.

use crate::constrain::one_line;
use serde_json::{Value, json};
use std::collections::HashMap;
use zinc_text::Tokenizer;

/// Rules so far.
pub struct Rules<'a> {
    tokenizer: &'a Tokenizer,
    text: String,
    count: usize,
    /// Rules by what they stand for, so that a schema that names itself has an end.
    known: HashMap<String, String>,
}

impl<'a> Rules<'a> {
    /// For a model's vocabulary: some marks are control tokens in one model and text in another.
    pub fn new(tokenizer: &'a Tokenizer) -> Rules<'a> {
        Rules { tokenizer, text: String::new(), count: 0, known: HashMap::new() }
    }

    /// The grammar.
    pub fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.text)
    }

    /// A new rule; its name.
    pub fn add(&mut self, body: &str) -> String {
        let name = self.name();
        self.define(&name, body);
        name
    }

    /// A new terminal; its name. Those may exclude texts.
    pub fn terminal(&mut self, body: &str) -> String {
        let name = self.name().to_uppercase();
        self.define(&name, body);
        name
    }

    /// A rule of this name.
    pub fn define(&mut self, name: &str, body: &str) {
        self.text.push_str(&format!("{name}: {body}\n"));
    }

    /// Any text of this many characters, with the text that ends it.
    pub fn text_until(&mut self, body: &str, end: &str) -> String {
        let name = self.name();
        self.define(&format!("{name}[suffix={}]", literal(end)), body);
        name
    }

    /// The name of the rule of `key`, and whether it was asked for before; the first to ask defines it.
    pub fn known(&mut self, key: String) -> (String, bool) {
        if let Some(name) = self.known.get(&key) {
            return (name.clone(), true);
        }
        let name = self.name();
        self.known.insert(key, name.clone());
        (name, false)
    }

    /// JSON by a schema, on one line. `root` is where its references lead.
    pub fn json(&mut self, schema: &Value, root: &Value) -> String {
        let mut schema = match schema {
            Value::Object(map) if !map.is_empty() => schema.clone(),
            _ => json!({"type": "object"}),
        };
        for definitions in ["$defs", "definitions"] {
            if let (Value::Object(map), Some(all)) = (&mut schema, root.get(definitions)) {
                map.entry(definitions).or_insert_with(|| all.clone());
            }
        }
        one_line(&mut schema);
        self.add(&format!("%json {schema}"))
    }

    /// A mark: a control token where the model has it as one, else text.
    pub fn mark(&self, text: &str) -> String {
        match self.control(text) {
            Some(id) => format!("<[{id}]>"),
            None => literal(text),
        }
    }

    /// The control token of this name.
    pub fn control(&self, text: &str) -> Option<u32> {
        self.tokenizer.find_token(text).filter(|&id| self.tokenizer.is_control(id))
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("r{}", self.count)
    }
}

/// A text in a rule: Lark's strings are JSON's.
pub fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
