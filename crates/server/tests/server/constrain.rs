//! Answers by schema and grammar.

use crate::common::{fixture, serve};
use serde_json::{Value, json};

/// Whether a value is what a schema says; of JSON Schema what the tests use.
fn valid(value: &Value, schema: &Value, root: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        return valid(value, root.pointer(reference.trim_start_matches('#')).expect("a definition"), root);
    }
    let kind = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => panic!("{other}"),
    };
    let all = |key: &str, ok: &dyn Fn(&Value) -> bool| schema[key].is_null() || ok(&schema[key]);
    kind && all("enum", &|e| e.as_array().unwrap().contains(value))
        && all("const", &|c| c == value)
        && all("anyOf", &|a| a.as_array().unwrap().iter().any(|s| valid(value, s, root)))
        && all("minimum", &|m| value.as_f64() >= m.as_f64())
        && all("maximum", &|m| value.as_f64() <= m.as_f64())
        && all("maxLength", &|m| value.as_str().unwrap().chars().count() as u64 <= m.as_u64().unwrap())
        && all("maxItems", &|m| value.as_array().unwrap().len() as u64 <= m.as_u64().unwrap())
        && all("minItems", &|m| value.as_array().unwrap().len() as u64 >= m.as_u64().unwrap())
        && all("required", &|r| {
            r.as_array().unwrap().iter().all(|k| value.get(k.as_str().unwrap()).is_some())
        })
        && all("items", &|s| value.as_array().unwrap().iter().all(|v| valid(v, s, root)))
        && all("properties", &|p| {
            p.as_object().unwrap().iter().all(|(k, s)| value.get(k).is_none_or(|v| valid(v, s, root)))
        })
}

/// The leaves that objects and arrays are made of; all bounded, so that a random model comes to an end.
fn leaf(i: usize) -> Value {
    match i % 8 {
        0 => json!({"type": "integer", "minimum": 0, "maximum": 9 + i}),
        1 => json!({"type": "boolean"}),
        2 => json!({"enum": ["rot", "grün", "蓝", i]}),
        3 => json!({"type": "null"}),
        4 => json!({"const": {"fixed": [i, "x"]}}),
        5 => json!({"type": "string", "maxLength": 2 + i % 3}),
        6 => json!({"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1, "maximum": 3}]}),
        _ => json!({"$ref": "#/$defs/shared"}),
    }
}

fn schema(i: usize) -> Value {
    let inner = json!({"type": "object", "properties": {"x": leaf(i + 1), "y": leaf(i + 3)},
                       "required": ["x"], "additionalProperties": false});
    let mut schema = json!({
        "type": "object",
        "properties": {
            "a": leaf(i), "inner": inner,
            "list": {"type": "array", "items": leaf(i + 2), "minItems": i % 2, "maxItems": 2},
        },
        "required": ["a", "inner", "list"],
        "additionalProperties": false,
    });
    schema["$defs"] = json!({"shared": {"enum": ["one", "two"]}});
    schema
}

#[test]
fn a_hundred_schemas_are_kept_to() {
    let server = serve(&fixture("qwen3"), |_, options| options.sequences = 8);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for i in (worker..104).step_by(4) {
                    let schema = schema(i);
                    let format =
                        json!({"type": "json_schema", "json_schema": {"name": "it", "schema": schema}});
                    let body = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 250,
                                      "temperature": 1.0, "seed": i, "response_format": format});
                    let answer = server.ok("/v1/chat/completions", &body);
                    let choice = &answer["choices"][0];
                    let text = choice["message"]["content"].as_str().unwrap();
                    assert_eq!(choice["finish_reason"], "stop", "{i}: {text:?}");
                    let value: Value =
                        serde_json::from_str(text).unwrap_or_else(|e| panic!("{i}: {e}: {text:?}"));
                    assert!(valid(&value, &schema, &schema), "{i}: {value} is not {schema}");
                }
            });
        }
    });
}

#[test]
fn grammars_regular_expressions_and_what_is_none() {
    let server = serve(&fixture("qwen3"), |_, _| ());
    let ask = |format: Value| json!({"prompt": "x", "max_tokens": 60, "temperature": 1, "seed": 1, "response_format": format});
    let date =
        server.ok("/v1/completions", &ask(json!({"type": "regex", "regex": "20[0-9][0-9]-(0[1-9]|1[0-2])"})));
    let text = date["choices"][0]["text"].as_str().unwrap();
    assert_eq!((text.len(), &text[..2]), (7, "20"), "{text:?}");
    let lark = json!({"type": "grammar", "grammar": "start: (\"ja\" | \"nein\") \"!\""});
    let mut several = ask(lark);
    several["n"] = 3.into();
    let answer = server.ok("/v1/completions", &several);
    for choice in answer["choices"].as_array().unwrap() {
        let text = &choice["text"];
        assert!(["ja!", "nein!"].contains(&text.as_str().unwrap()), "{text}");
    }
    assert_eq!(answer["choices"].as_array().map(Vec::len), Some(3));
    for wrong in [
        json!({"type": "grammar", "grammar": "start: nowhere"}),
        json!({"type": "regex", "regex": "("}),
        json!({"type": "json_schema", "json_schema": {"schema": {"type": "unheard-of"}}}),
        json!({"type": "json_schema", "json_schema": {"schema": {"$ref": "#/$defs/none"}}}),
        json!({"type": "json_schema"}),
    ] {
        let reply = server.post("/v1/completions", &ask(wrong.clone()));
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.text());
    }
}
