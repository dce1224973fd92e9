//! The chat page: files in the executable, nothing from elsewhere.

use crate::error::ApiError;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::hash::{DefaultHasher, Hasher};

/// Where the page's files are, but the page itself.
pub const PREFIX: &str = "/page/";

/// What the page may do: load its own files, and ask this server. No script can make markup out of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($name:literal $kind:ident)+) => {
        &[$(File { name: $name, kind: $kind, text: include_str!($name) }),+]
    };
}

const FILES: &[File] = files! {
    "index.html" HTML
    "style.css" STYLE
    "text.css" STYLE
    "icon.svg" IMAGE
    "answer.js" SCRIPT
    "api.js" SCRIPT
    "app.js" SCRIPT
    "dom.js" SCRIPT
    "format.js" SCRIPT
    "highlight.js" SCRIPT
    "inline.js" SCRIPT
    "languages.js" SCRIPT
    "markdown.js" SCRIPT
    "memory.js" SCRIPT
    "messages.js" SCRIPT
    "meters.js" SCRIPT
    "settings.js" SCRIPT
    "sidebar.js" SCRIPT
    "sse.js" SCRIPT
    "store.js" SCRIPT
    "theme.js" SCRIPT
};

/// `GET /`
pub async fn index(headers: HeaderMap) -> Response {
    file(Path("index.html".into()), headers).await
}

/// `GET /page/{name}`
pub async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|f| f.name == name) {
        Some(file) => file.response(&headers),
        None => {
            ApiError::new(StatusCode::NOT_FOUND, format!("the page has no file `{name}`")).into_response()
        }
    }
}

impl File {
    /// The file; 304 to a browser that has it. Browsers ask each time, so that a new executable brings its page at once.
    fn response(&self, headers: &HeaderMap) -> Response {
        let tag = self.tag();
        let known = headers.get(header::IF_NONE_MATCH).is_some_and(|t| t.as_bytes() == tag.as_bytes());
        let about = [(header::ETAG, tag.as_str()), (header::CACHE_CONTROL, "no-cache")];
        if known {
            return (StatusCode::NOT_MODIFIED, about).into_response();
        }
        let safety = [
            (header::CONTENT_TYPE, self.kind),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        (about, safety, self.text).into_response()
    }

    /// Names the contents.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.text.as_bytes());
        format!("\"{:016x}\"", hasher.finish())
    }
}
