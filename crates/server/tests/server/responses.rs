//! OpenAI's newer API.

use crate::common::{fixture, serve};
use serde_json::{Value, json};

#[test]
fn a_response_whole_and_streamed() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let mut body = json!({
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ],
        "instructions": "be brief", "max_output_tokens": 8, "temperature": 0,
        "include": ["message.output_text.logprobs"], "top_logprobs": 2,
    });
    let whole = server.ok("/v1/responses", &body);
    assert_eq!(whole["object"], "response");
    let part = &whole["output"][0]["content"][0];
    assert_eq!(part["type"], "output_text");
    assert!(!part["logprobs"].as_array().unwrap().is_empty());

    body["stream"] = true.into();
    let events = server.stream("/v1/responses", &body);
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        &kinds[..4],
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
    );
    assert!(events.iter().enumerate().all(|(i, e)| e["sequence_number"] == i));
    let text: String = events
        .iter()
        .filter(|e| e["type"] == "response.output_text.delta")
        .filter_map(|e| e["delta"].as_str())
        .collect();
    assert_eq!(json!(text), part["text"]);
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], part["text"]);
    assert_eq!(last["status"], whole["status"]);
    assert_eq!(last["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

#[test]
fn schemas_tools_and_what_is_refused() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let schema = json!({"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"],
                        "additionalProperties": false});
    let body = json!({"input": "x", "max_output_tokens": 80,
                      "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}});
    let answer = server.ok("/v1/responses", &body);
    let text = answer["output"][0]["content"][0]["text"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert!(["a", "b"].contains(&value["k"].as_str().unwrap()));

    let tool = json!({"type": "function", "name": "f", "parameters": schema});
    let mut body = json!({"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "f"}});
    let called = server.ok("/v1/responses", &body);
    assert_eq!(
        (&called["output"][0]["type"], &called["output"][0]["name"]),
        (&json!("function_call"), &json!("f"))
    );
    body["stream"] = true.into();
    let events = server.stream("/v1/responses", &body);
    let done = events.iter().find(|e| e["type"] == "response.function_call_arguments.done").unwrap();
    serde_json::from_str::<Value>(done["arguments"].as_str().unwrap()).unwrap();

    for wrong in [
        json!({"input": "x", "previous_response_id": "resp_1"}),
        json!({"input": "x", "tools": [{"type": "web_search"}]}),
        json!({"input": 3}),
        json!({"input": []}),
        json!({"input": [{"type": "unheard-of"}]}),
    ] {
        assert_eq!(server.post("/v1/responses", &wrong).status, 400, "{wrong}");
    }
}
