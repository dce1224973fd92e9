//! Tools that must be called: the three APIs, whole and in pieces.

use crate::common::{TestServer, fixture, serve};
use serde_json::{Value, json};

fn parameters() -> Value {
    json!({
        "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "boolean"}},
        "required": ["n", "b"], "additionalProperties": false,
    })
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters()}})
}

/// Arguments as they must be.
fn check(arguments: &str) {
    let value: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {arguments}"));
    assert!(value["n"].is_u64() && value["b"].is_boolean(), "{value}");
}

/// Calls of a streamed chat, and how many pieces their arguments came in.
fn streamed(server: &TestServer, body: &Value) -> (Vec<(String, String)>, usize) {
    let mut body = body.clone();
    body["stream"] = true.into();
    let events = server.stream("/v1/chat/completions", &body);
    let mut calls: Vec<(String, String)> = Vec::new();
    let mut pieces = 0;
    for call in events.iter().filter_map(|e| e["choices"][0]["delta"]["tool_calls"][0].as_object()) {
        let index = call["index"].as_u64().expect("an index") as usize;
        if index == calls.len() {
            assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()) && call["type"] == "function");
            assert_eq!(call["function"]["arguments"], "");
            calls.push((call["function"]["name"].as_str().expect("a name").into(), String::new()));
        } else {
            assert!(call.get("id").is_none() && call["function"].get("name").is_none(), "once only");
            pieces += 1;
        }
        calls[index].1 += call["function"]["arguments"].as_str().expect("text");
    }
    assert!(events.iter().any(|e| e["choices"][0]["finish_reason"] == "tool_calls"), "{events:?}");
    (calls, pieces)
}

#[test]
fn chats_whole_and_in_pieces() {
    // Hermes, Llama 3, and a model whose template knows no tools.
    for family in ["qwen3", "llama", "gemma3"] {
        let server = serve(&fixture(family), |_, _| ());
        let path = "/v1/chat/completions";
        let mut body = json!({
            "messages": [{"role": "user", "content": "x"}], "tools": [tool("first"), tool("second\"x")], "seed": 3,
            "tool_choice": {"type": "function", "function": {"name": "second\"x"}}, "max_tokens": 200,
        });
        for choice in [body["tool_choice"].clone(), "required".into()] {
            body["tool_choice"] = choice;
            body["parallel_tool_calls"] = false.into();
            let whole = server.ok(path, &body);
            let choice = &whole["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
            assert_eq!(choice["message"]["content"], Value::Null);
            let function = &choice["message"]["tool_calls"][0]["function"];
            assert!(["first", "second\"x"].contains(&function["name"].as_str().expect("a name")));
            check(function["arguments"].as_str().expect("text"));
            let (calls, pieces) = streamed(&server, &body);
            let want = (function["name"].as_str().unwrap(), function["arguments"].as_str().unwrap());
            assert_eq!(calls.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect::<Vec<_>>(), [want]);
            assert!(pieces > 3, "{pieces} pieces of {calls:?}");
        }
    }
}

#[test]
fn messages_and_responses_whole_and_in_pieces() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let tool = json!({"name": "f", "input_schema": parameters()});
    // The greedy answer, so that both are the same.
    let mut body = json!({"max_tokens": 100, "messages": [{"role": "user", "content": "x"}], "tools": [tool],
                          "tool_choice": {"type": "tool", "name": "f"}, "temperature": 0});
    let whole = server.ok("/v1/messages", &body);
    body["stream"] = true.into();
    let events = server.stream("/v1/messages", &body);
    let pieces: Vec<&str> = events.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert!(pieces.len() > 3, "{pieces:?}");
    check(&pieces.concat());
    let input: Value = serde_json::from_str(&pieces.concat()).expect("JSON");
    assert_eq!(input, whole["content"][0]["input"]);
    let kinds: Vec<&str> =
        events.iter().filter_map(|e| e["type"].as_str()).filter(|t| *t != "content_block_delta").collect();
    assert_eq!(
        kinds,
        ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]
    );

    let tool = json!({"type": "function", "name": "f", "parameters": parameters()});
    let mut body = json!({"input": "x", "tools": [tool], "tool_choice": "required", "temperature": 0, "parallel_tool_calls": false});
    let whole = server.ok("/v1/responses", &body);
    body["stream"] = true.into();
    let events = server.stream("/v1/responses", &body);
    let of = |kind: &str| events.iter().filter(|e| e["type"] == kind).cloned().collect::<Vec<Value>>();
    let deltas = of("response.function_call_arguments.delta");
    let joined: String = deltas.iter().filter_map(|e| e["delta"].as_str()).collect();
    assert!(deltas.len() > 3, "{deltas:?}");
    assert_eq!(of("response.function_call_arguments.done")[0]["arguments"], joined);
    assert_eq!(whole["output"][0]["arguments"], joined);
    let item = &of("response.output_item.done")[0]["item"];
    assert!(deltas.iter().all(|e| e["item_id"] == item["id"] && e["output_index"] == 0));
    assert_eq!((&item["arguments"], &item["status"]), (&json!(joined), &json!("completed")));
}

/// An answer that ends in the middle of a call says so, and gives what there is.
#[test]
fn a_call_that_is_cut() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let mut body = json!({"messages": [{"role": "user", "content": "x"}], "tools": [tool("f")], "temperature": 0,
                          "tool_choice": "required", "max_tokens": 200, "parallel_tool_calls": false});
    let whole = server.ok("/v1/chat/completions", &body);
    let arguments = |answer: &Value| {
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    body["max_tokens"] = (whole["usage"]["completion_tokens"].as_u64().expect("a count") - 16).into();
    let cut = server.ok("/v1/chat/completions", &body);
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert!(arguments(&whole).starts_with(&arguments(&cut)), "{cut}");
}

/// A model that knows tools by its template.
#[test]
fn strict_tools_that_nobody_must_call() {
    let Some(model) = zinc_testkit::model_file("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") else { return };
    let server = serve(&model, |_, options| (options.sequences, options.context) = (1, Some(512)));
    let path = "/v1/chat/completions";
    let mut strict = tool("roll");
    strict["function"]["strict"] = true.into();
    // The bias opens a call again and again; what is in it must be what the schema says.
    let opening = json!({"content": "<tool_call>", "parse_special": true});
    let id = server.ok("/tokenize", &opening)["tokens"][0].to_string();
    let body = json!({"messages": [{"role": "user", "content": "x"}], "tools": [strict], "temperature": 0, "max_tokens": 50,
                      "logit_bias": {id: 100}, "stop": ["</tool_call>"]});
    let (calls, pieces) = streamed(&server, &body);
    assert_eq!((calls[0].0.as_str(), calls.len()), ("roll", 1));
    check(&calls[0].1);
    assert!(pieces > 3, "{pieces}");
    let mut wrong = body;
    wrong["tools"][0]["function"]["parameters"] = json!({"type": "unheard-of"});
    let refused = server.post(path, &wrong);
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("tools")),
        "{}",
        refused.text()
    );
}
