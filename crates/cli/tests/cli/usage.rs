//! What every command has in common: refusals, help, completions, the manual.

use crate::{text, tiny, zinc};

#[test]
fn what_is_not_known_is_refused_with_exit_code_2() {
    for args in [
        &["run", "-m", "x", "--nonsense"][..],
        &["run", "-m", "x", "--raw", "--system", "z", "y"],
        &["run", "hello"],
        &["nonsense"],
        &["bench"],
        &["logits", "-m", "x"],
        &["run", "-m", "x", "--backend", "cuda", "y"],
        &["run", "-m", "x", "--budget", "3 apples", "y"],
        &["run", "-m", "x", "-c", "0", "y"],
        &["devices", "extra"],
        &["man", "nonsense"],
    ] {
        let error = zinc(args).fails(2);
        assert!(error.contains('`'), "{error}");
    }
}

#[test]
fn an_option_without_effect_is_refused() {
    let model = tiny("llama").model;
    for option in [
        &["--kv", "f16"][..],
        &["--budget", "1GiB"],
        &["--device", "0"],
        &["--chunk", "8"],
        &["--policy", "fast"],
        &["--disable", "fusion"],
    ] {
        let base = ["run", "-m", text(&model), "--backend", "cpu", "-n", "1", "a"];
        let error = zinc(&[&base[..], option].concat()).fails(2);
        assert!(error.contains(option[0]), "{error}");
    }
}

#[test]
fn sampling_options_out_of_range_are_named() {
    let model = tiny("llama").model;
    for (option, value) in [
        ("--top-p", "0"),
        ("--temperature", "-1"),
        ("--min-p", "2"),
        ("--typical", "0"),
        ("--logit-bias", "99999=1"),
    ] {
        let error = zinc(&["run", "-m", text(&model), "--backend", "cpu", option, value, "a"]).fails(2);
        assert!(error.contains(option.trim_start_matches("--")), "{error}");
    }
}

#[test]
fn help_names_every_command_and_each_has_a_page() {
    let help = zinc(&["--help"]).ok();
    for command in [
        "run",
        "chat",
        "logits",
        "perplexity",
        "bench",
        "tune",
        "check",
        "inspect",
        "devices",
        "tokenize",
        "completions",
        "man",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        assert!(zinc(&[command, "--help"]).ok().contains("Usage: zinc"));
        assert!(zinc(&["man", command]).ok().contains(&format!("zinc\\-{command}")));
    }
    assert!(zinc(&["man"]).ok().contains(".TH zinc"));
    assert!(zinc(&["--version"]).ok().starts_with("zinc 0."));
}

#[test]
fn completions_know_the_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = zinc(&["completions", shell]).ok();
        assert!(script.contains("perplexity") && script.contains("max-tokens"), "{shell}");
    }
}
