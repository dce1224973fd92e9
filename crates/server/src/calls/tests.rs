use super::*;
use crate::constrain::{Constraint, Grammars, When};
use serde_json::json;
use zinc_text::{AnswerFormat, AnswerParser, Delta, Piece, Tool};

const FORMS: [(ToolFormat, &str); 8] = [
    (ToolFormat::Hermes, "<tool_call>"),
    (ToolFormat::Xml, "<tool_call><function=x><parameter=y>"),
    (ToolFormat::Llama3, "<|start_header_id|> <|python_tag|>"),
    (ToolFormat::Gemma4, "<|tool_call>"),
    (ToolFormat::FunctionGemma, "<start_function_call>"),
    (ToolFormat::Mistral, "[TOOL_CALLS] [ARGS]"),
    (ToolFormat::MistralList, "[TOOL_CALLS]"),
    (ToolFormat::Harmony, "<|channel|><|message|>"),
];

fn tokenizer(family: &str) -> Tokenizer {
    let fixture = zinc_testkit::fixtures(family).into_iter().next().expect("a fixture");
    let file = zinc_gguf::Gguf::open(&fixture.model).expect("a model");
    Tokenizer::from_metadata(file.metadata(), None).expect("a tokenizer")
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 8},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
            "exact": {"type": ["boolean", "null"]},
            "where": {"$ref": "#/$defs/place"},
            "tags": {"type": "array", "items": {"enum": ["sun", 3]}, "minItems": 1, "maxItems": 2},
            "note": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]},
        },
        "required": ["city", "days", "where", "tags"],
        "additionalProperties": false,
        "$defs": {"place": {
            "type": "object",
            "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "in": {"$ref": "#/$defs/place"}},
            "required": ["x"], "additionalProperties": false,
        }},
    })
}

/// What a constraint lets a dice say, token by token; the tokens that dice prefer come first.
fn say(constraint: &mut Constraint, tokenizer: &Tokenizer, seed: u64) -> Vec<(Option<String>, String)> {
    let mut dice = zinc_testkit::Rng::new(seed);
    let mut detokenizer = zinc_text::Detokenizer::continuing(tokenizer);
    let mut said = Vec::new();
    for _ in 0..2000 {
        let mut row: Vec<f32> = (0..tokenizer.vocab_size()).map(|_| dice.below(1000) as f32).collect();
        // Texts come to an end.
        let marks =
            ["\n", "\"", "<", "}", "]", "<|\"|>", "<|end|>"].iter().filter_map(|m| tokenizer.find_token(m));
        marks.for_each(|id| row[id as usize] += 500.0);
        tokenizer.end_of_generation().iter().for_each(|&id| row[id as usize] += 700.0);
        constraint.mask(&mut row).expect("a mask");
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a token") as u32;
        assert!(row[best as usize].is_finite(), "nothing is allowed after {said:?}");
        let control = tokenizer.is_control(best).then(|| tokenizer.token_text(best));
        let text = if control.is_some() { String::new() } else { detokenizer.push(best) };
        let piece = control.as_deref().map_or(Piece::Text(&text), Piece::Control);
        let complete = constraint.accept(best, piece).expect("it was allowed");
        if !tokenizer.is_end_of_generation(best) {
            said.push((control, text));
        }
        if complete || !constraint.active() {
            return said;
        }
    }
    panic!("no end: {said:?}");
}

fn parse(
    template: &str,
    said: &[(Option<String>, String)],
    tools: &[Tool],
) -> (String, Vec<(String, String)>) {
    let mut parser = AnswerParser::new(AnswerFormat::of_template(template), false, tools.to_vec());
    let mut deltas: Vec<Delta> = said
        .iter()
        .flat_map(|(control, text)| parser.push(control.as_deref().map_or(Piece::Text(text), Piece::Control)))
        .collect();
    deltas.extend(parser.finish());
    let (mut content, mut calls) = (String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call").1.push_str(&text),
            Delta::Content(text) => content.push_str(&text),
            Delta::Reasoning(_) => {}
        }
    }
    (content, calls)
}

