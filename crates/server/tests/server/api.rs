//! The routes, by a client that sends what clients send.

use crate::common::{TestServer, eventually, fixture, metric, serve};
use serde_json::{Value, json};

fn server() -> TestServer {
    serve(&fixture("qwen3"), |_, _| ())
}

fn say(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn a_chat_is_answered_and_streamed_alike() {
    let server = server();
    let body = json!({"model": "any", "messages": say("hello"), "max_tokens": 12, "temperature": 0});
    let whole = server.ok("/v1/chat/completions", &body);
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["model"], "tiny");
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    assert!(["stop", "length"].contains(&choice["finish_reason"].as_str().unwrap()));
    let usage = &whole["usage"];
    assert_eq!(
        usage["total_tokens"].as_u64(),
        Some(usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap())
    );
    assert_eq!(whole["timings"]["prefill_path"], "batched");

    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    streamed["stream_options"] = json!({"include_usage": true});
    let events = server.stream("/v1/chat/completions", &streamed);
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let text: String = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(json!(text), choice["message"]["content"]);
    let usage_chunk = &events[events.len() - 2];
    assert_eq!(usage_chunk["choices"], json!([]));
    assert_eq!(usage_chunk["usage"]["completion_tokens"], usage["completion_tokens"]);
    assert!(usage_chunk["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(0));
}

#[test]
fn choices_seeds_and_probabilities() {
    let server = server();
    let mut body = json!({
        "messages": say("tell me"), "max_tokens": 6, "n": 3, "seed": 7, "temperature": 0.9,
        "logprobs": true, "top_logprobs": 4,
    });
    let first = server.ok("/v1/chat/completions", &body);
    let again = server.ok("/v1/chat/completions", &body);
    let texts = |answer: &Value| -> Vec<String> {
        (0..3).map(|i| answer["choices"][i]["message"]["content"].as_str().unwrap().into()).collect()
    };
    assert_eq!(texts(&first), texts(&again), "a seed gives the same texts");
    assert!(texts(&first).windows(2).any(|w| w[0] != w[1]), "choices differ");
    for choice in first["choices"].as_array().unwrap() {
        let list = choice["logprobs"]["content"].as_array().unwrap();
        assert!(!list.is_empty());
        for entry in list {
            let own = entry["logprob"].as_f64().unwrap();
            let top = entry["top_logprobs"].as_array().unwrap();
            assert_eq!(top.len(), 4);
            let best = top[0]["logprob"].as_f64().unwrap();
            assert!(own <= best && best <= 0.0, "{entry}");
            if let Some(same) =
                top.iter().find(|t| t["token"] == entry["token"] && t["bytes"] == entry["bytes"])
            {
                assert_eq!(same["logprob"], entry["logprob"]);
            }
        }
    }
    body["stream"] = true.into();
    let events = server.stream("/v1/chat/completions", &body);
    for i in 0..3 {
        let of = |e: &&Value| e["choices"][0]["index"] == i;
        let text: String =
            events.iter().filter(of).filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, texts(&first)[i]);
        let count = events.iter().filter(of).filter(|e| !e["choices"][0]["logprobs"].is_null()).count();
        assert_eq!(count, first["choices"][i]["logprobs"]["content"].as_array().unwrap().len());
    }
}

#[test]
fn a_bias_bans_and_forces() {
    let server = server();
    let body = |bias: Value| {
        json!({"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "logit_bias": bias, "logprobs": 1,
               "ignore_eos": true})
    };
    let free = server.ok("/v1/completions", &body(json!({})));
    let forced = server.ok("/v1/completions", &body(json!({"65": 100})));
    let pieces = server.ok("/detokenize", &json!({"tokens": [65]}));
    let tokens = forced["choices"][0]["logprobs"]["tokens"].as_array().unwrap();
    assert_eq!(tokens, &vec![pieces["content"].clone(); 4]);
    let first = &free["choices"][0]["logprobs"]["tokens"][0];
    let id = server.ok("/tokenize", &json!({"content": first}))["tokens"][0].to_string();
    let banned = server.ok("/v1/completions", &body(json!({id: -100})));
    assert_ne!(&banned["choices"][0]["logprobs"]["tokens"][0], first);
}

#[test]
fn completions_of_texts_tokens_and_several() {
    let server = server();
    let one =
        |prompt: Value| json!({"prompt": prompt, "max_tokens": 5, "temperature": 0, "ignore_eos": true});
    let text = server.ok("/v1/completions", &one(json!("hello world")));
    let ids =
        server.ok("/tokenize", &json!({"content": "hello world", "add_special": true}))["tokens"].clone();
    let tokens = server.ok("/v1/completions", &one(ids.clone()));
    assert_eq!(text["choices"][0]["text"], tokens["choices"][0]["text"]);
    let both = server.ok("/v1/completions", &one(json!(["hello world", "other"])));
    assert_eq!(both["choices"][0]["text"], text["choices"][0]["text"]);
    assert_eq!(both["choices"][1]["index"], 1);
    let mut echo = one(json!("hello world"));
    echo["echo"] = true.into();
    let echoed = server.ok("/v1/completions", &echo);
    let want = format!("hello world{}", text["choices"][0]["text"].as_str().unwrap());
    assert_eq!(echoed["choices"][0]["text"], want);
    echo["stream"] = true.into();
    let events = server.stream("/v1/completions", &echo);
    let streamed: String = events.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
    assert_eq!(streamed, want);
}

#[test]
fn what_clients_leave_out_or_send_too_much() {
    let server = server();
    let parts = json!({
        "messages": [
            {"role": "developer", "content": "be brief", "name": null},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        ],
        "max_completion_tokens": 2, "max_tokens": null, "n": null, "stop": null, "seed": null, "tools": null,
        "logit_bias": null, "stream": null, "stream_options": null, "response_format": null, "top_p": null,
        "user": "me", "metadata": {"a": 1}, "store": false, "made_up": [1, {"b": 2}],
    });
    server.ok("/v1/chat/completions", &parts);
    let rendered = server.ok("/apply-template", &parts);
    assert!(rendered["prompt"].as_str().unwrap().contains("one\ntwo"), "{rendered}");
}

#[test]
fn control_tokens_in_messages_stay_text() {
    let server = server();
    let honest = server.ok("/apply-template", &json!({"messages": say("<|im_end|>")}));
    let end =
        server.ok("/tokenize", &json!({"content": "<|im_end|>", "parse_special": true}))["tokens"][0].clone();
    let ends = |answer: &Value| answer["tokens"].as_array().unwrap().iter().filter(|t| **t == end).count();
    let plain = server.ok("/apply-template", &json!({"messages": say("x")}));
    assert_eq!(ends(&honest), ends(&plain));
}

#[test]
fn models_health_page_and_document() {
    let server = server();
    let models = server.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "tiny");
    assert_eq!(server.get("/v1/models/tiny").json()["object"], "model");
    assert_eq!(server.get("/health").json()["status"], "ok");
    assert!(server.get("/").text().contains("zinc"));
    let document = server.get("/openapi.json").json();
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/metrics"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    server.ok("/v1/completions", &json!({"prompt": "a", "max_tokens": 3, "ignore_eos": true}));
    assert_eq!(metric(&server, "zinc_generated_tokens_total"), 3.0);
    let text = server.get("/metrics").text();
    assert!(text.contains("zinc_engine_info{backend=\"cpu\""), "{text}");
    assert!(text.contains("zinc_cache_config_info{block_size=\"16\",num_gpu_blocks=\"80\"} 1"), "{text}");
    eventually("its time is noted", || metric(&server, "zinc_time_to_first_token_seconds_count") == 1.0);
}

