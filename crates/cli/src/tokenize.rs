//! `zinc tokenize`: text to token ids and back.

use crate::args::{ControlArg, ModelArg, TokenIds, text_or_stdin, token_ids};
use crate::error::{Outcome, error};
use crate::output::{self, Align, Table};
use serde_json::json;
use std::io::Write;
use zinc_gguf::Gguf;
use zinc_text::Tokenizer;

/// Shows the tokens of a text, or the text of tokens.
///
/// No BOS token is added unless `--bos` asks for it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// The text; `-` or none reads standard input.
    #[arg(conflicts_with = "decode")]
    text: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArg,
    /// Begin with the BOS token if the model wants a text to begin with one.
    #[arg(long)]
    bos: bool,
    /// Pretokenizer in place of the one the file names.
    #[arg(long, value_name = "NAME")]
    pretokenizer: Option<String>,
    /// Print the text of these token ids, separated by commas.
    #[arg(long, value_name = "IDS", value_parser = token_ids, conflicts_with_all = ["control", "bos"])]
    decode: Option<TokenIds>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let file = Gguf::open(&args.model.model)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata(), args.pretokenizer.as_deref())?;
    if let Some(ids) = &args.decode {
        return decode(&tokenizer, ids, args.json, out);
    }
    let text = text_or_stdin(args.text.as_deref())?;
    let mut ids: Vec<u32> =
        if args.bos && tokenizer.add_bos() { tokenizer.bos().into_iter().collect() } else { vec![] };
    ids.extend(tokenizer.encode(&text, args.control.tokens()));
    if args.json {
        let tokens: Vec<_> =
            ids.iter().map(|&id| json!({ "id": id, "text": tokenizer.token_text(id), "control": tokenizer.is_control(id) })).collect();
        return Ok(output::json(out, &json!({ "count": ids.len(), "ids": ids, "tokens": tokens }))?);
    }
    let mut table = Table::new(&[("id", Align::Right), ("token", Align::Left)]);
    for &id in &ids {
        let kind = if tokenizer.is_control(id) { " (control)" } else { "" };
        table.row([id.to_string(), format!("{:?}{kind}", tokenizer.token_text(id))]);
    }
    table.write(out, 0)?;
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    writeln!(out, "{}: {}", output::plural(ids.len(), "token"), list.join(","))?;
    Ok(())
}

fn decode(tokenizer: &Tokenizer, ids: &[u32], json: bool, out: &mut dyn Write) -> Outcome {
    let vocab = tokenizer.vocab_size();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
        return Err(error(
            format!("token `{id}` is beyond the vocabulary"),
            format!("ids go from 0 to {}", vocab - 1),
        ));
    }
    let text = tokenizer.decode(ids);
    if json {
        output::json(out, &json!({ "text": text, "ids": ids }))?
    } else {
        writeln!(out, "{text}")?
    }
    Ok(())
}
