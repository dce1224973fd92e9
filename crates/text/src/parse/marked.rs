//! Answers whose reasoning and tool calls stand between marks.

use super::calls::{self, Call};
use super::head::{self, Head, Stop};
use super::{AnswerFormat, Arguments, Delta, Piece, ReasoningMarks, Tool, ToolFormat};
use crate::stop::overlap;

#[derive(Debug, Clone)]
pub(super) struct Marked {
    reasoning: Option<ReasoningMarks>,
    /// `None` where no tools were offered.
    format: Option<ToolFormat>,
    tools: Vec<Tool>,
    place: Place,
    call: InCall,
    /// Text that was not given out yet: it may be the beginning of a mark, or white space beside one.
    held: String,
    /// The mark that opened the call under way and white space before it: part of the text if the call is none.
    opening: String,
    /// White space that stands beside a mark is no part of the text.
    after_mark: bool,
    calls: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space was said.
    Opening,
    Reasoning,
    Content,
    /// Inside of a call.
    Call,
}

/// How far a call has got.
#[derive(Debug, Clone)]
enum InCall {
    /// `held` is what came before its arguments.
    Head,
    /// It begins in no way that can be read as it comes; `held` is all of it.
    Whole,
    Arguments(Arguments),
    /// Its arguments are complete: its end, or another call.
    After,
}

impl Marked {
    pub(super) fn new(format: AnswerFormat, in_reasoning: bool, tools: Vec<Tool>) -> Marked {
        Marked {
            reasoning: format.reasoning,
            format: format.tools.filter(|_| !tools.is_empty()),
            tools,
            place: if in_reasoning { Place::Reasoning } else { Place::Opening },
            call: InCall::Head,
            held: String::new(),
            opening: String::new(),
            after_mark: in_reasoning,
            calls: 0,
        }
    }

    pub(super) fn push(&mut self, piece: Piece<'_>) -> Vec<Delta> {
        match piece {
            Piece::Text(text) => self.held.push_str(text),
            Piece::Control(name) if self.is_mark(name) || self.place == Place::Call => {
                self.held.push_str(name)
            }
            Piece::Control(_) => return Vec::new(),
        }
        let mut out = Vec::new();
        while self.step(&mut out) {}
        out
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        let mut out = Vec::new();
        match self.place {
            Place::Reasoning if self.held.trim().is_empty() => {}
            Place::Reasoning => out.push(Delta::Reasoning(std::mem::take(&mut self.held))),
            Place::Call => self.finish_call(&mut out),
            Place::Opening | Place::Content => {
                // White space between and after calls is no text.
                let beside = self.held.trim().is_empty() && (self.calls > 0 || self.after_mark);
                if !beside {
                    push_content(&mut out, std::mem::take(&mut self.held));
                }
            }
        }
        self.held.clear();
        out
    }