/// The document names every metric and every route of the OpenAPI document.
#[test]
fn metrics_and_routes_are_documented() {
    let document = include_str!("../../../../docs/server.md");
    let server = server();
    server.ok("/v1/completions", &json!({"prompt": "a", "max_tokens": 1}));
    let text = server.get("/metrics").text();
    let metrics: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(metrics.len() > 15, "{metrics:?}");
    for metric in &metrics {
        let known = |ending| document.contains(&format!("`{metric}{ending}"));
        assert!(known("`") || known("{") || known("_total`") || known("_total{"), "{metric}");
    }
    let paths = server.get("/openapi.json").json()["paths"].clone();
    for path in paths.as_object().expect("paths").keys() {
        let path = path.replace("{id}", "NAME");
        assert!(document.contains(path.trim_start_matches("/v1")), "{path}");
    }
}

#[test]
fn errors_have_the_apis_shape() {
    let server = serve(&fixture("qwen3"), |config, _| {
        config.strict_model = true;
        config.body_limit = 10_000;
    });
    let long = "word ".repeat(1000);
    let chat = "/v1/chat/completions";
    let cases = [
        (chat, json!({"messages": say("x"), "model": "other"}), 404, "model_not_found"),
        (chat, json!({"messages": say(&long)}), 400, "context_length_exceeded"),
        (chat, json!({"messages": say(&"x".repeat(20_000))}), 413, ""),
        (chat, json!({"messages": []}), 400, ""),
        (chat, json!({"messages": say("x"), "temperature": -1}), 400, ""),
        (chat, json!({"messages": say("x"), "top_logprobs": 3}), 400, "invalid_value"),
        (chat, json!({"messages": say("x"), "n": 0}), 400, "invalid_value"),
        (chat, json!({"messages": [{"role": "<|im_end|>", "content": "x"}]}), 400, "invalid_value"),
        (
            chat,
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            400,
            "invalid_value",
        ),
        (chat, json!({"messages": say("x"), "response_format": {"type": "yaml"}}), 400, "invalid_value"),
        (chat, json!({"messages": say("x"), "tool_choice": "required"}), 400, "invalid_value"),
        (chat, json!([]), 400, ""),
        ("/v1/completions", json!({"prompt": [1, 99_999]}), 400, "invalid_value"),
        ("/v1/completions", json!({"prompt": ""}), 400, ""),
        ("/nowhere", json!({}), 404, ""),
        ("/health", json!({}), 405, ""),
    ];
    for (path, body, status, code) in cases {
        let reply = server.post(path, &body);
        let short = body.to_string().chars().take(100).collect::<String>();
        assert_eq!(reply.status, status, "{path} {short}: {}", reply.text());
        let error = &reply.json()["error"];
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{short}");
        assert!(error["type"].as_str().is_some());
        if !code.is_empty() {
            assert_eq!(error["code"], code, "{short}");
        }
    }
    let anthropic = server.post("/v1/messages", &json!({"messages": []}));
    assert_eq!((anthropic.status, &anthropic.json()["type"]), (400, &json!("error")));
}

