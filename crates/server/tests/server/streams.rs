//! Streams cut anywhere: the deltas, joined, are the answer that is not streamed.

use crate::common::{TestServer, fixture, serve};
use serde_json::{Value, json};

fn content(events: &[Value]) -> String {
    events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect()
}

fn finish(events: &[Value]) -> Option<&str> {
    events.iter().find_map(|e| e["choices"][0]["finish_reason"].as_str())
}

/// Prompts in several scripts; what tiny random models answer is a mix of bytes, half characters included.
fn prompts() -> Vec<String> {
    let seeds = [
        "hello",
        "你好世界",
        "🙂🙃",
        "ÄÖÜ ß",
        "مرحبا",
        "日本語テスト",
        "a\n\nb",
        "<|im_end|>",
        "{\"a\": 1}",
        "नमस्ते",
    ];
    (0..200).map(|i| format!("{} {} {}", seeds[i % 10], i, seeds[(i / 10) % 10])).collect()
}

#[test]
fn two_hundred_prompts_with_stop_strings() {
    let server = serve(&fixture("qwen3"), |_, options| options.sequences = 8);
    std::thread::scope(|scope| {
        for part in prompts().chunks(50) {
            let server = &server;
            let part = part.to_vec();
            scope.spawn(move || part.iter().enumerate().for_each(|(i, p)| one(server, i, p)));
        }
    });
}

fn one(server: &TestServer, i: usize, prompt: &str) {
    let mut body = json!({
        "messages": [{"role": "user", "content": prompt}], "max_tokens": 10, "temperature": 1.5, "seed": i,
    });
    let path = "/v1/chat/completions";
    let mut whole = server.ok(path, &body);
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    // A stop string out of the middle of the answer, across borders of tokens.
    let chars: Vec<char> = text.chars().collect();
    if i.is_multiple_of(2) && chars.len() >= 6 {
        let stop: String = chars[2..5].iter().collect();
        body["stop"] = json!([stop, "never said"]);
        whole = server.ok(path, &body);
        let cut = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(!cut.contains(&stop), "{stop:?} in {cut:?}");
        assert_eq!(cut, text.split(&stop).next().unwrap(), "{prompt:?}, {stop:?}");
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    }
    body["stream"] = true.into();
    let events = server.stream(path, &body);
    assert_eq!(json!(content(&events)), whole["choices"][0]["message"]["content"], "{prompt:?}");
    assert_eq!(finish(&events), whole["choices"][0]["finish_reason"].as_str());
}