    fn finish_call(&mut self, out: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held);
        match &mut self.call {
            InCall::Head | InCall::Whole => match self.parse(&held) {
                Some(calls) => self.push_calls(out, calls),
                None => push_content(out, format!("{}{held}", self.opening)),
            },
            InCall::Arguments(reader) => {
                let mut json = String::new();
                reader.read(&held, true, &mut json);
                push_arguments(out, json);
            }
            // The beginning of what ends it.
            InCall::After => {}
        }
    }

    /// As [`super::AnswerParser::opened`].
    pub(super) fn opened(&self) -> Option<&str> {
        let opened = self.place == Place::Call && matches!(self.call, InCall::Head | InCall::Whole);
        let text = self.held.trim_start();
        match text.strip_prefix("<|python_tag|>") {
            Some(text) => Some(text).filter(|_| opened),
            // Any answer may begin with a brace.
            None if self.format == Some(ToolFormat::Llama3) => {
                Some(text).filter(|text| opened && text.contains("\"name\""))
            }
            None => Some(text).filter(|_| opened),
        }
    }

    /// Does what can be done with the text that is held; whether there may be more to do.
    fn step(&mut self, out: &mut Vec<Delta>) -> bool {
        match self.place {
            Place::Opening => self.open(),
            Place::Reasoning => self.reason(out),
            Place::Content => self.speak(out),
            Place::Call => self.call(out),
        }
    }

    fn open(&mut self) -> bool {
        let text = self.held.trim_start();
        if text.is_empty() {
            return false;
        }
        if let Some(marks) = self.reasoning {
            if let Some(rest) = text.strip_prefix(marks.begin) {
                self.held = rest.to_owned();
                self.place = Place::Reasoning;
                self.after_mark = true;
                return true;
            }
            if marks.begin.starts_with(text) {
                return false;
            }
        }
        if self.format == Some(ToolFormat::Llama3) {
            const TAG: &str = "<|python_tag|>";
            if text.starts_with('{') || text.starts_with(TAG) {
                self.begin_call(String::new());
                return true;
            }
            if TAG.starts_with(text) {
                return false;
            }
        }
        self.place = Place::Content;
        true
    }

    fn reason(&mut self, out: &mut Vec<Delta>) -> bool {
        self.skip_white_space();
        let Some(marks) = self.reasoning else { return self.leave_reasoning() };
        let found = self.held.find(marks.end);
        // The end mark, and white space before it, may be yet to come.
        let sure = self.held.len() - overlap(&self.held, marks.end);
        let text = self.held[..found.unwrap_or(sure)].trim_end().to_owned();
        if found.is_none() {
            self.held.drain(..text.len());
        }
        if !text.is_empty() {
            out.push(Delta::Reasoning(text));
        }
        match found {
            Some(at) => {
                self.held.drain(..at + marks.end.len());
                self.leave_reasoning()
            }
            None => false,
        }
    }

    fn leave_reasoning(&mut self) -> bool {
        self.place = Place::Content;
        self.after_mark = true;
        true
    }

    fn speak(&mut self, out: &mut Vec<Delta>) -> bool {
        self.skip_white_space();
        let mark = self.begin_mark();
        if mark.is_empty() {
            push_content(out, std::mem::take(&mut self.held));
            return false;
        }
        if let Some(at) = self.held.find(mark) {
            let text = self.held[..at].trim_end().to_owned();
            let opening = self.held[text.len()..at + mark.len()].to_owned();
            push_content(out, text);
            self.held.drain(..at + mark.len());
            self.begin_call(opening);
            return true;
        }
        let sure = self.held.len() - overlap(&self.held, mark);
        let sure = self.held[..sure].trim_end().len();
        push_content(out, self.held.drain(..sure).collect());
        false
    }

    fn begin_call(&mut self, opening: String) {
        (self.place, self.call, self.opening) = (Place::Call, InCall::Head, opening);
    }

    fn call(&mut self, out: &mut Vec<Delta>) -> bool {
        match &mut self.call {
            InCall::Head => self.head(out),
            InCall::Whole => self.whole(out),
            InCall::Arguments(reader) => {
                let mut json = String::new();
                let (taken, complete) = reader.read(&self.held, false, &mut json);
                self.held.drain(..taken);
                push_arguments(out, json);
                if complete {
                    self.call = InCall::After;
                }
                complete
            }
            InCall::After => self.after_call(),
        }
    }

    fn head(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(format) = self.format else { return false };
        match head::read(format, &self.held, &self.tools) {
            Ok(Head { name, length, arguments }) => {
                self.held.drain(..length);
                out.push(Delta::Call(name));
                self.calls += 1;
                self.call = InCall::Arguments(arguments);
                true
            }
            Err(Stop::More) => false,
            Err(Stop::Not) => {
                self.call = InCall::Whole;
                true
            }
        }
    }

    fn whole(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(mark) = self.end_mark() else { return false };
        let Some(at) = self.held.find(mark) else { return false };
        let body: String = self.held.drain(..at).collect();
        self.held.drain(..mark.len());
        match self.parse(&body) {
            Some(calls) => self.push_calls(out, calls),
            None => push_content(out, format!("{}{body}{mark}", self.opening)),
        }
        self.place = Place::Content;
        true
    }

    fn push_calls(&mut self, out: &mut Vec<Delta>, calls: Vec<Call>) {
        self.calls += calls.len();
        self.after_mark = true;
        for call in calls {
            out.extend([Delta::Call(call.name), Delta::Arguments(call.arguments)]);
        }
    }

    /// The end of a call, or what stands between it and the next one.
    fn after_call(&mut self) -> bool {
        let text = self.held.trim_start();
        let skipped = self.held.len() - text.len();
        let end = self.end_mark();
        let (between, beginnings): (&[&str], &[&str]) = match self.format {
            Some(ToolFormat::Mistral | ToolFormat::MistralList) => (&[",", "[TOOL_CALLS]"], &[]),
            Some(ToolFormat::Llama3) => (&[";"], &[]),
            Some(ToolFormat::Hermes) => (&[], &["{"]),
            Some(ToolFormat::Xml) => (&[], &["<function=", "{"]),
            _ => (&[], &[]),
        };
        if let Some(mark) = end.filter(|mark| text.starts_with(mark)) {
            self.held.drain(..skipped + mark.len());
            (self.place, self.after_mark) = (Place::Content, true);
        } else if text.starts_with(']') && between.contains(&",") {
            self.held.drain(..skipped + 1);
        } else if let Some(mark) = between.iter().find(|mark| text.starts_with(**mark)) {
            let opening = self.held.drain(..skipped + mark.len()).collect();
            self.begin_call(opening);
        } else if beginnings.iter().any(|mark| text.starts_with(mark)) {
            self.begin_call(String::new());
        } else if end.iter().chain(between).chain(beginnings).any(|mark| mark.starts_with(text)) {
            return false;
        } else {
            // Nothing of a call: it is said.
            (self.place, self.after_mark) = (Place::Content, true);
        }
        true
    }

    fn skip_white_space(&mut self) {
        if self.after_mark {
            let skipped = self.held.len() - self.held.trim_start().len();
            self.held.drain(..skipped);
            self.after_mark = self.held.is_empty();
        }
    }

    /// A call that could not be read as it came.
    fn parse(&self, body: &str) -> Option<Vec<Call>> {
        match self.format? {
            ToolFormat::Hermes | ToolFormat::Xml => calls::hermes(body),
            ToolFormat::Llama3 => calls::llama3(body, &self.tools),
            ToolFormat::Mistral | ToolFormat::MistralList => calls::mistral(body),
            ToolFormat::Gemma4 | ToolFormat::FunctionGemma | ToolFormat::Harmony => None,
        }
    }

    fn begin_mark(&self) -> &'static str {
        match self.format {
            Some(ToolFormat::Hermes | ToolFormat::Xml) => "<tool_call>",
            Some(ToolFormat::Gemma4) => "<|tool_call>",
            Some(ToolFormat::FunctionGemma) => "<start_function_call>",
            Some(ToolFormat::Mistral | ToolFormat::MistralList) => "[TOOL_CALLS]",
            Some(ToolFormat::Llama3 | ToolFormat::Harmony) | None => "",
        }
    }

    /// What ends a call; `None` where the end of the answer does.
    fn end_mark(&self) -> Option<&'static str> {
        match self.format? {
            ToolFormat::Hermes | ToolFormat::Xml => Some("</tool_call>"),
            ToolFormat::Gemma4 => Some("<tool_call|>"),
            ToolFormat::FunctionGemma => Some("<end_function_call>"),
            ToolFormat::Mistral | ToolFormat::MistralList | ToolFormat::Llama3 | ToolFormat::Harmony => None,
        }
    }

    /// Whether a control token is (the beginning of) a mark.
    fn is_mark(&self, name: &str) -> bool {
        let reasoning = self.reasoning.is_some_and(|m| m.begin.starts_with(name) || m.end == name);
        let call =
            !self.begin_mark().is_empty() && self.begin_mark() == name || self.end_mark() == Some(name);
        reasoning || call || self.format == Some(ToolFormat::Llama3) && name == "<|python_tag|>"
    }
}

fn push_content(out: &mut Vec<Delta>, text: String) {
    if !text.is_empty() {
        out.push(Delta::Content(text));
    }
}

fn push_arguments(out: &mut Vec<Delta>, json: String) {
    if !json.is_empty() {
        out.push(Delta::Arguments(json));
    }
}
