//! `zinc run`: one prompt, one answer.

use crate::answer::{self, Answer};
use crate::args::{Control, ControlArg, ModelArg, text_or_stdin};
use crate::chat::Conversation;
use crate::error::{Failure, Outcome, usage};
use crate::load::{EngineArgs, describe, tell};
use crate::output;
use crate::sampling::SamplingArgs;
use serde_json::json;
use std::io::{self, Write};
use zinc_engine::{Engine, GenerateOptions, SamplingOptions};

/// Answers one prompt: the text goes to standard output as it comes, figures to standard error.
///
/// The prompt is a text to continue; with `--chat` it is a user's message, in the form of the model's chat template.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// The prompt; `-` or none reads standard input.
    prompt: Option<String>,
    /// Read the prompt as a user's message; an error if the model has no chat template.
    #[arg(long, overrides_with = "raw")]
    chat: bool,
    /// Continue the prompt as a text: the default, and undoes an earlier `--chat`.
    #[arg(long, overrides_with = "chat", conflicts_with = "system")]
    raw: bool,
    /// System message before the user's message; implies `--chat`.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    control: ControlArg,
    /// Tokens to generate at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,
    /// End before this text; may be repeated.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Print nothing but the text.
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON object at the end in place of the text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let text = text_or_stdin(args.prompt.as_deref())?;
    let mut engine = args.engine.load(&args.model.model, args.quiet)?;
    let (prompt, as_message) = prompt(args, &engine, &text)?;
    let options = GenerateOptions {
        max_tokens: args.max_tokens,
        sampling: args.sampling.options(engine.summary().vocab)?,
        stop: args.stop.clone(),
        ..GenerateOptions::default()
    };
    let mut sequence = engine.sequence()?;
    let mut nowhere = io::sink();
    let sink: &mut dyn Write = if args.json { &mut nowhere } else { &mut *out };
    let answer = answer::generate(&mut engine, &mut sequence, &prompt, &options, sink);
    if let (true, Err(Failure::Invalid(report))) = (args.json, &answer) {
        let value = json!({ "validation": report, "prompt_tokens": prompt, "engine": engine.summary() });
        output::json(out, &value)?;
    }
    let answer = answer?;
    if args.json {
        output::json(out, &as_json(&engine, &prompt, as_message, &options.sampling, &answer))?;
    } else if !answer.text.ends_with('\n') {
        writeln!(out)?;
    }
    if !args.quiet {
        let mut lines = vec![String::new()];
        lines.extend(answer::figures(&answer.stats));
        let has_template = engine.gguf().metadata().get("tokenizer.chat_template").is_some();
        let kind = match (as_message, has_template) {
            (true, _) => "a user's message, by the model's chat template",
            (false, true) => "a text to continue; `--chat` makes it a message to this model",
            (false, false) => "a text to continue",
        };
        lines.push(format!("read as  {kind}"));
        if !options.sampling.greedy() {
            lines.push(format!("seed     {}", options.sampling.seed));
        }
        lines.extend(describe(&engine));
        tell(&lines);
    }
    Ok(())
}

/// The prompt's tokens, and whether it is a user's message.
fn prompt(args: &Args, engine: &Engine, text: &str) -> Outcome<(Vec<u32>, bool)> {
    let tokenizer = engine.tokenizer()?;
    if (args.chat || args.system.is_some()) && !args.raw {
        if args.control.control == Control::Parse {
            return Err(usage(
                "`--control parse` is for a text to continue: a user's message never holds control tokens",
                "leave out `--chat` and `--system`, or `--control parse`",
            ));
        }
        let mut conversation = Conversation::new(engine)?;
        conversation.set_system(args.system.as_deref().unwrap_or_default());
        conversation.say(text);
        return Ok((conversation.prompt(tokenizer)?, true));
    }
    Ok((raw_prompt(tokenizer, text, &args.control), false))
}

/// A text's tokens, BOS first where the model wants one.
pub fn raw_prompt(tokenizer: &zinc_text::Tokenizer, text: &str, control: &ControlArg) -> Vec<u32> {
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    bos.into_iter().chain(tokenizer.encode(text, control.tokens())).collect()
}

fn as_json(
    engine: &Engine,
    prompt: &[u32],
    as_message: bool,
    sampling: &SamplingOptions,
    answer: &Answer,
) -> serde_json::Value {
    json!({
        "text": answer.text,
        "tokens": answer.tokens,
        "prompt_tokens": prompt,
        "chat": as_message,
        "seed": sampling.seed,
        "stats": answer.stats,
        "prefill_tokens_per_second": answer.stats.prefill_rate(),
        "decode_tokens_per_second": answer.stats.decode_rate(),
        "engine": engine.summary(),
    })
}
