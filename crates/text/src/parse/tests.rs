use super::*;

const HERMES: &str = "{{ tools }} <tool_call> <think></think>";

fn tools() -> Vec<Tool> {
    let tool = |name: &str| Tool { name: name.into(), texts: vec!["t".into()] };
    vec![tool("f"), tool("g")]
}

/// The deltas of an answer, pushed in pieces, joined by kind.
fn parse(
    template: &str,
    in_reasoning: bool,
    pieces: &[Piece<'_>],
) -> (String, String, Vec<(String, String)>) {
    let format = AnswerFormat::of_template(template);
    let mut parser = AnswerParser::new(format, in_reasoning, tools());
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|p| parser.push(*p)).collect();
    deltas.extend(parser.finish());
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Reasoning(text) => reasoning.push_str(&text),
            Delta::Content(text) => content.push_str(&text),
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call").1.push_str(&text),
        }
    }
    (reasoning, content, calls)
}

/// Every cut of a text into three pieces must give the same.
fn check(template: &str, in_reasoning: bool, text: &str, want: (&str, &str, &[(&str, &str)])) {
    let borders: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
    for &i in &borders {
        for &j in borders.iter().filter(|&&j| j >= i).step_by(3) {
            let pieces = [Piece::Text(&text[..i]), Piece::Text(&text[i..j]), Piece::Text(&text[j..])];
            let (reasoning, content, calls) = parse(template, in_reasoning, &pieces);
            let calls: Vec<(&str, &str)> = calls.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
            assert_eq!(
                (reasoning.as_str(), content.as_str(), calls.as_slice()),
                want,
                "{text:?} at {i}, {j}"
            );
        }
    }
}

#[test]
fn hermes_calls_and_reasoning() {
    let text = "<think>\nlet me see\n</think>\n\nI call <b> both.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
                <tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
    check(HERMES, false, text, ("let me see", "I call <b> both.", &[("f", "{\"a\": 1}"), ("g", "{}")]));
    check(HERMES, true, "so\n</think>\nyes ", ("so", "yes ", &[]));
    check(HERMES, false, "  plain <thi", ("", "  plain <thi", &[]));
    check(HERMES, false, "", ("", "", &[]));
}

#[test]
fn what_does_not_parse_stays_content() {
    let broken = "x <tool_call>{\"name\": f}</tool_call> y";
    check(HERMES, false, broken, ("", broken, &[]));
    let cut = "<tool_call>{\"name\": \"f\", ";
    check(HERMES, false, cut, ("", cut, &[]));
}

#[test]
fn other_families() {
    let xml = "{{ tools }}<tool_call><function=example><parameter=k>";
    let text = "<tool_call>\n<function=f>\n<parameter=a>\ntwo\nlines\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>";
    check(xml, false, text, ("", "", &[("f", "{\"a\":\"two\\nlines\",\"n\":3}")]));

    let llama = "<|start_header_id|> {{ tools }} <|python_tag|>";
    let text =
        "{\"name\": \"f\", \"parameters\": {\"a\": [1, \"é\"]}}; {\"name\": \"g\", \"parameters\": {}}";
    check(llama, false, text, ("", "", &[("f", "{\"a\": [1, \"é\"]}"), ("g", "{}")]));
    check(llama, false, "{\"name\": \"unknown\"}", ("", "{\"name\": \"unknown\"}", &[]));

    let gemma = "<|turn> <|tool_call>call <|channel>thought";
    let text = "<|tool_call>call:f{at:<|\"|>Tokyo, {x}<|\"|>,n:-2.5,ok:true,l:[1,{k:null}]}<tool_call|>";
    check(
        gemma,
        false,
        text,
        ("", "", &[("f", "{\"at\":\"Tokyo, {x}\",\"n\":-2.5,\"ok\":true,\"l\":[1,{\"k\":null}]}")]),
    );
    check(gemma, false, "<|channel>thought\nhm<channel|>Yes", ("hm", "Yes", &[]));

    let mistral = "[INST] [TOOL_CALLS]";
    check(
        mistral,
        false,
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 2}}]",
        ("", "", &[("f", "{\"a\": 2}")]),
    );
    check(
        mistral,
        false,
        "[TOOL_CALLS]f[ARGS]{\"a\": 2}[TOOL_CALLS]g[ARGS]{}",
        ("", "", &[("f", "{\"a\": 2}"), ("g", "{}")]),
    );
}

