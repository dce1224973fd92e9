//! `/tokenize`, `/detokenize`, `/apply-template`

use super::chat_types::ChatRequest;
use super::input::Body;
use crate::app::Shared;
use crate::error::{ApiError, ApiResult};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use zinc_text::ControlTokens;

/// A text, or the messages of a chat.
#[derive(Debug, Deserialize)]
pub struct TokenizeRequest {
    #[serde(alias = "prompt", alias = "text")]
    content: String,
    /// BOS first, where the model wants one.
    #[serde(alias = "add_special_tokens")]
    add_special: Option<bool>,
    /// What is spelt like a control token becomes it.
    parse_special: Option<bool>,
    /// Each token with its text.
    with_pieces: Option<bool>,
}

/// `POST /tokenize`
pub async fn tokenize(
    State(app): State<Shared>,
    Body(body): Body<TokenizeRequest>,
) -> ApiResult<Json<Value>> {
    let loaded = app.loaded()?;
    let tokenizer = &loaded.tokenizer;
    let control = match body.parse_special {
        Some(true) => ControlTokens::Parse,
        _ => ControlTokens::AsText,
    };
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos() && body.add_special.unwrap_or(false));
    let tokens: Vec<u32> = bos.into_iter().chain(tokenizer.encode(&body.content, control)).collect();
    let mut answer = json!({"tokens": tokens, "count": tokens.len()});
    if body.with_pieces == Some(true) {
        answer["tokens"] =
            tokens.iter().map(|&id| json!({"id": id, "piece": tokenizer.token_text(id)})).collect();
    }
    Ok(Json(answer))
}

/// Tokens.
#[derive(Debug, Deserialize)]
pub struct DetokenizeRequest {
    tokens: Vec<u32>,
}

/// `POST /detokenize`
pub async fn detokenize(
    State(app): State<Shared>,
    Body(body): Body<DetokenizeRequest>,
) -> ApiResult<Json<Value>> {
    let loaded = app.loaded()?;
    if let Some(id) = body.tokens.iter().find(|&&t| t >= loaded.summary.vocab) {
        return Err(ApiError::field("tokens", format!("{id} is no token id of this model")));
    }
    let text = loaded.tokenizer.decode(&body.tokens);
    Ok(Json(json!({"content": text, "text": text})))
}

/// `POST /apply-template`: the body of a chat; the text and the tokens that the model would be given.
pub async fn apply_template(
    State(app): State<Shared>,
    Body(body): Body<ChatRequest>,
) -> ApiResult<Json<Value>> {
    let loaded = app.model(body.model.as_deref())?;
    let (conversation, _) = body.conversation(&loaded)?;
    let (text, prompt) = conversation.render(&loaded)?;
    Ok(Json(json!({"prompt": text, "tokens": *prompt.tokens, "count": prompt.tokens.len()})))
}
