//! Answers that must follow a grammar or a JSON schema: masks over the vocabulary, by llguidance.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_text::{AnswerParser, Piece, Tokenizer};

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

    /// Compiles a grammar.
    ///
    /// # Errors
    /// What is wrong with the grammar, for the client.
    pub fn compile(&self, grammar: &Grammar, when: When) -> Result<Constraint, String> {
        let top = match grammar {
            Grammar::Schema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            Grammar::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Grammar::Regex(text) => TopLevelGrammar::from_regex(text),
        };
        let matcher = Matcher::new(self.factory.create_parser(top));
        if let Some(e) = matcher.get_error() {
            return Err(e.lines().next().unwrap_or("it cannot be compiled").to_owned());
        }
        let holds = matches!(when, When::Always);
        let fresh = matches!(when, When::InCalls { .. }).then(|| matcher.deep_clone());
        let end_of_generation = self.end_of_generation.clone();
        Ok(Constraint { matcher, fresh, when, holds, end_of_generation })
    }
}

/// When a grammar holds.
#[derive(Debug, Clone)]
pub enum When {
    /// From the first token on.
    Always,
    /// After this text.
    After(Mark),
    /// In calls that the model begins by itself: from the mark that opens one on. With `again` the answer may go on after a call.
    InCalls { parser: Box<AnswerParser>, again: bool, seen: bool },
}

/// A text that is waited for.
#[derive(Debug, Clone)]
pub struct Mark {
    text: &'static str,
    /// The end of what was said.
    said: String,
}

impl When {
    /// After this text.
    pub fn after(text: &'static str) -> When {
        When::After(Mark { text, said: String::new() })
    }

    /// In the calls that a parser of the answer finds.
    pub fn in_calls(parser: AnswerParser, again: bool) -> When {
        When::InCalls { parser: Box::new(parser), again, seen: false }
    }
}

/// A grammar and how far an answer has got in it.
pub struct Constraint {
    matcher: Matcher,
    /// The matcher of the next call.
    fresh: Option<Matcher>,
    when: When,
    holds: bool,
    end_of_generation: Vec<u32>,
}

impl Clone for Constraint {
    /// One that shares nothing with the other: a plain clone of a matcher has the same lexer behind a lock.
    fn clone(&self) -> Constraint {
        Constraint {
            matcher: self.matcher.deep_clone(),
            fresh: self.fresh.as_ref().map(Matcher::deep_clone),
            when: self.when.clone(),
            holds: self.holds,
            end_of_generation: self.end_of_generation.clone(),
        }
    }
}

impl Constraint {
    /// Whether it holds now.
    pub fn active(&self) -> bool {
        self.holds
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

    /// Notes a chosen token and what it said; whether the answer is complete.
    pub fn accept(&mut self, token: u32, piece: Piece<'_>) -> Result<bool, String> {
        let complete = self.holds && self.consume(token)?;
        match &mut self.when {
            When::Always => return Ok(complete),
            When::After(_) if self.holds => return Ok(complete),
            When::After(mark) => self.holds = mark.found(piece),
            When::InCalls { parser, again, seen } => {
                parser.push(piece);
                if complete && !(*again) {
                    return Ok(true);
                }
                let opened = parser.opened();
                if complete {
                    self.holds = false;
                } else if !self.holds
                    && !*seen
                    && let Some(text) = opened
                    && let Some(fresh) = &self.fresh
                {
                    // What the token said after the mark belongs to the call; where that is no call, nothing holds.
                    self.matcher = fresh.deep_clone();
                    let tokens = self.matcher.tok_env().map_err(|e| first_line(&e))?.tokenize(text);
                    let taken = self.matcher.try_consume_tokens(&tokens).map_err(|e| first_line(&e))?;
                    self.holds = taken == tokens.len();
                }
                *seen = opened.is_some();
            }
        }
        Ok(false)
    }

    /// Takes a token; whether the grammar is complete.
    fn consume(&mut self, token: u32) -> Result<bool, String> {
        if self.end_of_generation.contains(&token) {
            return Ok(true);
        }
        self.matcher.consume_token(token).map_err(|e| first_line(&e))?;
        Ok(self.matcher.is_stopped())
    }
}

impl Mark {
    /// Whether it was said now.
    fn found(&mut self, piece: Piece<'_>) -> bool {
        let (Piece::Text(text) | Piece::Control(text)) = piece;
        self.said.push_str(text);
        let found = self.said.contains(self.text);
        let keep = self.said.len().saturating_sub(self.text.len());
        let keep = (0..=keep).rev().find(|&at| self.said.is_char_boundary(at)).unwrap_or(0);
        self.said.drain(..keep);
        found
    }
}

fn first_line(e: &impl std::fmt::Display) -> String {
    e.to_string().lines().next().unwrap_or_default().to_owned()
}
