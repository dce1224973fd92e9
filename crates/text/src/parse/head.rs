//! The beginning of a call: everything before its arguments.

use super::{Arguments, Tool, ToolFormat, gemma, json, xml};

/// The beginning of a call was understood.
pub(super) struct Head {
    /// The function.
    pub(super) name: String,
    /// How many bytes it takes.
    pub(super) length: usize,
    /// What reads on.
    pub(super) arguments: Arguments,
}

/// Why a text is no beginning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It may become one.
    More,
    /// It is none.
    Not,
}

/// Reads the beginning of a call in the form of a family. `text` begins after the mark that opens calls.
pub(super) fn read(format: ToolFormat, text: &str, tools: &[Tool]) -> Result<Head, Stop> {
    let mut cursor = Cursor { text, at: 0 };
    let (name, arguments) = match format {
        ToolFormat::Hermes => cursor.json_call()?,
        ToolFormat::Xml => match cursor.tag() {
            // Before it goes on, a cursor stays where it was.
            Err(Stop::Not) => cursor.json_call()?,
            tag => {
                let name = tag?;
                let texts = tools.iter().find(|t| t.name == name).map(|t| t.texts.clone());
                (name, Arguments::Xml(xml::Reader::new(texts.unwrap_or_default())))
            }
        },
        ToolFormat::Llama3 => {
            match cursor.mark("<|python_tag|>") {
                Err(Stop::More) if !text.trim_start().is_empty() => return Err(Stop::More),
                _ => {}
            }
            let call = cursor.json_call()?;
            // Any answer may be JSON; a call is one to a tool that there is.
            tools.iter().find(|t| t.name == call.0).ok_or(Stop::Not)?;
            call
        }
        ToolFormat::Gemma4 | ToolFormat::FunctionGemma => {
            cursor.mark("call:")?;
            let name = cursor.until("{")?.trim().to_owned();
            let quote = if format == ToolFormat::Gemma4 { "<|\"|>" } else { "<escape>" };
            (name, Arguments::Gemma(gemma::Reader::new(quote)))
        }
        ToolFormat::Mistral | ToolFormat::MistralList => cursor.mistral()?,
        ToolFormat::Harmony => return Err(Stop::Not),
    };
    Ok(Head { name, length: cursor.at, arguments })
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Goes behind a mark, over white space before it.
    fn mark(&mut self, mark: &str) -> Result<(), Stop> {
        let rest = self.rest().trim_start();
        if rest.starts_with(mark) {
            self.at = self.text.len() - rest.len() + mark.len();
            return Ok(());
        }
        Err(if mark.starts_with(rest) { Stop::More } else { Stop::Not })
    }

    /// Goes behind the next `end`; the text before it.
    fn until(&mut self, end: &str) -> Result<&'a str, Stop> {
        let (before, _) = self.rest().split_once(end).ok_or(Stop::More)?;
        self.at += before.len() + end.len();
        Ok(before)
    }

    /// Goes to an opening brace.
    fn brace(&mut self) -> Result<(), Stop> {
        self.mark("{")?;
        self.at -= 1;
        Ok(())
    }

    /// A JSON string.
    fn string(&mut self) -> Result<String, Stop> {
        self.mark("\"")?;
        let mut escaped = false;
        let end = self.rest().bytes().position(|b| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        let end = self.at + end.ok_or(Stop::More)?;
        let text = serde_json::from_str(&self.text[self.at - 1..=end]).map_err(|_| Stop::Not)?;
        self.at = end + 1;
        Ok(text)
    }

    /// `{"name": …, "arguments": ` (or `parameters`), up to the brace after it.
    fn json_call(&mut self) -> Result<(String, Arguments), Stop> {
        self.mark("{")?;
        if self.string()? != "name" {
            return Err(Stop::Not);
        }
        self.mark(":")?;
        let name = self.string()?;
        self.mark(",")?;
        if !["arguments", "parameters"].contains(&self.string()?.as_str()) {
            return Err(Stop::Not);
        }
        self.mark(":")?;
        self.brace()?;
        Ok((name, Arguments::Json(json::Reader::new(true))))
    }

    /// `<function=…>`
    fn tag(&mut self) -> Result<String, Stop> {
        self.mark("<function=")?;
        Ok(self.until(">")?.trim().to_owned())
    }

    /// An array of calls, or a name, perhaps an id, `[ARGS]` (older: nothing) and an object.
    fn mistral(&mut self) -> Result<(String, Arguments), Stop> {
        match self.mark("[") {
            Err(Stop::Not) if !self.rest().trim_start().starts_with('{') => {}
            Err(Stop::More) => return Err(Stop::More),
            _ => return self.json_call(),
        }
        let (args, brace) = (self.rest().find("[ARGS]"), self.rest().find('{'));
        let head = match (args, brace) {
            (Some(args), brace) if brace.is_none_or(|b| args < b) => self.until("[ARGS]")?,
            (_, Some(at)) => {
                self.at += at;
                &self.text[self.at - at..self.at]
            }
            _ => return Err(Stop::More),
        };
        self.brace()?;
        let name = head.split("[CALL_ID]").next().unwrap_or_default().trim();
        if name.is_empty() {
            return Err(Stop::Not);
        }
        Ok((name.to_owned(), Arguments::Json(json::Reader::new(false))))
    }
}
