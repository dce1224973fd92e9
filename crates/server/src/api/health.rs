//! `/health` and `/metrics`

use crate::app::{Shared, Status};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// `GET /health`: 200 where requests are answered, else 503 and why not.
pub async fn health(State(app): State<Shared>) -> Response {
    let (code, body) = match app.status() {
        Status::Ready(_) => (StatusCode::OK, json!({"status": "ok"})),
        Status::Loading => (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "loading"})),
        Status::Draining => (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "draining"})),
        Status::Lost(why) => (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "lost", "reason": why})),
    };
    (code, Json(body)).into_response()
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}
