//! The same answer alone and in company, cold and after a prefix that was computed before.

use crate::common::{TestServer, eventually, fixture, metric, serve, serve_engine};
use serde_json::{Value, json};
use std::sync::Arc;
use zinc_engine::{Engine, KvType, LoadOptions};
use zinc_server::Config;

const PATH: &str = "/v1/completions";

/// A greedy request of its own, of up to `length` tokens.
fn body(i: usize, length: usize) -> Value {
    let tokens: Vec<usize> = (0..10 + 13 * i % (length - 10)).map(|p| 20 + (p * (i + 3) + i) % 400).collect();
    json!({"prompt": tokens, "max_tokens": 12, "temperature": 0, "logprobs": 2, "ignore_eos": true})
}

/// What must be the same: text, tokens and their probabilities to the last bit.
fn said(answer: &Value) -> Value {
    json!([answer["choices"][0]["text"], answer["choices"][0]["logprobs"]])
}

fn at_once(server: &TestServer, bodies: &[Value]) -> Vec<Value> {
    std::thread::scope(|scope| {
        let ask = |b| scope.spawn(move || said(&server.ok(PATH, b)));
        let running: Vec<_> = bodies.iter().map(ask).collect();
        running.into_iter().map(|r| r.join().expect("an answer")).collect()
    })
}

/// Sixteen at once while nothing is known, four at once, each alone, and all at once again, when all have prefixes.
fn check(server: &TestServer, length: usize, tokens: usize) {
    let mut bodies: Vec<Value> = (0..20).map(|i| body(i, length)).collect();
    bodies.iter_mut().for_each(|b| b["max_tokens"] = tokens.into());
    let mut company = at_once(server, &bodies[..16]);
    company.extend(at_once(server, &bodies[16..]));
    let alone: Vec<Value> = bodies.iter().map(|b| said(&server.ok(PATH, b))).collect();
    assert_eq!(company, alone);
    assert_eq!(at_once(server, &bodies[..16]), alone[..16], "after known prefixes");
    eventually("no page stays in use", || metric(server, "zinc_kv_pages_used") == 0.0);
}

#[test]
fn alone_with_four_and_with_sixteen_on_the_cpu() {
    for name in ["qwen3", "gemma3"] {
        check(&serve(&fixture(name), |_, options| options.sequences = 16), 100, 12);
    }
}

#[test]
fn alone_with_four_and_with_sixteen_on_vulkan() {
    let model = fixture("llama");
    let mut options = LoadOptions::new(&model);
    (options.context, options.sequences, options.kv_type) = (Some(48), 16, KvType::F16);
    options.chunk = Some(8);
    let gguf = Arc::new(zinc_gguf::Gguf::open(&model).expect("a model"));
    let mut config = Config::new("tiny");
    config.address.set_port(0);
    let server = serve_engine(config, move || {
        Engine::on_device(gguf, zinc_vulkan::testing::device(), &options, &mut |_| ())
    });
    check(&server, 24, 3);
    // Embeddings, read in sequences of their own.
    let embed = json!({"input": vec!["some text"; 3]});
    let vectors = server.ok("/v1/embeddings", &embed)["data"].clone();
    assert!((0..3).all(|i| vectors[i]["embedding"] == vectors[0]["embedding"]), "{vectors}");
    // Two choices and a request like them read the same prompt once.
    let before = metric(&server, "zinc_prefix_hit_tokens_total");
    let tokens: Vec<usize> = (0..40).map(|p| 500 - p * 3).collect();
    let body = json!({"prompt": tokens, "max_tokens": 1, "temperature": 0, "n": 3});
    let answer = server.ok(PATH, &body);
    let choices = answer["choices"].as_array().expect("choices");
    assert!(choices.iter().all(|c| c["text"] == choices[0]["text"]));
    assert_eq!(metric(&server, "zinc_prefix_hit_tokens_total"), before + 2.0 * 32.0);
    // More prefixes than there are pages: the oldest go, and what runs is right.
    let pages = 16.0 * 3.0;
    for i in 0..24 {
        let tokens: Vec<usize> = (0..44).map(|p| (p * 5 + i * 17) % 500).collect();
        server.ok(PATH, &json!({"prompt": tokens, "max_tokens": 1}));
    }
    assert!(metric(&server, "zinc_kv_pages_cached") <= pages);
    assert!(metric(&server, "zinc_kv_pages_evicted_total") > 0.0);
    assert_eq!(server.ok(PATH, &body)["choices"][2]["text"], choices[0]["text"]);
}

