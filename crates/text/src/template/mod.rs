//! Chat templates: Jinja as `transformers` renders it.

mod date;
mod environment;
mod generation;
mod json;
mod message;
mod protect;

pub use date::strftime;
pub use message::{Message, RenderInput};
pub use protect::Rendered;

use crate::Error;
use crate::load::token_types;
use crate::special::{Allowed, SpecialTokens};
use crate::tokenizer::Tokenizer;
use crate::vocab::TokenType;
use environment::Jinja;
use protect::Protector;
use std::time::SystemTime;
use zinc_gguf::{Metadata, Strings};

const TEMPLATE: &str = "tokenizer.chat_template";

/// A chat template, parsed, with the control tokens of its model.
pub struct ChatTemplate {
    jinja: Jinja,
    protector: Protector,
}

impl ChatTemplate {
    /// The template of a file; `None` where it has none, as base models do.
    ///
    /// # Errors
    /// A key of the wrong type; a template that cannot be parsed, with its line.
    pub fn from_metadata(metadata: &Metadata) -> Result<Option<Self>, Error> {
        let Some(source) = metadata.optional::<&str>(TEMPLATE)? else { return Ok(None) };
        let tokens: &Strings = metadata.required("tokenizer.ggml.tokens")?;
        let types = token_types(metadata, tokens.len())?;
        let named = |key| -> Result<&str, Error> {
            let id = metadata.optional::<i64>(key)?.and_then(|id| usize::try_from(id).ok());
            Ok(id.and_then(|id| tokens.get(id)).unwrap_or_default())
        };
        let control = tokens.iter().zip(&types).filter(|(_, t)| t.is_control()).map(|(text, _)| text);
        let (bos, eos) = (named("tokenizer.ggml.bos_token_id")?, named("tokenizer.ggml.eos_token_id")?);
        Self::build(source, bos, eos, control).map(Some)
    }

    /// A template from elsewhere, for the model of `tokenizer`.
    ///
    /// # Errors
    /// [`Error::Template`] with the line that cannot be parsed.
    pub fn parse(source: &str, tokenizer: &Tokenizer) -> Result<Self, Error> {
        let name = |id: Option<u32>| id.map(|id| tokenizer.token_text(id)).unwrap_or_default();
        let ids = (0..tokenizer.vocab_size() as u32).filter(|&id| tokenizer.is_control(id));
        let control: Vec<String> = ids.map(|id| tokenizer.token_text(id)).collect();
        let control = control.iter().map(String::as_str);
        Self::build(source, &name(tokenizer.bos()), &name(tokenizer.eos()), control)
    }

    fn build<'a>(
        source: &str,
        bos: &str,
        eos: &str,
        control: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Error> {
        let mut special = SpecialTokens::new();
        for (id, text) in control.enumerate() {
            special.insert(text.as_bytes(), id as u32, TokenType::Control);
        }
        Ok(ChatTemplate { jinja: Jinja::new(source, bos, eos)?, protector: Protector::new(special) })
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// [`Error::Template`]: the template refused the conversation (`raise_exception`) or failed, with its line.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<Rendered, Error> {
        self.render_at(input, SystemTime::now())
    }

    /// As [`ChatTemplate::render`], with the time that `strftime_now` gives (as UTC).
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_at(&self, input: &RenderInput<'_>, now: SystemTime) -> Result<Rendered, Error> {
        let context = message::context(input);
        self.protector.render(self.jinja.source(), &context, |context| self.jinja.render(context, now))
    }
}

/// The control token by which the file's template ends what the assistant says.
pub(crate) fn turn_end(metadata: &Metadata, tokenizer: &Tokenizer) -> Option<u32> {
    const PROBE: &str = "zq1";
    let source = metadata.optional::<&str>(TEMPLATE).ok()??;
    let template = ChatTemplate::parse(source, tokenizer).ok()?;
    let messages = [Message::new("user", "a"), Message::new("assistant", PROBE)];
    let rendered = template.render(&RenderInput { messages: &messages, ..RenderInput::default() }).ok()?;
    let after = rendered.text().rfind(PROBE)? + PROBE.len();
    let found = tokenizer.special.find(rendered.text(), after, Allowed::Unbroken(rendered.breaks()))?;
    let adjacent = rendered.text()[after..found.start].trim().is_empty();
    (adjacent && tokenizer.is_control(found.id)).then_some(found.id)
}