#[test]
fn keys_and_origins() {
    let server =
        serve(&fixture("qwen3"), |config, _| config.api_keys = vec!["secret".into(), "other".into()]);
    let path = "/v1/models";
    assert_eq!(server.get(path).status, 401);
    assert_eq!(server.get("/health").status, 200);
    let with = |name, value| server.request("GET", path, &[(name, value)], b"").status;
    assert_eq!(with("authorization", "Bearer secret"), 200);
    assert_eq!(with("authorization", "Bearer other"), 200);
    assert_eq!(with("x-api-key", "other"), 200);
    assert_eq!(with("authorization", "Bearer secre"), 401);
    assert_eq!(with("authorization", "Basic secret"), 401);
    let preflight = |origin| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization, content-type"),
        ];
        server.request("OPTIONS", "/v1/chat/completions", &headers, b"")
    };
    let near = preflight("http://localhost:3000");
    assert_eq!(near.status, 200);
    assert_eq!(near.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert!(near.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(preflight("https://example.org").header("access-control-allow-origin"), None);
}

#[test]
fn a_page_of_another_name_is_refused() {
    let server = server();
    for path in ["/", "/v1/models", "/health"] {
        let reply = server.request("GET", path, &[("host", "evil.example:8080")], b"");
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (403, &json!("host_not_allowed")),
            "{path}"
        );
        assert_eq!(server.request("GET", path, &[("host", "127.0.0.1:8080")], b"").status, 200, "{path}");
    }
}

#[test]
fn embeddings_of_texts_and_tokens() {
    let server = server();
    let ask = |input: Value| server.ok("/v1/embeddings", &json!({"input": input}));
    let vector = |answer: &Value, i: usize| -> Vec<f64> {
        let list = answer["data"][i]["embedding"].as_array().expect("numbers");
        list.iter().map(|v| v.as_f64().expect("a number")).collect()
    };
    let long = "many words ".repeat(30);
    let both = ask(json!(["hello", long]));
    let length: f64 = vector(&both, 1).iter().map(|v| v * v).sum();
    assert!((length - 1.0).abs() < 1e-4);
    assert_eq!(vector(&both, 0).len(), 256);
    assert_eq!(vector(&ask(json!("hello")), 0), vector(&both, 0));
    let ids = server.ok("/tokenize", &json!({"content": "hello", "add_special": true}))["tokens"].clone();
    assert_eq!(vector(&ask(ids), 0), vector(&both, 0));
    let packed = server.ok("/v1/embeddings", &json!({"input": "hello", "encoding_format": "base64"}));
    assert_eq!(packed["data"][0]["embedding"].as_str().map(str::len), Some((256_usize * 4).div_ceil(3) * 4));
    for wrong in [json!({"input": ""}), json!({"input": []}), json!({"input": "x", "dimensions": 3})] {
        assert_eq!(server.post("/v1/embeddings", &wrong).status, 400, "{wrong}");
    }
}
