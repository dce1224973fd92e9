//! What all handlers share, and the routes.

use crate::access;
use crate::api;
use crate::config::Config;
use crate::error::{self, ApiError, ApiResult};
use crate::loaded::Loaded;
use crate::metrics::Metrics;
use crate::page;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts};
use axum::middleware;
use axum::routing::{get, post};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// How the server is.
#[derive(Clone)]
pub enum Status {
    /// The model is being loaded.
    Loading,
    /// It answers.
    Ready(Arc<Loaded>),
    /// It was told to stop and finishes what it has.
    Draining,
    /// The engine is unusable, for this reason.
    Lost(String),
}

/// What all handlers share.
pub struct App {
    /// What the server was told.
    pub config: Config,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    status: RwLock<Status>,
}

impl App {
    /// A server whose model is being loaded.
    pub fn new(config: Config) -> App {
        App { config, metrics: Arc::default(), status: RwLock::new(Status::Loading) }
    }

    /// How the server is.
    pub fn status(&self) -> Status {
        self.status.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Notes a change.
    pub fn set_status(&self, status: Status) {
        *self.status.write().unwrap_or_else(|e| e.into_inner()) = status;
    }

    /// From now on new requests are refused.
    pub fn drain(&self) {
        if let Status::Ready(_) = self.status() {
            self.set_status(Status::Draining);
        }
    }

    /// The model.
    ///
    /// # Errors
    /// For the client: 503 with the reason.
    pub fn loaded(&self) -> ApiResult<Arc<Loaded>> {
        match self.status() {
            Status::Ready(loaded) => Ok(loaded),
            Status::Loading => Err(ApiError::unavailable("the model is being loaded", Some(5))),
            Status::Draining => Err(ApiError::unavailable("the server is shutting down", Some(5))),
            Status::Lost(why) => Err(ApiError::unavailable(why, None)),
        }
    }

    /// The model, if it goes by this name.
    ///
    /// # Errors
    /// As [`App::loaded`]; 404 for another name, where names are strict.
    pub fn model(&self, name: Option<&str>) -> ApiResult<Arc<Loaded>> {
        let loaded = self.loaded()?;
        match name {
            Some(name) if self.config.strict_model && name != loaded.name => Err(ApiError {
                code: Some("model_not_found"),
                param: Some("model".into()),
                ..ApiError::new(
                    StatusCode::NOT_FOUND,
                    format!("there is no model `{name}`\nhint: this server has `{}`", loaded.name),
                )
            }),
            _ => Ok(loaded),
        }
    }
}

/// The state of handlers.
pub type Shared = Arc<App>;

/// All routes with what surrounds them.
pub fn router(app: Shared) -> Router {
    let limit = DefaultBodyLimit::max(app.config.body_limit);
    let cors = cors(&app.config.origins);
    Router::new()
        .route("/v1/chat/completions", post(api::chat::create))
        .route("/v1/completions", post(api::completions::create))
        .route("/v1/responses", post(api::responses::create))
        .route("/v1/embeddings", post(api::embeddings::create))
        .route("/v1/messages", post(api::messages::create))
        .route("/v1/messages/count_tokens", post(api::messages::count_tokens))
        .route("/v1/models", get(api::models::list))
        .route("/v1/models/{*id}", get(api::models::get))
        .route("/tokenize", post(api::tokens::tokenize))
        .route("/detokenize", post(api::tokens::detokenize))
        .route("/apply-template", post(api::tokens::apply_template))
        .route("/health", get(api::health::health))
        .route("/metrics", get(api::health::metrics))
        .route("/openapi.json", get(api::openapi::document))
        .route("/", get(page::index))
        .route("/page/{name}", get(page::file))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(limit)
        .layer(middleware::from_fn_with_state(app.clone(), access::authorise))
        .layer(middleware::from_fn(error::in_shape))
        .layer(middleware::from_fn_with_state(app.clone(), access::record))
        .layer(cors)
        .with_state(app)
}

/// Pages of this machine and of the named origins may ask. A preflight is answered without a key: browsers send none.
fn cors(origins: &[String]) -> CorsLayer {
    let named: Vec<String> = origins.to_vec();
    let allowed = move |origin: &HeaderValue, _: &Parts| {
        let origin = origin.to_str().unwrap_or_default();
        named.iter().any(|o| o == "*" || o == origin) || is_loopback(origin)
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(allowed))
        .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::RETRY_AFTER, access::REQUEST_ID])
        .max_age(Duration::from_secs(3600))
}

fn is_loopback(origin: &str) -> bool {
    let uri: Option<Uri> = origin.parse().ok();
    let host = uri.as_ref().and_then(Uri::host);
    matches!(host, Some("localhost" | "127.0.0.1" | "[::1]"))
}

async fn not_found(uri: Uri) -> ApiError {
    let message = format!("there is no `{}`\nhint: `/openapi.json` lists what there is", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, message)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("`{}` does not take {method}\nhint: see `/openapi.json`", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
}
