//! The Jinja environment that `transformers` gives to chat templates, on minijinja.

use super::generation::without_generation_blocks;
use super::{date, json};
use crate::Error;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, ErrorKind, State, Value, escape_formatter};
use serde_json::Map;
use std::time::SystemTime;

/// Steps (or blocks of 64 bytes of text) that a render may cost, so that a template from a stranger ends.
const FUEL: u64 = 50_000_000;

/// A parsed template.
pub(super) struct Jinja {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
}

const NAME: &str = "chat_template";
/// Variable that carries the time of a render; no template can name it.
const NOW: &str = "zinc now";

impl Jinja {
    pub(super) fn new(source: &str, bos: &str, eos: &str) -> Result<Self, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| error(&e))?);
        environment.set_debug(false);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(|out, state, value| match float(value) {
            Some(text) => out.write_str(&text).map_err(minijinja::Error::from),
            None => escape_formatter(out, state, value),
        });
        environment.add_filter("tojson", tojson);
        environment.add_filter("string", |value: &Value| float(value).unwrap_or_else(|| value.to_string()));
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", strftime_now);
        let template = without_generation_blocks(source);
        environment.add_template_owned(NAME, template).map_err(|e| error(&e))?;
        Ok(Jinja { environment, source: source.into(), bos: bos.into(), eos: eos.into() })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn render(
        &self,
        context: &Map<String, serde_json::Value>,
        now: SystemTime,
    ) -> Result<String, Error> {
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let own = [("bos_token", self.bos.as_str().into()), ("eos_token", self.eos.as_str().into())];
        let own = own.into_iter().chain([(NOW, Value::from(seconds))]);
        let own = own.map(|(key, value)| (key.to_owned(), value));
        let given = context.iter().map(|(key, value)| (key.clone(), json::to_jinja(value)));
        let template = self.environment.get_template(NAME).map_err(|e| error(&e))?;
        template.render(Value::from_pairs(own.chain(given))).map_err(|e| error(&e))
    }
}

fn float(value: &Value) -> Option<String> {
    let is_float = value.kind() == ValueKind::Number && !value.is_integer();
    is_float.then(|| f64::try_from(value.clone()).ok().map(json::python_float)).flatten()
}

fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, minijinja::Error> {
    // `transformers` writes characters as they are whatever is asked here.
    let _: Option<bool> = kwargs.get("ensure_ascii")?;
    let separators = match kwargs.get::<Option<Vec<String>>>("separators")? {
        None => None,
        Some(pair) => Some(<[String; 2]>::try_from(pair).map_err(|_| {
            minijinja::Error::new(ErrorKind::InvalidOperation, "tojson: `separators` must be a pair")
        })?),
    };
    let style = json::Style {
        indent: kwargs.get("indent")?,
        separators,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    json::write(value, &style).map(Value::from_safe_string)
}

fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, minijinja::Error> {
    let now = state.lookup(NOW).and_then(|v| u64::try_from(v).ok()).unwrap_or(0);
    date::strftime(&format, now).map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e))
}

/// What went wrong, in one line, with the line of the template.
fn error(e: &minijinja::Error) -> Error {
    let reason = match (e.kind(), e.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    Error::Template { line: e.line().unwrap_or(0), reason }
}
