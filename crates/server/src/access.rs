//! Around every request: who may ask, and the request log.

use crate::app::Shared;
use crate::config::Config;
use crate::error::ApiError;
use crate::id;
use crate::metrics::RequestLabels;
use crate::page;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use subtle::{Choice, ConstantTimeEq};

/// The header with a request's number.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Who asks.
#[derive(Debug, Clone)]
pub struct Client {
    /// The key, else the address. The scheduler is fair between these.
    pub name: Arc<str>,
    /// The request's number.
    pub request: RequestNumber,
}

/// A request's number, in its answer's header and in the log.
#[derive(Debug, Clone, Default)]
pub struct RequestNumber(pub Arc<str>);

/// Routes that need no key, beside the page's files: they say nothing of what others ask.
const OPEN: [&str; 4] = ["/", "/health", "/metrics", "/openapi.json"];

fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || path.starts_with(page::PREFIX)
}

/// Whether a request that names this host may be answered. A web page whose own name was made to point at this machine (DNS rebinding)
/// is of the server's origin to a browser; the name that it asked for gives it away. Who listens for others has names that only
/// `allowed_hosts` knows.
fn may_address(config: &Config, host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let allowed = &config.allowed_hosts;
    let open = !config.address.ip().is_loopback() && allowed.is_empty();
    open || ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
        || config.address.ip().to_string() == name
        || allowed.iter().any(|a| a == "*" || a.eq_ignore_ascii_case(name))
}

/// Lets through who asks for a host that is ours and has a key, and notes who it is.
pub async fn authorise(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let host =
        request.headers().get(header::HOST).map(|h| String::from_utf8_lossy(h.as_bytes()).into_owned());
    let host = host.or_else(|| request.uri().authority().map(ToString::to_string));
    if let Some(host) = host.filter(|host| !may_address(&app.config, host)) {
        let message = format!(
            "this server does not go by the name `{host}`\nhint: ask for `localhost`, or start it with `--allowed-host NAME`"
        );
        let mut error = ApiError::new(StatusCode::FORBIDDEN, message);
        error.code = Some("host_not_allowed");
        return error.into_response();
    }
    let key = key_of(request.headers()).map(str::to_owned);
    let keys = &app.config.api_keys;
    let path = request.uri().path();
    if !keys.is_empty() && !is_open(path) && !key.as_deref().is_some_and(|key| known(key, keys)) {
        let message = match key {
            Some(_) => "the API key is wrong",
            None => "an API key is needed\nhint: send it as `Authorization: Bearer KEY`",
        };
        let mut error = ApiError::new(StatusCode::UNAUTHORIZED, message);
        error.code = Some("invalid_api_key");
        return error.into_response();
    }
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|c| c.0.ip().to_string());
    let name = key.filter(|_| !keys.is_empty()).or(address).unwrap_or_default().into();
    let number = request.extensions().get::<RequestNumber>().cloned().unwrap_or_default();
    request.extensions_mut().insert(Client { name, request: number });
    next.run(request).await
}

/// Compares with every key in full, so that the time tells nothing of them but their length.
fn known(key: &str, keys: &[String]) -> bool {
    let same = |known: &String| known.as_bytes().ct_eq(key.as_bytes());
    keys.iter().fold(Choice::from(0), |any, known| any | same(known)).into()
}

fn key_of(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer "));
    bearer.or_else(|| text(HeaderName::from_static("x-api-key"))).map(str::trim)
}

/// Writes a line and counts. A streamed answer is counted when it begins; its end has a line of its own.
pub async fn record(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let number = id::new("req");
    let method = request.method().clone();
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |p| p.as_str().to_owned());
    let path = request.uri().path().to_owned();
    request.extensions_mut().insert(RequestNumber(number.as_str().into()));
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    app.metrics.requests.get_or_create(&RequestLabels { route, status }).inc();
    let milliseconds = began.elapsed().as_millis() as u64;
    tracing::info!(request = %number, %method, %path, status, milliseconds, "request");
    if let Ok(value) = HeaderValue::from_str(&number) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_goes_by_its_own_names_and_those_it_was_given() {
        let mut config = Config::new("m");
        let may = |config: &Config, host| may_address(config, host);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]"] {
            assert!(may(&config, host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "", "127.0.0.1.evil.example:80"]
        {
            assert!(!may(&config, host), "{host}");
        }
        config.allowed_hosts = vec!["models.example".into()];
        assert!(may(&config, "Models.Example:443") && !may(&config, "evil.example"));
        config.address = "0.0.0.0:80".parse().expect("an address");
        assert!(!may(&config, "evil.example") && may(&config, "models.example"));
        config.allowed_hosts.clear();
        assert!(may(&config, "any.example"), "who listens for others has names that are not known");
        config.address = "127.0.0.1:80".parse().expect("an address");
        config.allowed_hosts = vec!["*".into()];
        assert!(may(&config, "any.example"));
    }
}
