//! `/v1/embeddings`

use super::completions::Prompts;
use super::input::Body;
use crate::app::Shared;
use crate::error::{ApiError, ApiResult};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

/// The body. What is not here is ignored.
#[derive(Debug, Deserialize)]
pub struct EmbeddingRequest {
    model: Option<String>,
    input: Prompts,
    encoding_format: Option<String>,
    dimensions: Option<usize>,
}

/// Inputs of a request at most.
const INPUTS: usize = 2048;

/// `POST /v1/embeddings`
pub async fn create(State(app): State<Shared>, Body(body): Body<EmbeddingRequest>) -> ApiResult<Json<Value>> {
    let loaded = app.model(body.model.as_deref())?;
    let base64 = match body.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::field("encoding_format", "it must be `float` or `base64`")),
    };
    let prompts = body.input.read(&loaded)?;
    if prompts.is_empty() || prompts.len() > INPUTS {
        return Err(ApiError::field("input", format!("there must be from 1 to {INPUTS} inputs")));
    }
    let context = loaded.context();
    if let Some(long) = prompts.iter().find(|p| p.tokens.len() > context) {
        return Err(ApiError::context_length(long.tokens.len(), context));
    }
    let (mut data, mut read) = (Vec::new(), 0);
    for (index, prompt) in prompts.into_iter().enumerate() {
        read += prompt.tokens.len();
        let stopped = || ApiError::unavailable("the engine has stopped", None);
        let answer = loaded.worker.embed(prompt.tokens).ok_or_else(stopped)?.await.map_err(|_| stopped())?;
        let vector = answer.map_err(ApiError::bad)?;
        if body.dimensions.is_some_and(|n| n != vector.len()) {
            let message = format!("the model's vectors have {} elements", vector.len());
            return Err(ApiError::field("dimensions", message));
        }
        let vector = if base64 { encode(&vector).into() } else { json!(vector) };
        data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
    }
    let usage = json!({"prompt_tokens": read, "total_tokens": read});
    Ok(Json(json!({"object": "list", "model": loaded.name, "data": data, "usage": usage})))
}

/// Base64 (RFC 4648) of the numbers' little-endian bytes.
fn encode(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0, |bits, &b| bits << 8 | u32::from(b)) << (8 * (3 - part.len()));
        let digit = |i: usize| char::from(DIGITS[(bits >> (18 - 6 * i)) as usize & 63]);
        text.extend((0..4).map(|i| if i <= part.len() { digit(i) } else { '=' }));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn base64_of_one_two_and_three_numbers() {
        assert_eq!(encode(&[1.0]), "AACAPw==");
        assert_eq!(encode(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(encode(&[0.0, 1.0, 0.5]), "AAAAAAAAgD8AAAA/");
    }
}