/// Checks arguments against [`parameters`].
fn check(arguments: &str) {
    let value: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {arguments}"));
    let object = value.as_object().expect("an object");
    let all = parameters();
    assert!(object.keys().all(|k| all["properties"].get(k).is_some()), "{value}");
    assert!(value["city"].as_str().is_some_and(|s| s.chars().count() <= 8), "{value}");
    assert!((1..=9).contains(&value["days"].as_i64().unwrap_or_default()), "{value}");
    assert!(value.get("unit").is_none_or(|u| u == "c" || u == "f"), "{value}");
    assert!(value.get("exact").is_none_or(|e| e.is_boolean() || e.is_null()), "{value}");
    assert!(value.get("note").is_none_or(|n| n.is_null() || n.as_str().is_some()), "{value}");
    let tags = value["tags"].as_array().expect("tags");
    assert!((1..=2).contains(&tags.len()) && tags.iter().all(|t| *t == 3 || t == "sun"), "{value}");
    let mut place = &value["where"];
    while !place.is_null() {
        assert!((0..=9).contains(&place["x"].as_i64().unwrap_or(-1)), "{value}");
        place = &place["in"];
    }
}

#[test]
fn every_family_writes_calls_that_it_reads_and_that_fit_the_schema() {
    let parameters = parameters();
    let free = json!({"type": "object"});
    let offered =
        [Tool { name: "f".into(), texts: texts(&parameters) }, Tool { name: "g".into(), ..Tool::default() }];
    for family in ["qwen3", "gptoss"] {
        let tokenizer = tokenizer(family);
        let grammars = Grammars::new(&tokenizer).expect("grammars");
        for (format, template) in FORMS {
            // Where marks are control tokens, the forms that have such.
            let fits = match family {
                "gptoss" => format == ToolFormat::Harmony,
                _ => format != ToolFormat::Harmony,
            };
            if !fits {
                continue;
            }
            let calls = |tools, begun| Calls { format, tools, many: true, begun };
            let f = || vec![Callable { name: "f", parameters: &parameters }];
            let grammar = calls(f(), false).grammar(&tokenizer).expect("a grammar");
            for seed in 0..2 {
                let mut constraint = grammars
                    .compile(&grammar, When::Always)
                    .unwrap_or_else(|e| panic!("{format:?}: {e}: {grammar:?}"));
                let said = say(&mut constraint, &tokenizer, seed);
                let (content, called) = parse(template, &said, &offered);
                assert!(!called.is_empty() && content.is_empty(), "{format:?}: {content:?} of {said:?}");
                for (name, arguments) in called {
                    assert_eq!(name, "f");
                    check(&arguments);
                }
            }
            let both = || {
                vec![
                    Callable { name: "g", parameters: &free },
                    Callable { name: "f", parameters: &parameters },
                ]
            };
            let grammar = calls(both(), true).grammar(&tokenizer).expect("a grammar");
            grammars
                .compile(&grammar, When::Always)
                .unwrap_or_else(|e| panic!("{format:?}: {e}: {grammar:?}"));
        }
    }
}

/// Gives a text to a constraint as its tokens; whether it holds after each.
fn feed(
    constraint: &mut Constraint,
    tokenizer: &Tokenizer,
    text: &str,
    said: &mut Vec<(Option<String>, String)>,
) -> Vec<bool> {
    let mut holds = Vec::new();
    for id in tokenizer.encode(text, zinc_text::ControlTokens::Parse) {
        let control = tokenizer.is_control(id).then(|| tokenizer.token_text(id));
        let text = if control.is_some() { String::new() } else { tokenizer.decode(&[id]) };
        constraint
            .accept(id, control.as_deref().map_or(Piece::Text(&text), Piece::Control))
            .expect("allowed");
        said.push((control, text));
        holds.push(constraint.active());
    }
    holds
}

#[test]
fn a_call_that_the_model_begins_is_held_to_the_schema_from_its_mark_on() {
    let parameters = parameters();
    let offered = [Tool { name: "f".into(), texts: texts(&parameters) }];
    // What is said before, what opens a call, and whether the answer goes on after it.
    let cases = [
        ("qwen3", 0, "Well. ", "<tool_call>", true),
        ("qwen3", 0, "", "<tool_call>\n{\"name\"", true),
        ("qwen3", 1, "So: ", "<tool_call>", true),
        ("qwen3", 2, "", "{\"name\"", false),
        ("qwen3", 3, "I call ", "<|tool_call>", true),
        ("qwen3", 5, "", "[TOOL_CALLS]", false),
        (
            "gptoss",
            7,
            "<|channel|>analysis<|message|>to=functions.f<|end|><|start|>assistant",
            "<|channel|>commentary to=functions.",
            false,
        ),
    ];
    for (family, form, before, opening, goes_on) in cases {
        let tokenizer = tokenizer(family);
        let (format, template) = FORMS[form];
        let tools = vec![Callable { name: "f", parameters: &parameters }];
        let grammar =
            Calls { format, tools, many: true, begun: true }.grammar(&tokenizer).expect("a grammar");
        let parser = AnswerParser::new(AnswerFormat::of_template(template), false, offered.to_vec());
        let when = When::in_calls(parser, ends_with_mark(format));
        let mut constraint =
            Grammars::new(&tokenizer).expect("grammars").compile(&grammar, when).expect("a constraint");
        let mut said = Vec::new();
        let held = feed(&mut constraint, &tokenizer, before, &mut said);
        assert!(held.iter().all(|h| !h), "{format:?}: it holds in {said:?}");
        for _ in 0..1 + usize::from(goes_on) {
            feed(&mut constraint, &tokenizer, opening, &mut said);
            assert!(constraint.active(), "{format:?}: it does not hold after {said:?}");
            said.extend(say(&mut constraint, &tokenizer, 3));
            assert_eq!(constraint.active(), !goes_on, "{format:?}");
            if goes_on {
                let held = feed(&mut constraint, &tokenizer, " and ", &mut said);
                assert!(held.iter().all(|h| !h), "{format:?}");
            }
        }
        let (_, called) = parse(template, &said, &offered);
        assert!(called.len() > usize::from(goes_on), "{format:?}: {called:?} of {said:?}");
        called.iter().for_each(|(_, arguments)| check(arguments));
    }
}

