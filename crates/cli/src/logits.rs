//! `zinc logits`: the numbers themselves, for people who compare engines.

use crate::args::{ControlArg, ModelArg, TokenIds, token_ids};
use crate::error::{Outcome, error, file};
use crate::load::{EngineArgs, describe, tell};
use crate::output;
use crate::run::raw_prompt;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use zinc_engine::{Engine, Logits, Want};

/// Writes the logits after the last token, or after every token, as JSON or safetensors.
///
/// Token ids are read as they are. A prompt is read as a text, BOS first where the model wants one.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("input").required(true).args(["tokens", "prompt"])))]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Token ids, separated by commas.
    #[arg(long, value_name = "IDS", value_parser = token_ids, conflicts_with = "control")]
    tokens: Option<TokenIds>,
    /// A text.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    control: ControlArg,
    /// Logits after every token, not only the last.
    #[arg(long)]
    all: bool,
    /// File to write: `.safetensors` (`logits` f32 [rows, vocab], `tokens` i32) or `.json` [default: JSON to standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say nothing about where the model ran.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.engine.refuse_validate("logits")?;
    let kind = args.output.as_deref().map(FileKind::of).transpose()?;
    let mut engine = args.engine.load(&args.model.model, args.quiet)?;
    let tokens = match (&args.tokens, &args.prompt) {
        (Some(ids), _) => ids.clone(),
        (None, text) => raw_prompt(engine.tokenizer()?, text.as_deref().unwrap_or_default(), &args.control),
    };
    let mut sequence = engine.sequence()?;
    let want = if args.all { Want::All } else { Want::Last };
    let logits = engine.forward(&mut sequence, &tokens, want)?;
    if logits.rows() == 0 {
        return Err(error("the prompt has no tokens", "give at least one character"));
    }
    let bytes = match kind {
        Some(FileKind::Safetensors) => as_safetensors(&engine, &tokens, &logits)?,
        Some(FileKind::Json) | None => {
            let mut bytes = Vec::new();
            output::json(&mut bytes, &as_json(&engine, &tokens, &logits))?;
            bytes
        }
    };
    match &args.output {
        Some(path) => std::fs::write(path, bytes).map_err(|e| file(path, "written", &e))?,
        None => out.write_all(&bytes)?,
    }
    if !args.quiet {
        tell(&describe(&engine));
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum FileKind {
    Safetensors,
    Json,
}

impl FileKind {
    fn of(path: &Path) -> Outcome<FileKind> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("safetensors") => Ok(FileKind::Safetensors),
            Some("json") => Ok(FileKind::Json),
            _ => Err(error(
                format!("`{}` names no known format", path.display()),
                "end the name in `.safetensors` or `.json`",
            )),
        }
    }
}

fn as_json(engine: &Engine, tokens: &[u32], logits: &Logits) -> serde_json::Value {
    let rows: Vec<&[f32]> = (0..logits.rows()).map(|i| logits.row(i)).collect();
    json!({ "tokens": tokens, "vocab": logits.vocab, "logits": rows, "engine": engine.summary() })
}

fn as_safetensors(engine: &Engine, tokens: &[u32], logits: &Logits) -> Outcome<Vec<u8>> {
    let s = engine.summary();
    let about = [("backend", s.backend), ("device", &s.device), ("policy", s.policy), ("kv_type", s.kv_type)];
    let about: HashMap<String, String> =
        about.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let values: Vec<u8> = logits.values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let ids: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
    let views = TensorView::new(Dtype::F32, vec![logits.rows(), logits.vocab], &values)
        .and_then(|v| Ok([("logits", v), ("tokens", TensorView::new(Dtype::I32, vec![tokens.len()], &ids)?)]))
        .and_then(|views| safetensors::serialize(views, Some(about)));
    views.map_err(|e| error(format!("the logits cannot be written: {e}"), "use a name that ends in `.json`"))
}
