//! What must hold of any request and of any stream: what fuzz targets try, and the tests on their seeds.

use crate::access::Client;
use crate::api;
use crate::api::input::{Body, parse};
use crate::app::{App, Shared, Status};
use crate::config::Config;
use crate::error::{ApiError, ApiResult, Shape};
use crate::loaded::Loaded;
use crate::worker::Worker;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;
use zinc_engine::Engine;

/// All routes that take a body.
const ROUTES: [&str; 9] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/tokenize",
    "/detokenize",
    "/apply-template",
];

/// Those of them that stream.
const STREAMED: usize = 4;

/// Where a text is cut.
const CUT: char = '\u{1}';

/// The handlers over a model's tokenizer and template, and in the engine's place someone who says the same to everybody.
pub struct Desk {
    app: Shared,
    runtime: Runtime,
    said: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    /// For the model of an engine, which is not asked for anything else.
    ///
    /// # Panics
    /// Where there is no thread to be had, or the model has no tokenizer.
    pub fn new(engine: &Engine) -> Desk {
        let (worker, inbox) = Worker::new(usize::MAX);
        let said = Arc::new(Mutex::new(vec!["a".to_owned()]));
        let heard = said.clone();
        std::thread::spawn(move || inbox.pretend(&heard));
        let app = App::new(Config::new("tiny"));
        let loaded = Loaded::new(engine, "tiny".into(), worker).expect("a tokenizer");
        app.set_status(Status::Ready(Arc::new(loaded)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        Desk { app: Arc::new(app), runtime: runtime.expect("a runtime"), said }
    }

    /// Status and body of an answer.
    fn ask(&self, route: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.runtime.block_on(async {
            let response = match self.handle(route, body).await {
                Ok(response) => response,
                Err(error) => {
                    let body = error.body(Shape::of_path(route)).to_string();
                    return (error.status.as_u16(), body.into_bytes());
                }
            };
            let status = response.status().as_u16();
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            (status, bytes.expect("a body that ends").to_vec())
        })
    }

    async fn handle(&self, route: &str, body: &[u8]) -> ApiResult<Response> {
        let app = State(self.app.clone());
        let client = Extension(Client { name: "fuzz".into(), request: Default::default() });
        match route {
            "/v1/chat/completions" => api::chat::create(app, client, Body(parse(body)?)).await,
            "/v1/completions" => api::completions::create(app, client, Body(parse(body)?)).await,
            "/v1/responses" => api::responses::create(app, client, Body(parse(body)?)).await,
            "/v1/messages" => api::messages::create(app, client, Body(parse(body)?)).await,
            "/v1/messages/count_tokens" => {
                api::messages::count_tokens(app, Body(parse(body)?)).await.map(IntoResponse::into_response)
            }
            "/v1/embeddings" => {
                api::embeddings::create(app, Body(parse(body)?)).await.map(IntoResponse::into_response)
            }
            "/tokenize" => {
                api::tokens::tokenize(app, Body(parse(body)?)).await.map(IntoResponse::into_response)
            }
            "/detokenize" => {
                api::tokens::detokenize(app, Body(parse(body)?)).await.map(IntoResponse::into_response)
            }
            "/apply-template" => {
                api::tokens::apply_template(app, Body(parse(body)?)).await.map(IntoResponse::into_response)
            }
            _ => Err(ApiError::bad("no such route")),
        }
    }
}

/// A request: a line with the number of the route, then the body. It is answered, or refused for what the client did.
///
/// # Panics
/// When it is not.
pub fn request(desk: &Desk, input: &[u8]) {
    let Some((route, body)) = with_route(input, ROUTES.len()) else { return };
    let (status, answer) = desk.ask(ROUTES[route], body);
    match status {
        200 => assert!(!answer.is_empty()),
        400 => {
            let error: Value = serde_json::from_slice(&answer).expect("an error is JSON");
            assert!(error["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{error}");
        }
        _ => panic!("{status}: {}", String::from_utf8_lossy(&answer)),
    }
}

/// The number on the first line, below `routes`, and the rest.
fn with_route(input: &[u8], routes: usize) -> Option<(usize, &[u8])> {
    let end = input.iter().position(|&b| b == b'\n')?;
    let number: usize = std::str::from_utf8(&input[..end]).ok()?.parse().ok()?;
    Some((number % routes, &input[end + 1..]))
}

/// A stream: a line with the number of the route, then what the model says with its cuts into tokens; the response is cut by the input's bytes. Joined,
/// its deltas are the answer that is not streamed.
///
/// # Panics
/// When they are not.
pub fn stream(desk: &Desk, input: &[u8]) {
    let Some((route, text)) = with_route(input, STREAMED) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    *desk.said.lock().unwrap_or_else(|e| e.into_inner()) = text.split(CUT).map(str::to_owned).collect();
    let path = ROUTES[route];
    let ask = |stream: bool| {
        let (status, answer) = desk.ask(path, question(path, stream).to_string().as_bytes());
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
        answer
    };
    let whole: Value = serde_json::from_slice(&ask(false)).expect("JSON");
    let streamed = ask(true);
    let mut reader = Reader::default();
    let mut rest = streamed.as_slice();
    for size in input.iter().cycle() {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*size) + 1));
        reader.push(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let events: Vec<Value> = reader.events.iter().filter_map(|e| serde_json::from_str(e).ok()).collect();
    let heard = Answer::of_events(path, &events);
    assert_eq!(heard, Answer::of_whole(path, &whole), "{path}: {whole}");
}

fn question(path: &str, stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"t": {"type": "string"}}});
    let messages = json!([{"role": "user", "content": "hi"}]);
    match path {
        "/v1/completions" => json!({"prompt": "hi", "stream": stream}),
        "/v1/responses" => json!({
            "input": "hi", "stream": stream, "tools": [{"type": "function", "name": "f", "parameters": schema}],
        }),
        "/v1/messages" => json!({
            "messages": messages, "max_tokens": 9, "stream": stream, "tools": [{"name": "f", "input_schema": schema}],
        }),
        _ => json!({
            "messages": messages, "stream": stream,
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
        }),
    }
}