/// Gemma 4's quote is a control token; here another model's control token stands for it.
#[test]
fn quotes_that_are_control_tokens() {
    let (tokenizer, parameters) = (tokenizer("gptoss"), parameters());
    let mut rules = Rules::new(&tokenizer);
    let object = values::Gemma::new(&mut rules, "<|end|>").object(&Schema::new(&parameters)).expect("rules");
    let grammar = Grammar::Lark(rules.finish(&object));
    let grammars = Grammars::new(&tokenizer).expect("grammars");
    for seed in 0..3 {
        let mut said =
            say(&mut grammars.compile(&grammar, When::Always).expect("a constraint"), &tokenizer, seed);
        for (control, _) in &mut said {
            *control = control.take().map(|name| name.replace("<|end|>", "<|\"|>"));
        }
        said.insert(0, (None, "<|tool_call>call:f".into()));
        let offered = Tool { name: "f".into(), ..Tool::default() };
        let (content, called) = parse(FORMS[3].1, &said, &[offered]);
        assert_eq!((content.as_str(), called.len()), ("", 1), "{said:?}");
        check(&called[0].1);
    }
}

#[test]
fn what_is_no_call_is_not_held() {
    let parameters = parameters();
    let tokenizer = tokenizer("qwen3");
    let tools = || vec![Callable { name: "f", parameters: &parameters }];
    let constraint = |form: usize, template: &str| {
        let grammar =
            Calls { format: FORMS[form].0, tools: tools(), many: true, begun: true }.grammar(&tokenizer);
        let offered = vec![Tool { name: "f".into(), ..Tool::default() }];
        let parser = AnswerParser::new(AnswerFormat::of_template(template), false, offered);
        let grammars = Grammars::new(&tokenizer).expect("grammars");
        grammars.compile(&grammar.expect("a grammar"), When::in_calls(parser, true)).expect("a constraint")
    };
    for (form, template, text) in [
        (0, "<tool_call> <think>", "<think>I could say <tool_call> here"),
        (0, "<tool_call>", "no <tool_call[] and <tool_cal"),
        (4, FORMS[4].1, "call:f{}"),
        // An answer in JSON that is no call.
        (2, FORMS[2].1, "{\"city\": \"Rome\"}"),
    ] {
        let held = feed(&mut constraint(form, template), &tokenizer, text, &mut Vec::new());
        assert!(!held.last().expect("a token"), "{text}");
    }
}

#[test]
fn what_a_form_cannot_enforce_is_said() {
    let tokenizer = tokenizer("qwen3");
    let with = |value: Value| json!({"type": "object", "properties": {"a": value}});
    for (value, why) in [
        (json!({"type": "string", "pattern": "^a"}), "`pattern`"),
        (json!({"allOf": [{"type": "string"}, {"maxLength": 3}]}), "`allOf`"),
        (json!({"$ref": "#/$defs/none"}), "leads nowhere"),
        (json!({"$ref": "#/properties/a"}), "lead to each other"),
        (json!({"type": "unheard-of"}), "unheard-of"),
        (json!(false), "nothing satisfies"),
    ] {
        let schema = with(value);
        for format in [ToolFormat::Xml, ToolFormat::Gemma4] {
            let tools = vec![Callable { name: "f", parameters: &schema }];
            let error =
                Calls { format, tools, many: false, begun: false }.grammar(&tokenizer).expect_err("refused");
            assert!(error.contains(why) && error.contains("`f`: `a`"), "{error}");
        }
    }
}
