//! `zinc perplexity`: how well the model predicts a text, and how close a GPU is to the CPU executor.

use crate::args::{ModelArg, text_or_stdin};
use crate::error::{Outcome, error, file, usage};
use crate::load::{BackendArg, EngineArgs, describe, load, tell};
use crate::output;
use crate::run::raw_prompt;
use indicatif::ProgressBar;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use zinc_engine::{BackendWish, Engine, KvType, LoadOptions, Want, divergence, log_sum_exp};

/// Measures how well the model predicts a text: mean negative log likelihood (nats) and perplexity.
///
/// The text is cut into windows of `--window` tokens, each beginning `--stride` tokens after the one before (and with BOS where the
/// model wants one). Each token is scored once, in the first window that holds it; the first token of the text is not scored.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// The text, UTF-8; `-` reads standard input.
    text: PathBuf,
    /// Tokens of a window [default: 512, or the context if that is less].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    window: Option<u32>,
    /// Tokens from one window's beginning to the next [default: half a window].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// Compare with the CPU executor: KL divergence of the device's distribution from the CPU's, and how often both have the same
    /// best token.
    #[arg(long)]
    kl: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Say nothing about where the model ran.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Rows of logits that are held at a time.
const ROWS: usize = 32;

/// Sums over the scored tokens.
#[derive(Default)]
struct Sums {
    tokens: usize,
    nll: f64,
    nll_squares: f64,
    kl: f64,
    kl_max: f64,
    same_best: usize,
    reference_nll: f64,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.engine.refuse_validate("perplexity")?;
    let text = read(&args.text)?;
    if args.kl && args.engine.backend == BackendArg::Cpu {
        return Err(usage(
            "`--kl` compares a device with the CPU executor",
            "leave out `--backend cpu` or `--kl`",
        ));
    }
    let mut engine = args.engine.load(&args.model.model, args.quiet)?;
    let mut reference = args.kl.then(|| reference(args, &engine)).transpose()?;
    let tokenizer = engine.tokenizer()?;
    let ids = raw_prompt(tokenizer, &text, &crate::args::ControlArg { control: crate::args::Control::Text });
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let windows = windows(ids.len(), args, engine.context(), bos.is_some())?;

    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(ids.len() as u64) };
    let mut sums = Sums::default();
    for w in &windows {
        let mut tokens = ids[w.start..w.end].to_vec();
        if let (Some(bos), true) = (bos, w.start > 0) {
            tokens[0] = bos; // the token in its place is scored in an earlier window
        }
        score(&mut engine, reference.as_mut(), &tokens, w.scored_from - w.start, &mut sums)?;
        bar.set_position(w.end as u64);
    }
    bar.finish_and_clear();
    report(args, &engine, &sums, windows.len(), out)
}

fn read(path: &Path) -> Outcome<String> {
    if path == Path::new("-") {
        return text_or_stdin(None);
    }
    let bytes = std::fs::read(path).map_err(|e| file(path, "read", &e))?;
    String::from_utf8(bytes)
        .map_err(|_| error(format!("`{}` is not UTF-8", path.display()), "convert the text to UTF-8"))
}

/// The same model on the CPU. It is refused where the CPU is what runs the model anyway.
fn reference(args: &Args, engine: &Engine) -> Outcome<Engine> {
    if engine.summary().backend == "cpu" {
        return Err(error(
            "`--kl` compares a device with the CPU executor, and there is no device",
            "`zinc devices` lists them; `--device NAME` takes a software driver too",
        ));
    }
    let options = LoadOptions {
        backend: BackendWish::Cpu,
        context: Some(engine.context() as u32),
        kv_type: KvType::F32,
        pretokenizer: args.engine.pretokenizer.clone(),
        ..LoadOptions::new(&args.model.model)
    };
    load(&options, args.quiet)
}

/// Tokens `start..end` are read; those from `scored_from` on are scored.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    start: usize,
    end: usize,
    scored_from: usize,
}

fn windows(tokens: usize, args: &Args, context: usize, has_bos: bool) -> Outcome<Vec<Window>> {
    let width = args.window.map_or(context.min(512), |w| w as usize);
    if width > context {
        return Err(usage(
            format!("a window of {width} tokens does not fit into a context of {context}"),
            format!("use `--window {context}` or less, or a larger `--ctx`"),
        ));
    }
    let stride = args.stride.map_or((width / 2).max(1), |s| s as usize);
    // A token must have one before it in the window in which it is scored; with BOS in the first place one more is lost.
    let lead = 1 + usize::from(has_bos);
    if stride + lead > width && tokens > width {
        return Err(usage(
            format!("a stride of {stride} leaves tokens unscored with a window of {width}"),
            format!("use `--stride {}` or less", width.saturating_sub(lead).max(1)),
        ));
    }
    if tokens < 2 {
        return Err(error(
            "the text has fewer than two tokens",
            "nothing can be predicted; use a longer text",
        ));
    }
    Ok(cut(tokens, width, stride))
}