/// What a client makes of an answer.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    reasoning: String,
    content: String,
    /// Names and arguments.
    calls: Vec<(String, String)>,
}

impl Answer {
    fn add(&mut self, reasoning: &Value, content: &Value) {
        self.reasoning += reasoning.as_str().unwrap_or_default();
        self.content += content.as_str().unwrap_or_default();
    }

    fn call(&mut self, name: &Value) {
        self.calls.push((name.as_str().unwrap_or_default().into(), String::new()));
    }

    fn arguments(&mut self, more: &Value) {
        let last = self.calls.last_mut().expect("a call comes before its arguments");
        last.1 += more.as_str().unwrap_or_default();
    }

    fn of_whole(path: &str, answer: &Value) -> Answer {
        let mut found = Answer::default();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match path {
            "/v1/completions" => found.add(&Value::Null, &answer["choices"][0]["text"]),
            "/v1/responses" => {
                for item in list(&answer["output"]) {
                    match item["type"].as_str() {
                        Some("reasoning") => found.add(&item["content"][0]["text"], &Value::Null),
                        Some("message") => found.add(&Value::Null, &item["content"][0]["text"]),
                        _ => {
                            found.call(&item["name"]);
                            found.arguments(&item["arguments"]);
                        }
                    }
                }
            }
            "/v1/messages" => {
                for block in list(&answer["content"]) {
                    found.add(&block["thinking"], &block["text"]);
                    if block["type"] == "tool_use" {
                        found.call(&block["name"]);
                        found.arguments(&block["input"].to_string().into());
                    }
                }
            }
            _ => {
                let message = &answer["choices"][0]["message"];
                found.add(&message["reasoning_content"], &message["content"]);
                for call in list(&message["tool_calls"]) {
                    found.call(&call["function"]["name"]);
                    found.arguments(&call["function"]["arguments"]);
                }
            }
        }
        found
    }

