//! Answers whose reasoning and tool calls stand between marks.

use super::calls::{self, Call};
use super::{AnswerFormat, Delta, Piece, ReasoningMarks, ToolFormat, gemma, xml};
use crate::stop::overlap;

#[derive(Debug)]
pub(super) struct Marked {
    reasoning: Option<ReasoningMarks>,
    /// `None` where no tools were offered.
    tools: Option<ToolFormat>,
    names: Vec<String>,
    place: Place,
    /// Text that was not given out yet: it may be the beginning of a mark, or white space beside one.
    held: String,
    /// White space before the mark of the call under way; it is part of the text if the call is none.
    gap: String,
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
    /// Inside of a call; `held` is its body.
    Call,
}

impl Marked {
    pub(super) fn new(format: AnswerFormat, in_reasoning: bool, names: Vec<String>) -> Marked {
        let place = if in_reasoning { Place::Reasoning } else { Place::Opening };
        let tools = format.tools.filter(|_| !names.is_empty());
        Marked {
            reasoning: format.reasoning,
            tools,
            names,
            place,
            held: String::new(),
            gap: String::new(),
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
        let held = std::mem::take(&mut self.held);
        match self.place {
            Place::Reasoning if held.trim().is_empty() => Vec::new(),
            Place::Reasoning => vec![Delta::Reasoning(held)],
            // White space between and after calls.
            Place::Opening | Place::Content
                if held.trim().is_empty() && (self.calls > 0 || self.after_mark) =>
            {
                Vec::new()
            }
            Place::Opening | Place::Content if held.is_empty() => Vec::new(),
            Place::Opening | Place::Content => vec![Delta::Content(held)],
            Place::Call => match self.parse(&held) {
                Some(calls) => calls.into_iter().map(Delta::Call).collect(),
                None => vec![Delta::Content(format!("{}{}{held}", self.gap, self.begin_mark()))],
            },
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
        if self.tools == Some(ToolFormat::Llama3) {
            const TAG: &str = "<|python_tag|>";
            if text.starts_with('{') || text.starts_with(TAG) {
                self.place = Place::Call;
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
        let mark = match self.tools {
            None | Some(ToolFormat::Llama3) => "",
            Some(_) => self.begin_mark(),
        };
        if mark.is_empty() {
            push_content(out, std::mem::take(&mut self.held));
            return false;
        }
        if let Some(at) = self.held.find(mark) {
            let text = self.held[..at].trim_end().to_owned();
            self.gap = self.held[text.len()..at].to_owned();
            push_content(out, text);
            self.held.drain(..at + mark.len());
            self.place = Place::Call;
            return true;
        }
        let sure = self.held.len() - overlap(&self.held, mark);
        let sure = self.held[..sure].trim_end().len();
        push_content(out, self.held.drain(..sure).collect());
        false
    }

    fn call(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(mark) = self.end_mark() else { return false };
        let Some(at) = self.held.find(mark) else { return false };
        let body: String = self.held.drain(..at).collect();
        self.held.drain(..mark.len());
        match self.parse(&body) {
            Some(calls) => {
                self.calls += calls.len();
                out.extend(calls.into_iter().map(Delta::Call));
                self.after_mark = true;
            }
            None => push_content(out, format!("{}{}{body}{mark}", self.gap, self.begin_mark())),
        }
        self.place = Place::Content;
        true
    }

    fn skip_white_space(&mut self) {
        if self.after_mark {
            let skipped = self.held.len() - self.held.trim_start().len();
            self.held.drain(..skipped);
            self.after_mark = self.held.is_empty();
        }
    }

    fn parse(&self, body: &str) -> Option<Vec<Call>> {
        match self.tools? {
            ToolFormat::Hermes => calls::hermes(body),
            ToolFormat::Xml => xml::parse(body).or_else(|| calls::hermes(body)),
            ToolFormat::Llama3 => calls::llama3(body, &self.names),
            ToolFormat::Gemma4 => gemma::parse(body, "<|\"|>"),
            ToolFormat::FunctionGemma => gemma::parse(body, "<escape>"),
            ToolFormat::Mistral => calls::mistral(body),
            ToolFormat::Harmony => None,
        }
    }

    fn begin_mark(&self) -> &'static str {
        match self.tools {
            Some(ToolFormat::Hermes | ToolFormat::Xml) => "<tool_call>",
            Some(ToolFormat::Gemma4) => "<|tool_call>",
            Some(ToolFormat::FunctionGemma) => "<start_function_call>",
            Some(ToolFormat::Mistral) => "[TOOL_CALLS]",
            Some(ToolFormat::Llama3 | ToolFormat::Harmony) | None => "",
        }
    }

    /// What ends a call; `None` where the end of the answer does.
    fn end_mark(&self) -> Option<&'static str> {
        match self.tools? {
            ToolFormat::Hermes | ToolFormat::Xml => Some("</tool_call>"),
            ToolFormat::Gemma4 => Some("<tool_call|>"),
            ToolFormat::FunctionGemma => Some("<end_function_call>"),
            ToolFormat::Mistral | ToolFormat::Llama3 | ToolFormat::Harmony => None,
        }
    }

    /// Whether a control token is (the beginning of) a mark.
    fn is_mark(&self, name: &str) -> bool {
        let reasoning = self.reasoning.is_some_and(|m| m.begin.starts_with(name) || m.end == name);
        let call =
            !self.begin_mark().is_empty() && self.begin_mark() == name || self.end_mark() == Some(name);
        reasoning || call || self.tools == Some(ToolFormat::Llama3) && name == "<|python_tag|>"
    }
}

fn push_content(out: &mut Vec<Delta>, text: String) {
    if !text.is_empty() {
        out.push(Delta::Content(text));
    }
}