fn cut(tokens: usize, width: usize, stride: usize) -> Vec<Window> {
    let mut windows = vec![Window { start: 0, end: width.min(tokens), scored_from: 1 }];
    while let Some(last) = windows.last().filter(|w| w.end < tokens) {
        let (start, scored_from) = (last.start + stride, last.end);
        windows.push(Window { start, end: (start + width).min(tokens), scored_from });
    }
    windows
}

/// Scores `tokens[from..]`, each by the logits after the token before it.
fn score(
    engine: &mut Engine,
    mut reference: Option<&mut Engine>,
    tokens: &[u32],
    from: usize,
    sums: &mut Sums,
) -> Outcome {
    let mut sequence = engine.sequence()?;
    let mut other = reference.as_ref().map(|r| r.sequence()).transpose()?;
    let before = from - 1;
    engine.forward(&mut sequence, &tokens[..before], Want::None)?;
    if let (Some(r), Some(s)) = (reference.as_deref_mut(), other.as_mut()) {
        r.forward(s, &tokens[..before], Want::None)?;
    }
    let last = tokens.len() - 1; // nothing follows it
    for start in (before..last).step_by(ROWS) {
        let part = start..(start + ROWS).min(last);
        let logits = engine.forward(&mut sequence, &tokens[part.clone()], Want::All)?;
        let theirs = match (reference.as_deref_mut(), other.as_mut()) {
            (Some(r), Some(s)) => Some(r.forward(s, &tokens[part.clone()], Want::All)?),
            _ => None,
        };
        for (row, position) in part.enumerate() {
            sums.add(logits.row(row), theirs.as_ref().map(|t| t.row(row)), tokens[position + 1] as usize);
        }
    }
    Ok(())
}

impl Sums {
    /// Adds a token: its logits, those of the reference, and which token came.
    fn add(&mut self, logits: &[f32], reference: Option<&[f32]>, came: usize) {
        let norm = log_sum_exp(logits);
        let nll = norm - f64::from(logits[came]);
        self.tokens += 1;
        self.nll += nll;
        self.nll_squares += nll * nll;
        let Some(reference) = reference else { return };
        let their_norm = log_sum_exp(reference);
        let kl = divergence((reference, their_norm), (logits, norm));
        self.kl += kl;
        self.kl_max = self.kl_max.max(kl);
        self.same_best += usize::from(best(logits) == best(reference));
        self.reference_nll += their_norm - f64::from(reference[came]);
    }
}

fn best(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

fn report(args: &Args, engine: &Engine, sums: &Sums, windows: usize, out: &mut dyn Write) -> Outcome {
    let n = sums.tokens as f64;
    let nll = sums.nll / n;
    let deviation = (sums.nll_squares / n - nll * nll).max(0.0).sqrt() / n.sqrt();
    let agreement = sums.same_best as f64 / n;
    if !nll.is_finite() {
        return Err(crate::error::invalid(
            "the logits are not finite numbers",
            "`zinc check --ops` tests the kernels on this device",
        ));
    }
    if args.json {
        let kl = args.kl.then(|| {
            json!({
                "mean": sums.kl / n, "max": sums.kl_max, "top1_agreement": agreement,
                "reference_nll": sums.reference_nll / n,
            })
        });
        let value = json!({
            "tokens": sums.tokens, "windows": windows, "nll": nll, "nll_standard_error": deviation,
            "perplexity": nll.exp(), "kl": kl, "engine": engine.summary(),
        });
        output::json(out, &value)?;
    } else {
        writeln!(out, "tokens scored  {} in {}", sums.tokens, output::plural(windows, "window"))?;
        writeln!(out, "mean NLL       {nll:.6} +- {deviation:.6} nats")?;
        writeln!(out, "perplexity     {:.4}", nll.exp())?;
        if args.kl {
            writeln!(out, "CPU mean NLL   {:.6} nats", sums.reference_nll / n)?;
            writeln!(out, "KL divergence  mean {:.3e}, max {:.3e} nats", sums.kl / n, sums.kl_max)?;
            writeln!(
                out,
                "same best      {:.3} % of {}",
                100.0 * agreement,
                output::plural(sums.tokens, "token")
            )?;
        }
    }
    if !args.quiet {
        tell(&describe(engine));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_but_the_first_is_scored_once() {
        for (tokens, width, stride) in
            [(2, 8, 4), (8, 8, 4), (9, 8, 4), (100, 8, 3), (101, 16, 15), (50, 7, 1)]
        {
            let windows = cut(tokens, width, stride);
            let scored: Vec<usize> = windows.iter().flat_map(|w| w.scored_from..w.end).collect();
            assert_eq!(scored, (1..tokens).collect::<Vec<_>>(), "{tokens}, {width}, {stride}");
            assert!(windows.iter().all(|w| w.end - w.start <= width && w.scored_from > w.start));
        }
    }

    #[test]
    fn divergence_of_equal_rows_is_zero() {
        let mut sums = Sums::default();
        let row = [0.5, -1.0, 3.0];
        sums.add(&row, Some(&row), 2);
        assert_eq!((sums.kl, sums.same_best, sums.tokens), (0.0, 1, 1));
        let p = 3f64.exp() / (0.5f64.exp() + (-1f64).exp() + 3f64.exp());
        assert!((sums.nll + p.ln()).abs() < 1e-9);
    }
}