    fn of_events(path: &str, events: &[Value]) -> Answer {
        let mut found = Answer::default();
        for event in events {
            match (path, event["type"].as_str()) {
                ("/v1/completions", _) => found.add(&Value::Null, &event["choices"][0]["text"]),
                (_, Some("response.reasoning_text.delta")) => found.add(&event["delta"], &Value::Null),
                (_, Some("response.output_text.delta")) => found.add(&Value::Null, &event["delta"]),
                (_, Some("response.output_item.added")) if event["item"]["type"] == "function_call" => {
                    found.call(&event["item"]["name"]);
                }
                (_, Some("response.function_call_arguments.delta")) => found.arguments(&event["delta"]),
                (_, Some("content_block_start")) if event["content_block"]["type"] == "tool_use" => {
                    found.call(&event["content_block"]["name"]);
                }
                (_, Some("content_block_delta")) => {
                    found.add(&event["delta"]["thinking"], &event["delta"]["text"]);
                    if event["delta"]["partial_json"].is_string() {
                        found.arguments(&event["delta"]["partial_json"]);
                    }
                }
                (_, Some(_)) => {}
                (_, None) => {
                    let delta = &event["choices"][0]["delta"];
                    found.add(&delta["reasoning_content"], &delta["content"]);
                    let call = &delta["tool_calls"][0]["function"];
                    if call["name"].is_string() {
                        found.call(&call["name"]);
                    }
                    if call["arguments"].as_str().is_some_and(|a| !a.is_empty()) {
                        found.arguments(&call["arguments"]);
                    }
                }
            }
        }
        if path == "/v1/messages" {
            for (_, arguments) in &mut found.calls {
                // As the whole message has an input that is no JSON.
                let cut = json!({"INVALID_JSON": *arguments});
                *arguments = serde_json::from_str(arguments).unwrap_or(cut).to_string();
            }
        }
        found
    }
}

/// Server-sent events out of bytes that arrive in pieces cut anywhere, as the HTML standard reads them (9.2.6).
#[derive(Default)]
struct Reader {
    line: Vec<u8>,
    after_return: bool,
    data: Vec<String>,
    events: Vec<String>,
}

impl Reader {
    fn push(&mut self, piece: &[u8]) {
        for &byte in piece {
            let ends = byte == b'\r' || byte == b'\n' && !self.after_return;
            if ends {
                let line = std::mem::take(&mut self.line);
                self.take(std::str::from_utf8(&line).expect("UTF-8"));
            } else if byte != b'\n' {
                self.line.push(byte);
            }
            self.after_return = byte == b'\r';
        }
    }

    fn take(&mut self, line: &str) {
        if line.is_empty() && !self.data.is_empty() {
            self.events.push(std::mem::take(&mut self.data).join("\n"));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            self.data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, request, stream};
    use std::path::Path;
    use zinc_engine::{BackendWish, Engine, LoadOptions};

    fn replay(target: &str, least: usize, check: impl Fn(&Desk, &[u8])) {
        let model = zinc_testkit::fixtures("qwen3").into_iter().next().expect("a fixture").model;
        let options = LoadOptions { backend: BackendWish::Cpu, ..LoadOptions::new(model) };
        let desk = Desk::new(&Engine::load(&options, &mut |_| ()).expect("a model"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let seeds = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let tried = seeds.map(|path| check(&desk, &std::fs::read(path).expect("a seed"))).count();
        assert!(tried >= least, "only {tried} seeds of {target}");
    }

    #[test]
    fn requests() {
        replay("request", 18, request);
    }

    #[test]
    fn streams() {
        replay("stream", 8, stream);
    }
}
