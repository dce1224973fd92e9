//! What handlers need of a loaded model.

use crate::constrain::Grammars;
use crate::error::{ApiError, ApiResult};
use crate::worker::Worker;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
use zinc_engine::{Engine, Summary};
use zinc_text::{AnswerFormat, ChatTemplate, Tokenizer};

/// A model that answers.
pub struct Loaded {
    /// What it is called.
    pub name: String,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    /// The template's source; empty without one.
    pub template_source: String,
    /// The marks in its answers.
    pub format: AnswerFormat,
    /// What runs it.
    pub summary: Summary,
    /// Seconds since 1970 at which it was loaded.
    pub created: u64,
    /// The engine's thread.
    pub worker: Worker,
    grammars: OnceLock<Result<Grammars, String>>,
}

impl Loaded {
    /// Reads tokenizer and template of an engine's file.
    ///
    /// # Errors
    /// Why the file has no tokenizer or a template that cannot be parsed.
    pub fn new(engine: &Engine, name: String, worker: Worker) -> Result<Loaded, zinc_engine::Error> {
        let metadata = engine.gguf().metadata();
        let source = metadata.optional::<&str>("tokenizer.chat_template")?.unwrap_or_default();
        Ok(Loaded {
            name,
            tokenizer: engine.tokenizer()?.clone(),
            template: ChatTemplate::from_metadata(metadata)?,
            format: AnswerFormat::of_template(source),
            template_source: source.to_owned(),
            summary: engine.summary().clone(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            worker,
            grammars: OnceLock::new(),
        })
    }

    /// The chat template.
    ///
    /// # Errors
    /// For the client: the model has none.
    pub fn template(&self) -> ApiResult<&ChatTemplate> {
        self.template.as_ref().ok_or_else(|| {
            ApiError::bad("the model has no chat template\nhint: `/v1/completions` continues a text with it")
        })
    }

    /// The compiler of grammars, made when it is first needed.
    ///
    /// # Errors
    /// For the client: why the model cannot be constrained.
    pub fn grammars(&self) -> ApiResult<&Grammars> {
        let made = self.grammars.get_or_init(|| Grammars::new(&self.tokenizer));
        made.as_ref().map_err(|e| ApiError::bad(e.clone()))
    }

    /// Tokens that a prompt and its answer may have.
    pub fn context(&self) -> usize {
        self.summary.context as usize
    }
}
