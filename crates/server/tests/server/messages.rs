//! Anthropic's API.

use crate::common::{events, fixture, serve};
use serde_json::{Value, json};

#[test]
fn a_message_whole_streamed_and_counted() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let mut body = json!({
        "model": "claude-anything", "max_tokens": 8, "temperature": 0, "system": [{"type": "text", "text": "s"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
        ],
    });
    let whole = server.ok("/v1/messages", &body);
    assert_eq!((&whole["type"], &whole["role"]), (&json!("message"), &json!("assistant")));
    let text = whole["content"][0]["text"].as_str().unwrap();
    let counted = server.ok("/v1/messages/count_tokens", &body);
    let usage = &whole["usage"];
    let read = usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(counted["input_tokens"].as_u64(), Some(read));

    body["stream"] = true.into();
    let reply = server.post("/v1/messages", &body);
    let names: Vec<String> =
        reply.text().lines().filter_map(|l| l.strip_prefix("event: ")).map(str::to_owned).collect();
    let events = events(&reply.text());
    assert_eq!(names.len(), events.len());
    assert!(events.iter().zip(&names).all(|(e, n)| e["type"] == **n));
    assert_eq!((names[0].as_str(), names[1].as_str()), ("message_start", "content_block_start"));
    assert_eq!(names.last().unwrap(), "message_stop");
    let streamed: String = events.iter().filter_map(|e| e["delta"]["text"].as_str()).collect();
    assert_eq!(streamed, text);
    let ended = events.iter().find(|e| e["type"] == "message_delta").unwrap();
    assert_eq!(ended["delta"]["stop_reason"], whole["stop_reason"]);
    assert_eq!(ended["usage"]["output_tokens"], usage["output_tokens"]);
}

#[test]
fn tools_stops_and_an_answer_that_was_begun() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let tool = json!({"name": "f", "input_schema": {"type": "object", "properties": {"b": {"type": "boolean"}},
                      "required": ["b"], "additionalProperties": false}});
    let body = json!({"max_tokens": 100, "messages": [{"role": "user", "content": "x"}], "tools": [tool],
                      "tool_choice": {"type": "tool", "name": "f"}});
    let called = server.ok("/v1/messages", &body);
    assert_eq!(called["stop_reason"], "tool_use", "{called}");
    assert!(called["content"][0]["input"]["b"].is_boolean());
    assert!(called["content"][0]["id"].as_str().unwrap().starts_with("toolu_"));

    let begun = |text: &str| {
        json!({"max_tokens": 6, "temperature": 0, "messages": [
            {"role": "user", "content": "x"}, {"role": "assistant", "content": text}]})
    };
    let counted = |text: &str| server.ok("/v1/messages/count_tokens", &begun(text))["input_tokens"].as_u64();
    assert!(counted("ab cd ef") > counted("ab"), "the answer goes on after its beginning");
    server.ok("/v1/messages", &begun("ab"));

    let mut many = begun("ab");
    many["stop_sequences"] = (0..65).map(|i| format!("stop {i}")).collect();
    let refused = server.post("/v1/messages", &many);
    assert_eq!(refused.status, 400, "as many as other APIs take: {}", refused.text());

    let missing = server.post("/v1/messages", &json!({"messages": [{"role": "user", "content": "x"}]}));
    let error: Value = missing.json();
    assert_eq!((missing.status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
}
