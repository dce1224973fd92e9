//! Clients that go away, send nonsense, or come all at once; and the end of a server.

use crate::common::{TestServer, eventually, fixture, metric, read_head, read_reply, serve};
use serde_json::{Value, json};
use std::io::BufReader;
use std::time::Duration;
use zinc_testkit::Rng;

const PATH: &str = "/v1/chat/completions";
/// A model whose answers take seconds.
const SLOW: &str = "smollm2-135m-instruct-q4_1.gguf";

fn long(stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": "x"}], "stream": stream, "ignore_eos": true, "temperature": 0})
}

fn small(server: &TestServer) -> String {
    let body = json!({"messages": [{"role": "user", "content": "y"}], "max_tokens": 3, "temperature": 0});
    server.ok(PATH, &body)["choices"][0]["message"]["content"].to_string()
}

#[test]
fn nonsense_is_answered() {
    let server = serve(&fixture("qwen3"), |config, _| config.body_limit = 100_000);
    let want = small(&server);
    let deep = "[".repeat(50_000);
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"null",
        b"\xff\xfe\x00",
        b"{\"messages\": 3}",
        b"{\"messages\": [3]}",
        b"{\"messages\": [{\"role\": \"user\", \"content\": {\"a\": 1}}]}",
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": 7}]}",
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": -5}",
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"temperature\": 1e999}",
        b"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"logit_bias\": {\"-1\": 0}}",
        deep.as_bytes(),
    ];
    for path in [
        PATH,
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/tokenize",
        "/detokenize",
        "/apply-template",
    ] {
        for body in bodies {
            let reply = server.request("POST", path, &[], body);
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
            // What says how tokens are chosen does not matter to `/apply-template`.
            assert!(reply.status == 400 || path == "/apply-template", "{path} {shown:?}: {}", reply.text());
            assert!(reply.status == 200 || reply.json()["error"]["message"].is_string());
        }
    }
    assert_eq!(server.request("POST", PATH, &[], &vec![b'x'; 200_000]).status, 413);
    // A whole JSON value of each kind in each field.
    let fields = [
        "n",
        "stop",
        "seed",
        "top_p",
        "top_k",
        "min_p",
        "tools",
        "tool_choice",
        "response_format",
        "stream",
        "stream_options",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "chat_template_kwargs",
        "max_tokens",
        "model",
    ];
    for field in fields {
        for value in
            [json!("x"), json!(-1), json!(1e30), json!([]), json!([{}]), json!({"type": []}), json!(true)]
        {
            let mut body = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1});
            body[field] = value.clone();
            let status = server.post(PATH, &body).status;
            assert!([200, 400].contains(&status), "{field} {value}: {status}");
        }
    }
    assert_eq!(small(&server), want, "the server goes on as before");
}

#[test]
fn who_goes_away_frees_everything() {
    let Some(model) = zinc_testkit::model_file(SLOW) else { return };
    let server = serve(&model, |_, options| (options.sequences, options.context) = (2, Some(2048)));
    for streamed in [true, false] {
        let before = metric(&server, "zinc_cancelled_total");
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(server.send("POST", PATH, &[], long(streamed).to_string().as_bytes()));
        }
        eventually("two run and two wait", || {
            metric(&server, "zinc_requests_running") == 2.0 && metric(&server, "zinc_requests_waiting") == 2.0
        });
        drop(clients);
        eventually("all are gone", || metric(&server, "zinc_cancelled_total") == before + 4.0);
        eventually("their pages too", || metric(&server, "zinc_kv_pages_used") == 0.0);
    }
    small(&server);
}

