//! The tokenizer of a GGUF file.

use crate::Error;
use crate::detokenize::Detokenizer;
use crate::load;
use crate::model::{ByteLevel, Pieces, SPACE};
use crate::special::{Allowed, SpecialTokens};
use crate::template::Rendered;
use crate::vocab::{TokenType, Vocab};
use std::borrow::Cow;
use zinc_gguf::Metadata;

/// What a control token's spelling in a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlTokens {
    /// Text like any other: for whatever comes from outside.
    AsText,
    /// The control token: for a raw prompt whose author means it.
    Parse,
}

/// Text to token ids and back, as the model's makers define it.
pub struct Tokenizer {
    pub(crate) vocab: Vocab,
    pub(crate) special: SpecialTokens,
    pub(crate) model: Model,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) add_bos: bool,
    /// Sorted.
    pub(crate) end_of_generation: Vec<u32>,
}

/// The algorithm.
pub(crate) enum Model {
    ByteLevel(ByteLevel),
    Pieces(Pieces),
}

impl Tokenizer {
    /// Builds the tokenizer that the metadata describe. `pre_override` replaces `tokenizer.ggml.pre` (the command
    /// line's `--pretokenizer`).
    ///
    /// # Errors
    /// A missing or malformed key, a kind of tokenizer that is not supported, an unknown pretokenizer.
    pub fn from_metadata(metadata: &Metadata, pre_override: Option<&str>) -> Result<Self, Error> {
        load::tokenizer(metadata, pre_override)
    }

    /// The ids of `text`. No BOS is added. Control tokens spelt in the text are parsed only if `control` says so.
    pub fn encode(&self, text: &str, control: ControlTokens) -> Vec<u32> {
        let allowed = match control {
            ControlTokens::AsText => Allowed::NoControl,
            ControlTokens::Parse => Allowed::Unbroken(&[]),
        };
        self.encode_with(text, allowed)
    }

    /// The ids of a rendered chat. Control tokens that the template wrote are parsed, what was spelt like one in a
    /// message is text. A BOS is there if the template wrote one; none is to be added.
    pub fn encode_rendered(&self, rendered: &Rendered) -> Vec<u32> {
        self.encode_with(rendered.text(), Allowed::Unbroken(rendered.breaks()))
    }

    fn encode_with(&self, text: &str, allowed: Allowed<'_>) -> Vec<u32> {
        let mut out = Vec::with_capacity(text.len() / 4 + 1);
        let mut at = 0;
        while let Some(found) = self.special.find(text, at, allowed) {
            self.encode_plain(&text[at..found.start], &mut out);
            out.push(found.id);
            at = found.end;
        }
        self.encode_plain(&text[at..], &mut out);
        out
    }

    fn encode_plain(&self, text: &str, out: &mut Vec<u32>) {
        match &self.model {
            Model::ByteLevel(model) => model.encode(text, &self.vocab, out),
            Model::Pieces(model) => model.encode(text, &self.vocab, out),
        }
    }

    /// The token that begins a text, where the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Whether a raw prompt is to begin with [`Tokenizer::bos`].
    pub fn add_bos(&self) -> bool {
        self.add_bos && self.bos.is_some()
    }

    /// The token that ends a text or a turn, as the file says.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether generation ends with this token: end of text, of a turn or of a message that asks for a tool.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.end_of_generation.binary_search(&id).is_ok()
    }

    /// The tokens of [`Tokenizer::is_end_of_generation`], ascending.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.end_of_generation
    }

    /// How many tokens there are; ids are below this.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The bytes that a token stands for; a control token's are its name. Empty for an id outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Cow<'_, [u8]> {
        let bytes = self.vocab.bytes(id);
        match (&self.model, self.vocab.kind(id)) {
            (Model::Pieces(_), Some(TokenType::Byte)) => {
                byte_value(bytes).map_or(Cow::Borrowed(bytes), |b| vec![b].into())
            }
            (Model::Pieces(_), Some(TokenType::Normal | TokenType::UserDefined)) => spaces_for_marks(bytes),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// A token for people to look at; bytes that are no text by themselves show as U+FFFD.
    pub fn token_text(&self, id: u32) -> String {
        String::from_utf8_lossy(&self.token_bytes(id)).into_owned()
    }

    /// Whether this is a control token: one that stands for structure and is not part of what a model says.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id).is_some_and(TokenType::is_control)
    }

    /// The id of the token that is spelt like this, control tokens and added ones included.
    pub fn find_token(&self, text: &str) -> Option<u32> {
        let special = self.special.find(text, 0, Allowed::Unbroken(&[]));
        let whole = special.filter(|f| f.start == 0 && f.end == text.len()).map(|f| f.id);
        whole.or_else(|| match &self.model {
            Model::ByteLevel(_) => self.vocab.find(text.as_bytes()),
            Model::Pieces(_) => self.vocab.find(text.replace(' ', SPACE).as_bytes()),
        })
    }

    /// The text of a sequence from its beginning, control tokens by name. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::new(self);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }

    /// Whether the tokenizer puts a space in front of a text, which decoding takes away again.
    pub(crate) fn space_prefix(&self) -> bool {
        matches!(&self.model, Model::Pieces(p) if p.space_prefix)
    }
}

/// The value of `<0xXX>`.
pub(crate) fn byte_value(name: &[u8]) -> Option<u8> {
    let hex = name.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let hex = std::str::from_utf8(hex).ok().filter(|h| h.len() == 2)?;
    u8::from_str_radix(hex, 16).ok()
}

fn spaces_for_marks(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(SPACE) => Cow::Owned(text.replace(SPACE, " ").into_bytes()),
        _ => Cow::Borrowed(bytes),
    }
}
