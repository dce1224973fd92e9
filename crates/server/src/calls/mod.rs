//! The grammar of tool calls in the form that a model's family writes them.
//!
//! A call that must be made is written as the model would write it by itself, so that it was trained on what it then reads; with `strict` tools
//! a call that the model begins by itself is held to the same grammar.

mod rules;
mod schema;
mod values;

use crate::constrain::Grammar;
use rules::{Rules, literal};
use schema::Schema;
use serde_json::Value;
use zinc_text::{Tokenizer, ToolFormat};

/// A tool that may be called.
pub struct Callable<'a> {
    pub name: &'a str,
    /// The schema of its arguments.
    pub parameters: &'a Value,
}

/// Which calls a grammar allows.
pub struct Calls<'a> {
    pub format: ToolFormat,
    pub tools: Vec<Callable<'a>>,
    /// More than one.
    pub many: bool,
    /// The mark that opens a call was said already: what the parser calls opened.
    pub begun: bool,
}

impl Calls<'_> {
    /// The grammar, for a model's vocabulary.
    ///
    /// # Errors
    /// For the client: what of a schema cannot be enforced in this form.
    pub fn grammar(&self, tokenizer: &Tokenizer) -> Result<Grammar, String> {
        let mut rules = Rules::new(tokenizer);
        let start = match self.format {
            ToolFormat::Hermes => self.marked(&mut rules, "<tool_call>", "</tool_call>", Self::hermes)?,
            ToolFormat::Xml => self.marked(&mut rules, "<tool_call>", "</tool_call>", Self::tags)?,
            ToolFormat::Gemma4 => self.marked(&mut rules, "<|tool_call>", "<tool_call|>", Self::gemma)?,
            ToolFormat::FunctionGemma => {
                self.marked(&mut rules, "<start_function_call>", "<end_function_call>", Self::gemma)?
            }
            ToolFormat::Llama3 => {
                let call = self.each(&mut rules, |rules, tool| json_call(rules, tool, "parameters"))?;
                self.repeated(&call, "\"; \"")
            }
            ToolFormat::MistralList => {
                let call = self.each(&mut rules, |rules, tool| json_call(rules, tool, "arguments"))?;
                let begin = if self.begun { String::new() } else { rules.mark("[TOOL_CALLS]") };
                format!("{begin} \" \"? \"[\" {} \"]\"", self.repeated(&call, "\", \""))
            }
            ToolFormat::Mistral => {
                let args = rules.mark("[ARGS]");
                let call = self.each(&mut rules, |rules, tool| {
                    Ok(format!(
                        "{} {args} {}",
                        literal(tool.name),
                        rules.json(tool.parameters, tool.parameters)
                    ))
                })?;
                let mark = rules.mark("[TOOL_CALLS]");
                let begin = if self.begun { "" } else { mark.as_str() };
                format!("{begin} {}", self.repeated(&call, &mark))
            }
            ToolFormat::Harmony => self.harmony(&mut rules)?,
        };
        Ok(Grammar::Lark(rules.finish(&start)))
    }

    /// A rule that is a call to any of the tools.
    fn each(
        &self,
        rules: &mut Rules<'_>,
        one: impl Fn(&mut Rules<'_>, &Callable<'_>) -> Result<String, String>,
    ) -> Result<String, String> {
        let mut alternatives = Vec::new();
        for tool in &self.tools {
            let call = one(rules, tool).map_err(|e| format!("`{}`: {e}", tool.name))?;
            alternatives.push(rules.add(&call));
        }
        Ok(rules.add(&alternatives.join(" | ")))
    }

    fn repeated(&self, call: &str, between: &str) -> String {
        if self.many { format!("{call} ({between} {call})*") } else { call.to_owned() }
    }

    /// Calls between marks.
    fn marked(
        &self,
        rules: &mut Rules<'_>,
        begin: &str,
        end: &str,
        body: impl Fn(&Self, &mut Rules<'_>, &Callable<'_>) -> Result<String, String>,
    ) -> Result<String, String> {
        let call = self.each(rules, |rules, tool| body(self, rules, tool))?;
        let (begin, end) = (rules.mark(begin), rules.mark(end));
        if self.begun {
            return Ok(format!("{call} {end}"));
        }
        let call = rules.add(&format!("{begin} {call} {end}"));
        let lines = matches!(self.format, ToolFormat::Hermes | ToolFormat::Xml);
        Ok(self.repeated(&call, if lines { "\"\\n\"" } else { "" }))
    }

    fn hermes(&self, rules: &mut Rules<'_>, tool: &Callable<'_>) -> Result<String, String> {
        Ok(format!("\"\\n\"? {} \"\\n\"", json_call(rules, tool, "arguments")?))
    }

    fn tags(&self, rules: &mut Rules<'_>, tool: &Callable<'_>) -> Result<String, String> {
        let head = literal(&format!("<function={}>\n", tool.name));
        let parameters = values::tags(rules, &Schema::new(tool.parameters))?;
        Ok(format!("\"\\n\"? {head} {parameters} \"</function>\\n\""))
    }

    fn gemma(&self, rules: &mut Rules<'_>, tool: &Callable<'_>) -> Result<String, String> {
        let quote = if self.format == ToolFormat::Gemma4 { "<|\"|>" } else { "<escape>" };
        let arguments = values::Gemma::new(rules, quote).object(&Schema::new(tool.parameters))?;
        Ok(format!("{} {arguments}", literal(&format!("call:{}", tool.name))))
    }

    /// The model may think first. A call is a message to a function, and the end of the answer.
    fn harmony(&self, rules: &mut Rules<'_>) -> Result<String, String> {
        let mark = |rules: &Rules<'_>, name| rules.mark(name);
        let (channel, message) = (mark(rules, "<|channel|>"), mark(rules, "<|message|>"));
        let form = format!("(\" \" {} \"json\")?", mark(rules, "<|constrain|>"));
        let call = self.each(rules, |rules, tool| {
            let arguments = rules.json(tool.parameters, tool.parameters);
            Ok(format!("{} header {message} {arguments}", literal(tool.name)))
        })?;
        if self.begun {
            rules.define("header", &format!("({channel} \"commentary\")? {form}"));
            return Ok(call);
        }
        rules.define("header", &form);
        let (end, start) = (mark(rules, "<|end|>"), mark(rules, "<|start|>"));
        let thought = rules.add("/(?s:.+)/");
        let thinks = format!("({channel} \"analysis\" {message} {thought}? {end} {start} \"assistant\")?");
        Ok(format!("{thinks} {channel} \"commentary to=functions.\" {call}"))
    }
}

/// `{"name": …, "arguments": …}`
fn json_call(rules: &mut Rules<'_>, tool: &Callable<'_>, key: &str) -> Result<String, String> {
    let head = format!("{{\"name\": {}, \"{key}\": ", Value::from(tool.name));
    let arguments = rules.json(tool.parameters, tool.parameters);
    Ok(format!("{} {arguments} \"}}\"", literal(&head)))
}

/// Whether a call ends with a mark of its own, so that the answer may go on after it.
pub fn ends_with_mark(format: ToolFormat) -> bool {
    use ToolFormat::{FunctionGemma, Gemma4, Hermes, Xml};
    matches!(format, Hermes | Xml | Gemma4 | FunctionGemma)
}

/// Those parameters that are text by the schema.
pub fn texts(parameters: &Value) -> Vec<String> {
    let schema = Schema::new(parameters);
    let is_text = |s: &Schema<'_>| s.cases().is_ok_and(|cases| cases.iter().all(schema::Case::is_text));
    schema.properties().filter(|(_, s)| is_text(s)).map(|(key, _)| key.to_owned()).collect()
}

#[cfg(test)]
mod tests;
