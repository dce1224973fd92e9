//! `zinc chat`.

use crate::{scratch, text, tiny, zinc_with};

/// Total, computed and reused tokens of each turn's prompt, and tokens of its answer.
fn turns(err: &str) -> Vec<[usize; 4]> {
    let number = |s: &str| s.split_whitespace().next().unwrap().trim_start_matches('(').parse().unwrap();
    let lines: Vec<&str> = err.lines().collect();
    let prompts = lines.iter().zip(&lines[1..]).filter(|(l, _)| l.starts_with("prompt "));
    prompts
        .map(|(prompt, answer)| {
            let (_, rest) = prompt.split_once("prompt").unwrap();
            let (total, rest) = rest.split_once('(').unwrap();
            let (computed, reused) = rest.split_once(", ").unwrap();
            [number(total), number(computed), number(reused), number(answer.strip_prefix("answer").unwrap())]
        })
        .collect()
}

fn chat(model: &std::path::Path, extra: &[&str], lines: &str) -> crate::Run {
    let base = ["chat", "-m", text(model), "--backend", "cpu", "-n", "6"];
    zinc_with(&[&base[..], extra].concat(), lines.as_bytes())
}

/// The page has settings of its own, so flags that set them are refused rather than ignored.
#[test]
fn the_page_takes_no_settings_by_flags() {
    for flag in [["--system", "x"], ["-n", "1"], ["--temperature", "0"]] {
        let run = zinc_with(&[&["chat", "--ui", "-m", "x.gguf"][..], &flag].concat(), b"");
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("cannot be used with"), "{}", run.err);
    }
}

#[test]
fn a_second_turn_computes_only_its_new_tokens() {
    for name in ["llama", "qwen3", "gemma3"] {
        let model = tiny(name).model;
        let run = chat(&model, &[], "hello\nand now?\nand then?\n");
        assert_eq!(run.code, 0, "{}", run.err);
        let turns = turns(&run.err);
        assert_eq!(turns.len(), 3, "{}", run.err);
        for pair in turns.windows(2) {
            let ([total, _, _, answer], [next_total, computed, reused, _]) = (pair[0], pair[1]);
            // The last token of an answer was chosen but not read.
            assert_eq!(reused, total + answer - 1, "{name}: {}", run.err);
            assert_eq!(computed, next_total - reused);
        }
    }
}

#[test]
fn commands_change_the_conversation() {
    let model = tiny("qwen3").model;
    let saved = scratch("saved.json");
    let script = format!(
        "/help\n/set temperature 0.5\n/set\nhello\n/save {0}\n/regenerate\n/reset\nhello\n/load {0}\n/stats\n/exit\nnot read\n",
        text(&saved)
    );
    let run = chat(&model, &["--seed", "3"], &script);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("/regenerate") && run.out.contains("temperature          0.5"), "{}", run.out);
    let turns = turns(&run.err);
    assert!(turns.len() >= 3, "{}", run.err);
    assert_eq!(turns[1][0], turns[0][0], "the same question again");
    assert_eq!(turns[1][1], 1, "of which only the last token is computed");
    assert_eq!(turns[2][0], turns[0][0], "after a reset nothing else is left");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    let roles: Vec<_> =
        json["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant"]);
}

#[test]
fn answers_alone_are_on_standard_output() {
    let model = tiny("qwen3").model;
    let run = chat(&model, &["--quiet", "--system", "be brief"], "hello\n\n");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(!run.out.is_empty());
}

#[test]
fn a_command_that_is_not_known_fails_a_script() {
    let model = tiny("qwen3").model;
    let error = chat(&model, &["-q"], "/nonsense\n").fails(1);
    assert!(error.contains("`/nonsense`") && error.contains("/help"), "{error}");
    let error = chat(&model, &["-q"], "/set top-p 7\n").fails(1);
    assert!(error.contains("top-p"), "{error}");
}