#[test]
fn a_full_queue_says_when_to_come_again() {
    let Some(model) = zinc_testkit::model_file(SLOW) else { return };
    let server = serve(&model, |config, options| {
        config.queue = 1;
        (options.sequences, options.context) = (1, Some(2048));
    });
    let running = server.send("POST", PATH, &[], long(true).to_string().as_bytes());
    eventually("one runs", || metric(&server, "zinc_requests_running") == 1.0);
    let waiting = server.send("POST", PATH, &[], long(true).to_string().as_bytes());
    eventually("one waits", || metric(&server, "zinc_requests_waiting") == 1.0);
    let refused = server.post(PATH, &long(false));
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some_and(|s| s.parse::<u32>().is_ok()));
    assert_eq!(refused.json()["error"]["code"], "queue_full");
    drop((running, waiting));
    eventually("there is room again", || {
        server.post(PATH, &json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})).status
            == 200
    });
}

#[test]
fn a_server_that_stops_finishes_what_it_has() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let mut body = long(true);
    body["max_tokens"] = 60.into();
    let mut stream = BufReader::new(server.send("POST", PATH, &[], body.to_string().as_bytes()));
    assert_eq!(read_head(&mut stream).0, 200);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).map(|_| text)
    });
    server.stop().expect("a clean end");
    let text = reader.join().unwrap().unwrap();
    assert!(text.contains("\"finish_reason\":\"length\"") && text.contains("[DONE]"), "{text}");
}

#[test]
fn the_deadline_ends_what_does_not_finish() {
    let Some(model) = zinc_testkit::model_file(SLOW) else { return };
    let server = serve(&model, |config, options| {
        config.drain = Duration::from_millis(50);
        options.context = Some(2048);
    });
    let mut stream = BufReader::new(server.send("POST", PATH, &[], long(false).to_string().as_bytes()));
    eventually("it runs", || metric(&server, "zinc_requests_running") == 1.0);
    server.stop().expect("a clean end");
    let reply = read_reply(&mut stream);
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("shutting down"), "{}", reply.text());
}

/// Random JSON out of the words that requests are made of.
fn random_json(dice: &mut Rng, depth: u64) -> Value {
    const WORDS: [&str; 14] = [
        "user",
        "assistant",
        "tool",
        "text",
        "function",
        "auto",
        "x",
        "",
        "<|im_end|>",
        "é🙂",
        "json_schema",
        "tool_use",
        "tool_result",
        "message",
    ];
    match dice.below(if depth == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.below(5) as i64 - 2),
        3 => json!(f64::from(dice.below(100) as u32) / 7.0),
        4 => json!(WORDS[dice.below(14)]),
        5 => (0..dice.below(3)).map(|_| random_json(dice, depth - 1)).collect(),
        _ => random_object(dice, depth - 1),
    }
}

fn random_object(dice: &mut Rng, depth: u64) -> Value {
    const KEYS: [&str; 30] = [
        "messages",
        "role",
        "content",
        "type",
        "text",
        "prompt",
        "input",
        "tools",
        "function",
        "name",
        "parameters",
        "tool_choice",
        "arguments",
        "tool_calls",
        "response_format",
        "json_schema",
        "schema",
        "stop",
        "n",
        "temperature",
        "logprobs",
        "top_logprobs",
        "system",
        "tool_use_id",
        "input_schema",
        "reasoning",
        "effort",
        "tokens",
        "chat_template_kwargs",
        "logit_bias",
    ];
    let mut object = json!({});
    for _ in 0..dice.below(5) {
        object[KEYS[dice.below(30)]] = random_json(dice, depth);
    }
    object
}

#[test]
fn random_requests_are_answered() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let mut dice = Rng::new(42);
    for i in 0..400 {
        let mut body = random_object(&mut dice, 3);
        let say =
            json!([{"role": "user", "content": random_json(&mut dice, 2)}, random_object(&mut dice, 3)]);
        let path = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"][i % 4];
        (body["messages"], body["input"], body["prompt"]) = (say.clone(), say, json!("x"));
        (body["max_tokens"], body["max_output_tokens"]) = (2.into(), 2.into());
        let status = server.post(path, &body).status;
        assert!([200, 400].contains(&status), "{path} {body}: {status}");
    }
    small(&server);
}
