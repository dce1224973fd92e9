//! `--prefill validate` in the server: a prompt whose paths differ fails its request alone, and the answer names the operation.

use crate::common::{TestServer, eventually, fixture, metric, serve_engine};
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_engine::{Engine, Fault, LoadOptions, PrefillMode};
use zinc_server::Config;

fn validating(fault: Option<Fault>) -> TestServer {
    let model = fixture("llama");
    let mut options = LoadOptions::new(&model);
    (options.context, options.sequences, options.chunk) = (Some(48), 2, Some(4));
    options.prefill = PrefillMode::Validate;
    options.validate.fault = fault;
    let gguf = Arc::new(zinc_gguf::Gguf::open(&model).expect("a model"));
    let mut config = Config::new("tiny");
    config.address.set_port(0);
    serve_engine(config, move || {
        Engine::on_device(gguf, zinc_vulkan::testing::device(), &options, &mut |_| ())
    })
}

fn request(tokens: std::ops::Range<u32>) -> Value {
    json!({"prompt": tokens.collect::<Vec<u32>>(), "max_tokens": 3, "temperature": 0, "ignore_eos": true})
}

#[test]
fn a_prompt_whose_paths_differ_is_a_500_that_names_the_operation() {
    let fault = Fault { layer: Some(1), op: "ffn_down".into(), row: Some(5) };
    let server = validating(Some(fault));
    let reply = server.post("/v1/completions", &request(20..27));
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (500, &json!("server_error")));
    // A stream has begun by then: its first event is the error.
    let mut streamed = request(20..27);
    streamed["stream"] = true.into();
    let events = server.stream("/v1/completions", &streamed);
    for error in [&reply.json()["error"], &events[0]["error"]] {
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("layer 1, `ffn_down` (linear), row 5"), "{message}");
    }
    // The server goes on, and nothing of the failed requests stays.
    assert_eq!(server.get("/health").status, 200);
    eventually("no page stays in use", || metric(&server, "zinc_kv_pages_used") == 0.0);
}

#[test]
fn what_validates_is_answered_as_without() {
    let server = validating(None);
    let cold = server.ok("/v1/completions", &request(20..40));
    assert_eq!(cold["usage"]["completion_tokens"], 3);
    // With a prefix that is known, only the rest is compared.
    assert_eq!(server.ok("/v1/completions", &request(20..40))["choices"], cold["choices"]);
}
