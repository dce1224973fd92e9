//! Errors for clients, in the shape of the API that they speak.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

/// What a client is told when something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// OpenAI's `code`.
    pub code: Option<&'static str>,
    /// The field that is wrong.
    pub param: Option<String>,
    /// What is wrong, and what to do.
    pub message: String,
    /// Seconds after which it may work.
    pub retry_after: Option<u32>,
}

/// What a handler answers.
pub type ApiResult<T> = Result<T, ApiError>;

/// Whose shape an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `{"error": {"message", "type", "param", "code"}}`
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}}`
    Anthropic,
}

impl Shape {
    /// The shape for a path.
    pub fn of_path(path: &str) -> Shape {
        if path.starts_with("/v1/messages") { Shape::Anthropic } else { Shape::OpenAi }
    }
}

impl ApiError {
    /// An error of this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, code: None, param: None, message: message.into(), retry_after: None }
    }

    /// A request that makes no sense.
    pub fn bad(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// A field whose value makes no sense.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { param: Some(param.into()), code: Some("invalid_value"), ..ApiError::bad(message) }
    }

    /// A prompt that does not fit.
    pub fn context_length(tokens: usize, context: usize) -> ApiError {
        let message = format!(
            "the prompt has {tokens} tokens, the context holds {context} and needs room for the answer\nhint: shorten the messages, or start the server with a larger `--ctx`"
        );
        ApiError {
            code: Some("context_length_exceeded"),
            param: Some("messages".into()),
            ..ApiError::bad(message)
        }
    }

    /// An error of the server's own.
    pub fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// For now not.
    pub fn unavailable(message: impl Into<String>, retry_after: Option<u32>) -> ApiError {
        ApiError { retry_after, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// OpenAI's `type`.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body.
    pub fn body(&self, shape: Shape) -> Value {
        match shape {
            Shape::OpenAi => json!({"error": {
                "message": self.message, "type": self.kind(), "param": self.param, "code": self.code,
            }}),
            Shape::Anthropic => {
                let kind = match self.status.as_u16() {
                    413 => "request_too_large",
                    503 => "overloaded_error",
                    500..=599 => "api_error",
                    _ => self.kind(),
                };
                json!({"type": "error", "error": {"type": kind, "message": self.message}})
            }
        }
    }

    /// The answer.
    fn response(&self, shape: Shape) -> Response {
        let mut response = (self.status, Json(self.body(shape))).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The error itself; [`in_shape`] makes its body.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Extension(self)).into_response()
    }
}

/// Around every request: errors in the shape of the API that the path belongs to.
pub async fn in_shape(request: Request, next: Next) -> Response {
    let shape = Shape::of_path(request.uri().path());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error.response(shape),
        None => response,
    }
}
