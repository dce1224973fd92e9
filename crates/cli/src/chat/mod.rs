//! `zinc chat`: a conversation, on a terminal with a line editor, else a line a message.

mod commands;
mod conversation;
mod input;
mod page;

pub use conversation::Conversation;

use crate::answer;
use crate::args::ModelArg;
use crate::error::Outcome;
use crate::load::{EngineArgs, describe, tell};
use crate::sampling::SamplingArgs;
use commands::Reply;
use input::Input;
use std::io::Write;
use zinc_engine::{Engine, GenerateOptions, Sequence, Stats, StopReason};

/// A conversation with a model. A turn computes only its new tokens.
///
/// On a terminal there are a line editor and a history; otherwise every line of standard input is a message. `/help` lists the
/// commands.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Chat on a page in the browser, which has its own settings; `zinc serve` has the same page for more than this machine.
    #[arg(long, conflicts_with_all = ["system", "max_tokens", "stop", "SamplingArgs"])]
    ui: bool,
    /// System message.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Tokens to generate at most in a turn [default: as many as the context holds].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// End an answer before this text; may be repeated.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Print nothing but the answers.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// A conversation with the model that answers.
struct Session {
    engine: Engine,
    sequence: Sequence,
    conversation: Conversation,
    options: GenerateOptions,
    quiet: bool,
    last: Option<Stats>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.ui {
        return page::run(args, out);
    }
    let engine = args.engine.load(&args.model.model, args.quiet)?;
    let mut conversation = Conversation::new(&engine)?;
    conversation.set_system(args.system.as_deref().unwrap_or_default());
    let options = GenerateOptions {
        max_tokens: args.max_tokens.map_or(engine.context(), |n| n as usize),
        sampling: args.sampling.options(engine.summary().vocab)?,
        stop: args.stop.clone(),
        keep: true,
        ..GenerateOptions::default()
    };
    let sequence = engine.sequence()?;
    let mut session = Session { engine, sequence, conversation, options, quiet: args.quiet, last: None };
    let mut input = Input::open()?;
    if input.is_terminal() && !args.quiet {
        tell(&describe(&session.engine));
        tell(&["type a message, or `/help`; Ctrl-C ends an answer, Ctrl-D the conversation".into()]);
    }
    while let Some(line) = input.next()? {
        let done = session.line(&line, out);
        match done {
            Ok(Reply::Continue) => {}
            Ok(Reply::Exit) => break,
            // At a terminal a person can go on; a script is told by the exit code.
            Err(e) => match e.told().filter(|_| input.is_terminal()) {
                Some((text, _)) => tell(&[format!("error: {text}")]),
                None => return Err(e),
            },
        }
    }
    Ok(())
}

impl Session {
    /// A line of input: a command, a message, or nothing.
    fn line(&mut self, line: &str, out: &mut dyn Write) -> Outcome<Reply> {
        if line.trim().is_empty() {
            return Ok(Reply::Continue);
        }
        if line.starts_with('/') {
            return self.command(line, out);
        }
        self.conversation.say(line.trim());
        self.answer(out)?;
        Ok(Reply::Continue)
    }

    /// Answers the last message. On an error the message is taken back, so that the conversation stays whole.
    fn answer(&mut self, out: &mut dyn Write) -> Outcome {
        let answer = match self.generate(out) {
            Ok(answer) => answer,
            Err(e) => {
                self.conversation.take_back();
                return Err(e);
            }
        };
        writeln!(out)?;
        out.flush()?;
        // Tokens of a stop string are no part of the answer.
        let whole = !matches!(answer.stats.stop, StopReason::StopString(_));
        self.conversation.answered(&answer.text, whole.then_some(answer.tokens.as_slice()));
        if !self.quiet {
            tell(&answer::figures(&answer.stats));
        }
        self.last = Some(answer.stats);
        Ok(())
    }

    fn generate(&mut self, out: &mut dyn Write) -> Outcome<answer::Answer> {
        let prompt = self.conversation.prompt(self.engine.tokenizer()?)?;
        answer::generate(&mut self.engine, &mut self.sequence, &prompt, &self.options, out)
    }
}
