//! What must hold of any input: what fuzz targets try, and the tests of `zinc-text` on the seeds.

use zinc_text::{
    AnswerFormat, AnswerParser, ChatTemplate, Delta, Message, Piece, RenderInput, StopStrings, Tokenizer,
    Tool,
};

/// Where a text is cut.
const CUT: char = '\u{1}';

const TEMPLATES: [&str; 9] = [
    "",
    "<tool_call> <think>",
    "<tool_call><function=x><parameter=y><think>",
    "<|start_header_id|> <|python_tag|>",
    "<|tool_call> <|channel>thought",
    "<start_function_call>",
    "[TOOL_CALLS] [ARGS]",
    "[TOOL_CALLS]",
    "<|channel|> <|message|>",
];

/// Reasoning, content and calls of an answer.
fn parsed(
    format: AnswerFormat,
    in_reasoning: bool,
    pieces: &[&str],
) -> (String, String, Vec<(String, String)>) {
    let tool = Tool { name: "f".into(), texts: vec!["t".into()] };
    let mut parser = AnswerParser::new(format, in_reasoning, vec![tool]);
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

/// An answer: a line with the number of the form, and `r` where the model thinks, then the text with its cuts. What is found does not depend on these.
pub fn answer(input: &[u8]) {
    let Some((head, text)) = std::str::from_utf8(input).ok().and_then(|t| t.split_once('\n')) else { return };
    let form: usize = head.trim_end_matches('r').parse().unwrap_or(0);
    let format = AnswerFormat::of_template(TEMPLATES[form % TEMPLATES.len()]);
    let pieces: Vec<&str> = text.split(CUT).collect();
    let whole = pieces.concat();
    let in_reasoning = head.ends_with('r');
    assert_eq!(parsed(format, in_reasoning, &pieces), parsed(format, in_reasoning, &[&whole]));
}

/// A stream: a line of stop strings, each after a bar, then the text with its cuts. It ends before the first stop string wherever it is cut.
pub fn stops(input: &[u8]) {
    let Some((head, text)) = std::str::from_utf8(input).ok().and_then(|t| t.split_once('\n')) else { return };
    let stops: Vec<String> = head.split('|').map(str::to_owned).collect();
    let run = |pieces: &[&str]| {
        let mut stream = StopStrings::new(stops.iter().cloned());
        let mut said = String::new();
        for piece in pieces {
            let step = stream.push(piece);
            said += &step.emit;
            if step.hit.is_some() {
                return (said, step.hit);
            }
        }
        (said + &stream.finish(), None)
    };
    let pieces: Vec<&str> = text.split(CUT).collect();
    let whole = pieces.concat();
    let cut = run(&pieces);
    assert_eq!(cut, run(&[&whole]));
    let real: Vec<&String> = stops.iter().filter(|s| !s.is_empty()).collect();
    assert_eq!(cut.1.is_some(), real.iter().any(|s| whole.contains(s.as_str())));
    assert!(whole.starts_with(&cut.0) && real.iter().all(|s| !cut.0.contains(s.as_str())));
}

/// A chat template, a zero byte, and the messages as JSON: it is rendered or refused, and the text is encoded.
pub fn template(input: &[u8], tokenizer: &Tokenizer) {
    let Some((source, given)) = std::str::from_utf8(input).ok().and_then(|t| t.split_once('\0')) else {
        return;
    };
    let Ok(template) = ChatTemplate::parse(source, tokenizer) else { return };
    let given: serde_json::Value = serde_json::from_str(given).unwrap_or_default();
    let messages: Vec<Message> = serde_json::from_value(given["messages"].clone()).unwrap_or_default();
    let extra = given["extra"].as_object().cloned().unwrap_or_default();
    let input =
        RenderInput { messages: &messages, tools: given.get("tools"), add_generation_prompt: true, extra };
    if let Ok(rendered) = template.render(&input) {
        tokenizer.encode_rendered(&rendered);
    }
}
