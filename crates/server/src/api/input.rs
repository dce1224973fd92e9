//! Reading requests: JSON whatever the content type says, nulls as absent, errors in the API's words.

use crate::error::{ApiError, ApiResult};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The body as JSON.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let read = Bytes::from_request(request, state).await.map_err(|rejection| {
            let text = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    "the request is too large\nhint: `--max-body` of the server sets the limit".into()
                }
                _ => rejection.body_text(),
            };
            ApiError::new(rejection.status(), text)
        });
        parse(&read?).map(Body)
    }
}

/// Reads JSON.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    serde_json::from_slice(bytes).map_err(|e| {
        let what = if e.is_data() { "the request" } else { "the request is not JSON" };
        ApiError::bad(format!("{what}: {e}"))
    })
}

/// One or several of something.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// As a list.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}
