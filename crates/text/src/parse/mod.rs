//! What a model says, taken apart as it comes: reasoning, content, tool calls.
//!
//! Which marks a model sets is read from its chat template. What does not parse stays content, letter for letter.

mod calls;
mod gemma;
mod harmony;
mod head;
mod json;
mod marked;
mod xml;

pub use calls::Call;
use harmony::Harmony;
use marked::Marked;

/// A piece of what was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text, cut anywhere between characters.
    Text(&'a str),
    /// A control token, by name. It is no part of the text; it may be a mark.
    Control(&'a str),
}

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// The model thinks.
    Reasoning(String),
    /// The model speaks.
    Content(String),
    /// The model calls this tool; its arguments follow.
    Call(String),
    /// More of the last call's arguments. Joined they are a JSON object, unless the answer ended before, or the model wrote none.
    Arguments(String),
}

/// A tool that was offered to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Those of its parameters that are text by its schema: where a family does not quote text, `12` would else be a number.
    pub texts: Vec<String>,
}

/// How a model writes tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5, Qwen 3.
    Hermes,
    /// `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen 3 Coder, Qwen 3.5.
    Xml,
    /// `{"name": …, "parameters": {…}}` as the whole answer: Llama 3.
    Llama3,
    /// `<|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>`: Gemma 4.
    Gemma4,
    /// `<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>`: FunctionGemma.
    FunctionGemma,
    /// `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Mistral,
    /// `[TOOL_CALLS]` and an array of calls: older models of Mistral. Both forms are read of both.
    MistralList,
    /// A message on the commentary channel to a function: GPT-OSS.
    Harmony,
}

/// How a model marks its reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReasoningMarks {
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

const THINK: ReasoningMarks = ReasoningMarks { begin: "<think>", end: "</think>" };
const THOUGHT: ReasoningMarks = ReasoningMarks { begin: "<|channel>thought", end: "<channel|>" };

/// The marks that a model sets in its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerFormat {
    reasoning: Option<ReasoningMarks>,
    tools: Option<ToolFormat>,
}

impl AnswerFormat {
    /// Read from the source of a chat template.
    pub fn of_template(source: &str) -> AnswerFormat {
        let has = |mark: &str| source.contains(mark);
        let tools = if has("<|channel|>") && has("<|message|>") {
            Some(ToolFormat::Harmony)
        } else if has("<|tool_call>") {
            Some(ToolFormat::Gemma4)
        } else if has("<start_function_call>") {
            Some(ToolFormat::FunctionGemma)
        } else if has("<function=") && has("<parameter=") {
            Some(ToolFormat::Xml)
        } else if has("<tool_call>") {
            Some(ToolFormat::Hermes)
        } else if has("[TOOL_CALLS]") {
            Some(if has("[ARGS]") { ToolFormat::Mistral } else { ToolFormat::MistralList })
        } else if has("<|python_tag|>") || has("<|start_header_id|>") && has("\"parameters\"") {
            Some(ToolFormat::Llama3)
        } else {
            None
        };
        let reasoning = if has("<think>") || has("</think>") {
            Some(THINK)
        } else if has("<|channel>") {
            Some(THOUGHT)
        } else {
            None
        };
        AnswerFormat { reasoning, tools }
    }

    /// How the model writes tool calls; `None` where its template has no tools.
    pub fn tools(&self) -> Option<ToolFormat> {
        self.tools
    }

    /// The same reasoning, tool calls in another form.
    pub fn with_tools(self, tools: Option<ToolFormat>) -> AnswerFormat {
        AnswerFormat { tools, ..self }
    }

    /// Whether a prompt that ends with this text leaves the model in the middle of its reasoning.
    pub fn reasons_after(&self, prompt: &str) -> bool {
        self.reasoning.is_some_and(|marks| prompt.trim_end().ends_with(marks.begin))
    }

    /// The text that ends the model's reasoning, where it has such marks.
    pub fn reasoning_end(&self) -> Option<&'static str> {
        self.reasoning.map(|marks| marks.end)
    }

    /// Whether answers come in GPT-OSS's channels.
    pub fn has_channels(&self) -> bool {
        self.tools == Some(ToolFormat::Harmony)
    }
}

/// What reads a call's arguments, by the family's form.
#[derive(Debug, Clone)]
enum Arguments {
    Json(json::Reader),
    Xml(xml::Reader),
    Gemma(gemma::Reader),
}

impl Arguments {
    /// Reads on, and adds to `json` what is certain of the arguments. `last`: no more text comes. How many bytes it took, and whether the call
    /// is complete (or cannot go on).
    fn read(&mut self, text: &str, last: bool, json: &mut String) -> (usize, bool) {
        match self {
            Arguments::Json(reader) => reader.read(text, json),
            Arguments::Xml(reader) => reader.read(text, last, json),
            Arguments::Gemma(reader) => reader.read(text, json),
        }
    }
}

/// Takes an answer apart. The deltas, joined by kind, do not depend on how the answer was cut.
#[derive(Debug, Clone)]
pub struct AnswerParser(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Marked(Box<Marked>),
    Harmony(Harmony),
}

impl AnswerParser {
    /// For one answer. `in_reasoning`: the prompt ended where the model thinks ([`AnswerFormat::reasons_after`]). `tools`: those
    /// that were offered; with none, nothing is taken for a call.
    pub fn new(format: AnswerFormat, in_reasoning: bool, tools: Vec<Tool>) -> AnswerParser {
        AnswerParser(match format.tools {
            Some(ToolFormat::Harmony) => Inner::Harmony(Harmony::new()),
            _ => Inner::Marked(Box::new(Marked::new(format, in_reasoning, tools))),
        })
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: Piece<'_>) -> Vec<Delta> {
        match &mut self.0 {
            Inner::Marked(parser) => parser.push(piece),
            Inner::Harmony(parser) => parser.push(piece),
        }
    }

    /// The text since the mark that opened a call, while the model has not got to the call's arguments.
    pub fn opened(&self) -> Option<&str> {
        match &self.0 {
            Inner::Marked(parser) => parser.opened(),
            Inner::Harmony(parser) => parser.opened(),
        }
    }

    /// What was held back, at the end of the answer.
    pub fn finish(&mut self) -> Vec<Delta> {
        match &mut self.0 {
            Inner::Marked(parser) => parser.finish(),
            Inner::Harmony(parser) => parser.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
