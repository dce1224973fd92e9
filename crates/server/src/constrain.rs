//! Answers that must follow a grammar or a JSON schema: masks over the vocabulary, by llguidance.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_text::Tokenizer;

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum Grammar {
    /// JSON by a schema.
    Schema(Value),
    /// llguidance's form of Lark.
    Lark(String),
    /// A regular expression.
    Regex(String),
}

impl Grammar {
    /// JSON by a schema, on one line: a model that likes white space would otherwise not come to an end.
    pub fn schema(mut schema: Value) -> Grammar {
        one_line(&mut schema);
        Grammar::Schema(schema)
    }

    /// Any JSON object.
    pub fn json_object() -> Grammar {
        Grammar::schema(json!({"type": "object"}))
    }
}

/// Has llguidance allow a space after a comma and a colon and no other white space, unless the schema says what it wants.
pub fn one_line(schema: &mut Value) {
    if let Value::Object(map) = schema {
        let spaces = json!({"whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?"});
        map.entry("x-guidance").or_insert(spaces);
    }
}

/// Compiles grammars for one vocabulary.
pub struct Grammars {
    factory: ParserFactory,
    end_of_generation: Vec<u32>,
}

impl Grammars {
    /// For a model's tokenizer.
    ///
    /// # Errors
    /// Why the vocabulary cannot be constrained: it has no token that ends an answer.
    pub fn new(tokenizer: &Tokenizer) -> Result<Grammars, String> {
        let size = tokenizer.vocab_size() as u32;
        let ends = tokenizer.end_of_generation().to_vec();
        let end = *ends.first().ok_or("the model has no token that ends an answer")?;
        let word = |id: u32| {
            let bytes = tokenizer.token_bytes(id);
            match tokenizer.is_control(id) {
                true => [&[TokTrie::SPECIAL_TOKEN_MARKER], &bytes[..]].concat(),
                false => bytes.into_owned(),
            }
        };
        let words: Vec<Vec<u8>> = (0..size).map(word).collect();
        let trie = TokTrie::from(&TokRxInfo::new(size, end), &words).with_eos_tokens(&ends);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|e| e.to_string())?;
        factory.quiet();
        Ok(Grammars { factory, end_of_generation: ends })
    }

    /// Compiles a grammar. With `after`, it begins to hold when the answer has got to that text.
    ///
    /// # Errors
    /// What is wrong with the grammar, for the client.
    pub fn compile(&self, grammar: &Grammar, after: Option<&'static str>) -> Result<Constraint, String> {
        let top = match grammar {
            Grammar::Schema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            Grammar::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Grammar::Regex(text) => TopLevelGrammar::from_regex(text),
        };
        let matcher = Matcher::new(self.factory.create_parser(top));
        match matcher.get_error() {
            Some(e) => Err(e.lines().next().unwrap_or("it cannot be compiled").to_owned()),
            None => Ok(Constraint {
                matcher,
                waits_for: after,
                seen: Vec::new(),
                end_of_generation: self.end_of_generation.clone(),
            }),
        }
    }
}

/// A grammar and how far an answer has got in it.
pub struct Constraint {
    matcher: Matcher,
    waits_for: Option<&'static str>,
    /// The end of the text so far, while the grammar waits.
    seen: Vec<u8>,
    end_of_generation: Vec<u32>,
}

impl Clone for Constraint {
    /// One that shares nothing with the other: a plain clone of a matcher has the same lexer behind a lock.
    fn clone(&self) -> Constraint {
        Constraint {
            matcher: self.matcher.deep_clone(),
            waits_for: self.waits_for,
            seen: self.seen.clone(),
            end_of_generation: self.end_of_generation.clone(),
        }
    }
}

impl Constraint {
    /// Whether it holds yet.
    pub fn active(&self) -> bool {
        self.waits_for.is_none()
    }

    /// Makes impossible in a row of logits what the grammar forbids.
    pub fn mask(&mut self, row: &mut [f32]) -> Result<(), String> {
        let allowed = self.matcher.compute_mask_or_eos().map_err(|e| first_line(&e))?;
        for (token, logit) in row.iter_mut().enumerate() {
            if token >= allowed.len() || !allowed.is_allowed(token as u32) {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// Notes a chosen token; whether the answer is complete.
    pub fn accept(&mut self, token: u32, bytes: &[u8]) -> Result<bool, String> {
        if let Some(start) = self.waits_for {
            self.seen.extend_from_slice(bytes);
            if self.seen.windows(start.len()).any(|w| w == start.as_bytes()) {
                self.waits_for = None;
            } else {
                let keep = self.seen.len().min(start.len());
                self.seen.drain(..self.seen.len() - keep);
            }
            return Ok(false);
        }
        if self.end_of_generation.contains(&token) {
            return Ok(true);
        }
        self.matcher.consume_token(token).map_err(|e| first_line(&e))?;
        Ok(self.matcher.is_stopped())
    }
}

fn first_line(e: &impl std::fmt::Display) -> String {
    e.to_string().lines().next().unwrap_or_default().to_owned()
}
