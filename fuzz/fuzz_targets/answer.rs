//! Takes an answer apart: any text, cut anywhere, in every family's form. The deltas must not depend on the cuts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zinc_text::{AnswerFormat, AnswerParser, Delta, Piece, Tool};

const TEMPLATES: [&str; 8] = [
    "",
    "<tool_call> <think>",
    "<tool_call><function=x><parameter=y><think>",
    "<|start_header_id|> <|python_tag|>",
    "<|tool_call> <|channel>thought",
    "<start_function_call>",
    "[TOOL_CALLS] [ARGS]",
    "<|channel|> <|message|>",
];

fn joined(format: AnswerFormat, in_reasoning: bool, pieces: &[&str]) -> (String, String, Vec<(String, String)>) {
    let mut parser = AnswerParser::new(format, in_reasoning, vec![Tool { name: "f".into(), texts: vec!["t".into()] }]);
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|p| parser.push(Piece::Text(p))).collect();
    deltas.extend(parser.finish());
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Reasoning(text) => reasoning += &text,
            Delta::Content(text) => content += &text,
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call comes before its arguments").1 += &text,
        }
    }
    (reasoning, content, calls)
}

fuzz_target!(|input: (u8, bool, Vec<u16>, &str)| {
    let (template, in_reasoning, cuts, text) = input;
    let format = AnswerFormat::of_template(TEMPLATES[usize::from(template) % TEMPLATES.len()]);
    let mut borders: Vec<usize> = cuts.into_iter().map(usize::from).filter(|&c| text.is_char_boundary(c)).collect();
    borders.extend([0, text.len()]);
    borders.sort_unstable();
    let pieces: Vec<&str> = borders.windows(2).map(|w| &text[w[0]..w[1]]).collect();
    assert_eq!(joined(format, in_reasoning, &pieces), joined(format, in_reasoning, &[text]));
});
