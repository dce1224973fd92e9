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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::config::Config;
    use serde_json::Value;
    use std::sync::Arc;

    #[test]
    fn a_lost_device_is_said_and_requests_are_refused() {
        let app = Arc::new(App::new(Config::new("m")));
        app.set_status(Status::Lost("the device is lost".into()));
        // A drain that follows does not hide the reason.
        app.drain();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (status, body) = runtime.block_on(async {
            let response = health(State(app.clone())).await;
            let status = response.status();
            (status, axum::body::to_bytes(response.into_body(), 1 << 16).await.expect("a body"))
        });
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            (status, body),
            (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "lost", "reason": "the device is lost"}))
        );
        let refused = app.model(Some("m")).err().expect("no model");
        assert_eq!(
            (refused.status, refused.message.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "the device is lost")
        );
    }
}
