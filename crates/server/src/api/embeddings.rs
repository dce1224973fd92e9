//! `/v1/embeddings`

use super::input::Body;
use crate::app::Shared;
use crate::error::{ApiError, ApiResult};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// The body.
#[derive(Debug, Deserialize)]
pub struct EmbeddingRequest {
    model: Option<String>,
}

/// `POST /v1/embeddings`
pub async fn create(State(app): State<Shared>, Body(body): Body<EmbeddingRequest>) -> ApiResult<Json<Value>> {
    app.model(body.model.as_deref())?;
    let message = "this server does not compute embeddings yet";
    Err(ApiError { code: Some("not_supported"), ..ApiError::new(StatusCode::NOT_IMPLEMENTED, message) })
}