/// On a device, recurrent states are kept where a conversation's next turn begins, where prompts part, and at the end of an answer; what goes
/// on from them says what a server says that knows nothing.
#[test]
fn recurrent_states_are_kept_for_the_next_turn() {
    let serve = || {
        let gguf = Arc::new(zinc_gguf::Gguf::open(&fixture("qwen35")).expect("a model"));
        let mut options = LoadOptions::new("");
        (options.context, options.sequences, options.chunk) = (Some(128), 2, Some(64));
        options.checkpoint_bytes = 4 << 20;
        let mut config = Config::new("tiny");
        config.address.set_port(0);
        serve_engine(config, move || {
            Engine::on_device(gguf, zinc_vulkan::testing::device(), &options, &mut |_| ())
        })
    };
    let (server, cold) = (serve(), serve());
    let text = |n: usize, seed: usize| (0..n).map(move |p| 30 + p * seed % 300);
    let ask = |prompt: &[usize], max_tokens: usize| json!({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 2, "ignore_eos": true});
    let check = |prompt: &[usize], max_tokens: usize, cached: u64| {
        let answer = server.ok(PATH, &ask(prompt, max_tokens));
        let details = &answer["usage"]["prompt_tokens_details"];
        assert_eq!(details["cached_tokens"].as_u64(), Some(cached), "{} tokens", prompt.len());
        assert_eq!(answer["timings"]["prompt_n"].as_u64(), Some(prompt.len() as u64 - cached));
        assert_eq!(said(&answer), said(&cold.ok(PATH, &ask(prompt, max_tokens))), "{} tokens", prompt.len());
    };
    let first: Vec<usize> = text(60, 7).collect();
    check(&first, 3, 0);
    // The next turn lacks the last tokens of the prompt: states of 48 are there.
    let second: Vec<usize> = first[..55].iter().copied().chain(text(40, 11)).collect();
    check(&second, 3, 48);
    // Others that share 32 tokens: the first of them finds no states there, and leaves some.
    let other = |seed| first[..40].iter().copied().chain(text(30, seed)).collect::<Vec<_>>();
    check(&other(13), 2, 0);
    check(&other(17), 2, 32);
    check(&second, 2, 80);
}

#[test]
fn a_known_prefix_changes_nothing_but_the_time() {
    for name in ["qwen3", "qwen35"] {
        let server = serve(&fixture(name), |_, options| options.sequences = 2);
        let turn = |n: usize| {
            let tokens: Vec<usize> = (0..n).map(|p| 30 + p * 7 % 300).collect();
            json!({"prompt": tokens, "max_tokens": 4, "temperature": 0, "logprobs": 2, "ignore_eos": true})
        };
        let cold = serve(&fixture(name), |_, options| options.sequences = 2);
        server.ok(PATH, &turn(100));
        let warm = server.ok(PATH, &turn(150));
        let details = &warm["usage"]["prompt_tokens_details"];
        if name == "qwen3" {
            assert!(details["cached_tokens"].as_u64() >= Some(96), "{name}: {details}");
            assert_eq!(
                warm["timings"]["prompt_n"].as_u64(),
                Some(150 - details["cached_tokens"].as_u64().unwrap())
            );
        }
        assert_eq!(said(&warm), said(&cold.ok(PATH, &turn(150))), "{name}");
        // Another end after the same beginning.
        assert_eq!(said(&server.ok(PATH, &turn(120))), said(&cold.ok(PATH, &turn(120))), "{name}");
    }
}
