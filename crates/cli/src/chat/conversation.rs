//! A conversation as messages and as the tokens that the model has read.

use crate::error::{Outcome, error};
use zinc_engine::Engine;
use zinc_text::{ChatTemplate, Detokenizer, Message, RenderInput, Tokenizer};

/// Messages, and the tokens of the last turn so that the next one adds to them.
pub struct Conversation {
    template: ChatTemplate,
    /// All messages; the first may be the system's.
    pub messages: Vec<Message>,
    last: Option<Turn>,
}

/// What the model was given and what it said.
struct Turn {
    /// The prompt as the template and the tokenizer give it.
    rendered: Vec<u32>,
    /// The prompt as the model read it.
    fed: Vec<u32>,
    /// The answer's text and tokens; none where its tokens must not be used again.
    answer: Option<(String, Vec<u32>)>,
}

impl Conversation {
    /// An empty conversation with the file's chat template.
    pub fn new(engine: &Engine) -> Outcome<Conversation> {
        let template = ChatTemplate::from_metadata(engine.gguf().metadata())?;
        let template = template.ok_or_else(|| {
            error(
                "the model has no chat template (`tokenizer.chat_template` is missing)",
                "`zinc run` without `--chat` continues a text with it",
            )
        })?;
        Ok(Conversation { template, messages: Vec::new(), last: None })
    }

    /// Replaces the system message; an empty text removes it.
    pub fn set_system(&mut self, text: &str) {
        self.messages.retain(|m| m.role != "system");
        if !text.is_empty() {
            self.messages.insert(0, Message::new("system", text));
        }
        self.last = None;
    }

    /// Forgets all messages but the system's.
    pub fn reset(&mut self) {
        self.messages.retain(|m| m.role == "system");
        self.last = None;
    }

    /// Puts other messages in place of all.
    pub fn replace(&mut self, messages: Vec<Message>) {
        self.messages = messages;
        self.last = None;
    }

    /// Adds a message of the user.
    pub fn say(&mut self, text: &str) {
        self.messages.push(Message::new("user", text));
    }

    /// Takes the last message back: an answer that is to be given again, or a question that was not answered.
    pub fn take_back(&mut self) -> Option<Message> {
        self.last = None;
        self.messages.pop()
    }

    /// The tokens from the beginning to where the assistant speaks. Where the conversation continues the last turn, they begin
    /// with exactly the tokens that the model read and said, even if its text would now be cut into other tokens: so a turn
    /// computes only what is new.
    pub fn prompt(&mut self, tokenizer: &Tokenizer) -> Outcome<Vec<u32>> {
        let input =
            RenderInput { messages: &self.messages, add_generation_prompt: true, ..RenderInput::default() };
        let rendered = tokenizer.encode_rendered(&self.template.render(&input)?);
        let fed = self.last.as_ref().and_then(|turn| turn.continued(&rendered, tokenizer));
        let fed = fed.unwrap_or_else(|| rendered.clone());
        self.last = Some(Turn { rendered, fed: fed.clone(), answer: None });
        Ok(fed)
    }

    /// Adds the assistant's answer. `tokens` are those it was generated as, where they stand for the text and no more.
    pub fn answered(&mut self, text: &str, tokens: Option<&[u32]>) {
        self.messages.push(Message::new("assistant", text));
        if let Some(turn) = &mut self.last {
            turn.answer = tokens.map(|t| (text.to_string(), t.to_vec()));
        }
    }
}

impl Turn {
    /// What the model read and said, followed by what `rendered` has after that; `None` where `rendered` is not its continuation.
    fn continued(&self, rendered: &[u32], tokenizer: &Tokenizer) -> Option<Vec<u32>> {
        let (text, said) = self.answer.as_ref()?;
        let after = rendered.strip_prefix(self.rendered.as_slice())?;
        let end = end_of(text, after, tokenizer)?;
        let said = match said.split_last() {
            Some((&last, rest)) if tokenizer.is_end_of_generation(last) => rest,
            _ => said,
        };
        Some([&self.fed, said, &after[end..]].concat())
    }
}

/// How many of `tokens` are the answer `text`, which the template put in front of something else. `None` where it shows the answer in
/// another form, without its reasoning for one, or where the answer's end and what follows share a token.
fn end_of(text: &str, tokens: &[u32], tokenizer: &Tokenizer) -> Option<usize> {
    // An answer cannot hold a control token, so the first one is the template's. Many templates trim what is before it.
    let control = tokens.iter().position(|&id| tokenizer.is_control(id));
    if let Some(end) = control.filter(|&end| tokenizer.decode(&tokens[..end]).trim() == text.trim()) {
        return Some(end);
    }
    let mut detokenizer = Detokenizer::continuing(tokenizer);
    let mut rest = text;
    for (i, &id) in tokens.iter().enumerate() {
        if rest.is_empty() {
            return Some(i);
        }
        rest = rest.strip_prefix(detokenizer.push(id).as_str())?;
    }
    None
}