/// Each letter of the arguments is given out as it comes, where the form allows it.
#[test]
fn arguments_come_piece_by_piece() {
    let cases = [
        (
            HERMES,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": ",
            "{\"t\": \"a \\\"b\\\" é\"}",
            "}\n</tool_call>",
        ),
        ("[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]f[ARGS]", "{\"t\": [1, {\"x\": \"}\"}]}", ""),
        (
            "[TOOL_CALLS]",
            "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": ",
            "{\"t\": 1}",
            ", \"id\": \"abc\"}]",
        ),
        (
            "<|python_tag|>",
            "<|python_tag|>{\"name\": \"f\", \"parameters\": ",
            "{\"t\": \"</tool_call>\"}",
            "}",
        ),
    ];
    for (template, before, arguments, after) in cases {
        let mut parser = AnswerParser::new(AnswerFormat::of_template(template), false, tools());
        parser.push(Piece::Text(before));
        let mut given = String::new();
        for (i, c) in arguments.char_indices() {
            for delta in parser.push(Piece::Text(c.encode_utf8(&mut [0; 4]))) {
                match delta {
                    Delta::Arguments(text) => given += &text,
                    Delta::Call(name) => assert_eq!(name, "f"),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(given, arguments[..i + c.len_utf8()]);
        }
        check(template, false, &format!("{before}{arguments}{after}"), ("", "", &[("f", arguments)]));
    }
    let xml = "<tool_call><function=x><parameter=y>";
    let mut parser = AnswerParser::new(AnswerFormat::of_template(xml), false, tools());
    let mut say = |text| parser.push(Piece::Text(text));
    assert_eq!(say("<tool_call>\n<function=f>\n"), [Delta::Call("f".into())]);
    assert_eq!(say("<parameter=t>\n12 \"mon"), [Delta::Arguments("{\"t\":\"12 \\\"mon".into())]);
    assert_eq!(say("keys\"\n</para"), [Delta::Arguments("keys\\\"".into())]);
    let rest = say("meter>\n<parameter=n>\n3\n</parameter>\n</function>");
    assert_eq!(rest, [Delta::Arguments("\",\"n\":3}".into())]);
}

#[test]
fn what_tags_hold() {
    let xml = "<tool_call><function=x><parameter=y>";
    let call = |value: &str| {
        format!("<tool_call>\n<function=f>\n<parameter=t>{value}</parameter>\n</function>\n</tool_call>")
    };
    for (value, want) in [
        ("\n12\n", "{\"t\":\"12\"}"),
        ("\ntrue\n", "{\"t\":\"true\"}"),
        ("", "{\"t\":\"\"}"),
        ("\n\na\n\n", "{\"t\":\"\\na\\n\"}"),
        ("\nsee </parameter> and </tool_call>\n", "{\"t\":\"see </parameter> and </tool_call>\"}"),
    ] {
        check(xml, false, &call(value), ("", "", &[("f", want)]));
    }
    check(xml, false, "<tool_call><function=f></function></tool_call> so", ("", "so", &[("f", "{}")]));
    check(
        xml,
        false,
        "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</tool_call>",
        ("", "", &[("f", "{\"n\":1}")]),
    );
}

#[test]
fn calls_that_go_wrong_after_they_began() {
    let begun = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1";
    check(HERMES, false, begun, ("", "", &[("f", "{\"a\": [1")]));
    let more = "<tool_call>{\"name\": \"f\", \"arguments\": {}}} said";
    check(HERMES, false, more, ("", "} said", &[("f", "{}")]));
    let others = "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}</tool_call>";
    check(HERMES, false, others, ("", "", &[("f", "{\"a\":1}"), ("g", "{}")]));
    let two =
        "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}</tool_call>ok";
    check(HERMES, false, two, ("", "ok", &[("f", "{}"), ("g", "{}")]));
}

#[test]
fn channels() {
    use Piece::{Control, Text};
    let template = "<|channel|>analysis<|message|>";
    let pieces = [
        Control("<|channel|>"),
        Text("analysis"),
        Control("<|message|>"),
        Text("hm"),
        Control("<|end|>"),
        Control("<|start|>"),
        Text("assistant"),
        Control("<|channel|>"),
        Text("commentary to=functions.f "),
        Control("<|constrain|>"),
        Text("json"),
        Control("<|message|>"),
        Text("{\"a\""),
        Text(":1}"),
        Control("<|call|>"),
    ];
    let (reasoning, content, calls) = parse(template, false, &pieces);
    assert_eq!((reasoning.as_str(), content.as_str()), ("hm", ""));
    assert_eq!(calls, [("f".to_owned(), "{\"a\":1}".to_owned())]);
    let pieces = [Control("<|channel|>"), Text("final"), Control("<|message|>"), Text("Hi"), Text(" there")];
    assert_eq!(parse(template, false, &pieces).1, "Hi there");
    assert_eq!(parse(template, false, &[Text("no header")]).1, "no header");
}

#[test]
fn without_tools_nothing_is_a_call() {
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let mut parser = AnswerParser::new(AnswerFormat::of_template(HERMES), false, Vec::new());
    let mut out = parser.push(Piece::Text(text));
    out.extend(parser.finish());
    assert_eq!(out, [Delta::Content(text.into())]);
}

#[test]
fn control_tokens_are_marks_or_nothing() {
    let (_, content, calls) = parse(
        "<|tool_call>",
        false,
        &[
            Piece::Control("<pad>"),
            Piece::Text("a"),
            Piece::Control("<|tool_call>"),
            Piece::Text("call:f{k:"),
            Piece::Control("<|\"|>"),
            Piece::Text("v"),
            Piece::Control("<|\"|>"),
            Piece::Text("}"),
            Piece::Control("<tool_call|>"),
        ],
    );
    assert_eq!(content, "a");
    assert_eq!(calls, [("f".to_owned(), "{\"k\":\"v\"}".to_owned())]);
}

/// Marks, pieces of calls and text that look alike, in any order.
const FRAGMENTS: [&str; 24] = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
    "{\"name\":",
    "<function=f>",
    "<parameter=a>",
    "</parameter>",
    "</function>",
    "<|tool_call>",
    "call:f{a:",
    "<|\"|>",
    "<tool_call|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "; ",
    "<|python_tag|>",
    "<|channel>thought",
    "<channel|>",
    "\n\n",
    "é🙂",
    "<",
    "plain text",
];

const TEMPLATES: [&str; 6] = [
    HERMES,
    "<tool_call><function=x><parameter=y><think>",
    "<|start_header_id|> <|python_tag|>",
    "<|tool_call> <|channel>thought",
    "[TOOL_CALLS]",
    "<start_function_call>",
];

proptest::proptest! {
    /// However an answer is cut, the deltas are the same, and nothing panics.
    #[test]
    fn cuts_do_not_matter(
        order in proptest::collection::vec(0..FRAGMENTS.len(), 0..12),
        cuts in proptest::collection::vec(0..400_usize, 0..8),
        template in 0..TEMPLATES.len(),
        in_reasoning: bool,
    ) {
        let text: String = order.iter().map(|&i| FRAGMENTS[i]).collect();
        let mut borders: Vec<usize> = cuts.into_iter().filter(|&c| text.is_char_boundary(c)).collect();
        borders.extend([0, text.len()]);
        borders.sort_unstable();
        let pieces: Vec<Piece<'_>> = borders.windows(2).map(|w| Piece::Text(&text[w[0]..w[1]])).collect();
        let template = TEMPLATES[template];
        proptest::prop_assert_eq!(
            parse(template, in_reasoning, &pieces),
            parse(template, in_reasoning, &[Piece::Text(&text)])
        );
    }

    /// Without reasoning and tools an answer is given out letter for letter.
    #[test]
    fn without_marks_nothing_changes(order in proptest::collection::vec(0..FRAGMENTS.len(), 0..12)) {
        let mut parser = AnswerParser::new(AnswerFormat::default(), false, tools());
        let mut said = String::new();
        for i in &order {
            for delta in parser.push(Piece::Text(FRAGMENTS[*i])) {
                let Delta::Content(text) = delta else { panic!("{delta:?}") };
                said += &text;
            }
        }
        for delta in parser.finish() {
            let Delta::Content(text) = delta else { panic!("{delta:?}") };
            said += &text;
        }
        proptest::prop_assert_eq!(said, order.iter().map(|&i| FRAGMENTS[i]).collect::<String>());
    }
}
