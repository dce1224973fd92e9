//! The ways beside each other: as a table, Markdown, JSON and a plot.

use super::super::plot::{Axis, Plot, Point, Series};
use super::super::report::{product_name, products_json, program};
use super::About;
use super::measure::{Figures, Tried, middle};
use super::ways::Kind;
use crate::load::describe;
use crate::output::{self, Align, Table};
use serde_json::{Value, json};
use std::io::{self, Write};
use zinc_engine::{Engine, Products};

/// A way and a prompt beside the other ways of the same prompt.
pub struct Compared<'a> {
    pub tried: &'a Tried,
    /// The first way that was measured and adds in the policy's order, unless it is this one.
    reference: Option<&'a Tried>,
    /// Seconds to the first token, a token a step.
    per_token: Option<f64>,
}

/// Puts ways beside each other, prompt by prompt.
pub fn compare(tried: &[Tried]) -> Vec<Compared<'_>> {
    let mut all: Vec<Compared<'_>> = tried.iter().map(|t| Compared::of(t, tried)).collect();
    all.sort_by_key(|c| c.tried.prompt);
    all
}

impl<'a> Compared<'a> {
    fn of(tried: &'a Tried, all: &'a [Tried]) -> Compared<'a> {
        let same = || all.iter().filter(|o| o.prompt == tried.prompt && o.outcome.is_ok());
        let reference = same().find(|o| o.way.is_reference()).filter(|&o| !std::ptr::eq(o, tried));
        let per_token = same().find(|o| o.way.kind == Kind::PerToken);
        let seconds = |o: &Tried| o.outcome.as_ref().map(|f| middle(&f.first)).ok();
        Compared { tried, reference, per_token: per_token.and_then(seconds) }
    }
}

impl Compared<'_> {
    fn figures(&self) -> Option<&Figures> {
        self.tried.outcome.as_ref().ok()
    }

    /// Both results, where there are two.
    fn both(&self) -> Option<(&Figures, &Figures)> {
        Some((self.figures()?, self.reference?.outcome.as_ref().ok()?))
    }

    fn same_bits(&self) -> Option<bool> {
        self.both().map(|(own, other)| own.hash == other.hash)
    }

    /// Tokens from the first on that are the reference's.
    fn same_tokens(&self) -> Option<usize> {
        let (own, other) = self.both()?;
        Some(own.tokens.iter().zip(&other.tokens).take_while(|(a, b)| a == b).count())
    }

    /// The largest difference of a logit from the reference's.
    fn max_abs_diff(&self) -> Option<f32> {
        let (own, other) = self.both()?;
        Some(own.logits.iter().zip(&other.logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max))
    }

    fn speed_up(&self) -> Option<f64> {
        Some(self.per_token? / middle(&self.figures()?.first))
    }

    /// Prompt tokens a second: median, smallest, largest.
    pub fn rates(&self) -> Option<[f64; 3]> {
        let first = &self.figures()?.first;
        let rate = |seconds: f64| self.tried.prompt as f64 / seconds.max(1e-9);
        let (shortest, longest) =
            (first.iter().copied().fold(f64::INFINITY, f64::min), first.iter().copied().fold(0.0, f64::max));
        Some([rate(middle(first)), rate(longest), rate(shortest)])
    }

    /// What of the result cannot be right.
    pub fn wrong(&self) -> Option<String> {
        let figures = self.figures()?;
        let what = if !figures.finite() {
            "has logits that are not finite"
        } else if !figures.repeatable {
            "generates other tokens from repeat to repeat"
        } else if self.tried.way.exact() && self.same_bits() == Some(false) {
            "has other bits than the reference"
        } else if self.tried.way.exact() && self.same_tokens().is_some_and(|n| n < figures.tokens.len()) {
            "generates other tokens than the reference"
        } else {
            return None;
        };
        Some(format!("`{}` of {} tokens {what}", self.tried.way.name(), self.tried.prompt))
    }

    /// The verdict on the output in a word or two.
    fn verdict(&self) -> String {
        let Some(figures) = self.figures() else { return String::new() };
        let all = figures.tokens.len();
        match (self.wrong(), self.same_bits(), self.same_tokens()) {
            (Some(_), ..) => "WRONG".into(),
            (None, Some(true), _) => "same bits".into(),
            (None, Some(false), Some(n)) => {
                format!("{n}/{all} tokens, off by {:.1e}", self.max_abs_diff().unwrap_or_default())
            }
            _ => "reference".into(),
        }
    }

    /// The product with most weights: it stands for the others in tables.
    fn largest(&self) -> Option<&Products> {
        self.tried.products.iter().max_by_key(|p| p.weights())
    }
}

impl Figures {
    fn finite(&self) -> bool {
        !self.logits.is_empty() && self.logits.iter().all(|v| v.is_finite())
    }
}

/// A line for people: model, program.
fn heading(about: &About) -> [String; 2] {
    [
        format!("zinc {}", env!("ZINC_VERSION")),
        format!(
            "model    {}, {}, {} generated",
            about.model,
            output::bytes(about.bytes),
            output::plural(about.generate as usize, "token")
        ),
    ]
}

const HEADINGS: [(&str, Align); 13] = [
    ("prompt", Align::Right),
    ("way", Align::Left),
    ("step", Align::Right),
    ("largest product", Align::Left),
    ("tok/s", Align::Right),
    ("min", Align::Right),
    ("max", Align::Right),
    ("n", Align::Right),
    ("speed-up", Align::Right),
    ("first ms", Align::Right),
    ("total ms", Align::Right),
    ("logits", Align::Left),
    ("output", Align::Left),
];

fn cells(c: &Compared<'_>) -> [String; 13] {
    let empty = String::new;
    let tile = c.largest().map_or_else(empty, |p| product_name(p.product));
    let head = [c.tried.prompt.to_string(), c.tried.way.name(), c.tried.chunk.to_string(), tile];
    let tail = match (&c.tried.outcome, c.rates()) {
        (Ok(f), Some([median, min, max])) => [
            format!("{median:.1}"),
            format!("{min:.1}"),
            format!("{max:.1}"),
            f.first.len().to_string(),
            c.speed_up().map_or_else(empty, |s| format!("{s:.2}")),
            format!("{:.1}", 1e3 * middle(&f.first)),
            format!("{:.1}", 1e3 * middle(&f.total)),
            format!("{:016x}", f.hash),
            c.verdict(),
        ],
        (outcome, _) => {
            let why = outcome.as_ref().err().map_or_else(empty, |why| format!("skipped: {why}"));
            [empty(), empty(), empty(), empty(), empty(), empty(), empty(), empty(), why]
        }
    };
    let mut all = head.into_iter().chain(tail);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

pub fn as_text(
    engine: &Engine,
    about: &About,
    results: &[Compared<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in heading(about).into_iter().chain(describe(engine)) {
        writeln!(out, "{line}")?;
    }
    let mut table = Table::new(&HEADINGS);
    results.iter().for_each(|c| table.row(cells(c)));
    writeln!(out)?;
    table.write(out, 0)?;
    for (prompt, text) in texts(results) {
        writeln!(out, "after {prompt}: {text:?}")?;
    }
    Ok(())
}

/// What the reference generates, prompt by prompt.
fn texts<'a>(results: &'a [Compared<'_>]) -> impl Iterator<Item = (usize, &'a str)> {
    let reference = results.iter().filter(|c| c.reference.is_none());
    reference.filter_map(|c| Some((c.tried.prompt, c.figures()?.text.as_deref()?)))
}

/// The ways by prompt, tokens a second and speed-up; then every figure.
pub fn as_markdown(
    engine: &Engine,
    about: &About,
    results: &[Compared<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let s = engine.summary();
    writeln!(
        out,
        "{}, {} on {} ({}), {} arithmetic, {} KV cache, zinc {}.\n",
        about.model,
        s.backend,
        s.device,
        s.driver,
        s.policy,
        s.kv_type,
        env!("ZINC_VERSION")
    )?;
    writeln!(out, "Prompt tokens a second, median, and speed-up over a token a step:\n")?;
    let mut prompts: Vec<usize> = results.iter().map(|c| c.tried.prompt).collect();
    prompts.dedup();
    let heads: Vec<String> = prompts.iter().map(|p| format!("{p} tokens")).collect();
    line(out, ["way", "step"].into_iter().chain(heads.iter().map(String::as_str)))?;
    line(out, ["---", "--:"].into_iter().chain(heads.iter().map(|_| "--:")))?;
    let first = prompts.first().copied().unwrap_or_default();
    for (i, way) in results.iter().filter(|c| c.tried.prompt == first).enumerate() {
        let of_prompt = |p: &usize| results.iter().filter(move |c| c.tried.prompt == *p).nth(i);
        let speeds: Vec<String> = prompts
            .iter()
            .map(|p| match of_prompt(p).and_then(|c| Some((c.rates()?[0], c.speed_up()))) {
                Some((rate, Some(times))) => format!("{rate:.0} ({times:.1}×)"),
                Some((rate, None)) => format!("{rate:.0}"),
                None => "skipped".into(),
            })
            .collect();
        let head = [way.tried.way.name(), way.tried.chunk.to_string()];
        line(out, head.iter().chain(&speeds).map(String::as_str))?;
    }
    writeln!(out, "\nAll figures. *first*: to the first token, *total*: to the {}th.\n", about.generate)?;
    line(out, HEADINGS.iter().map(|h| h.0))?;
    line(out, HEADINGS.iter().map(|h| if h.1 == Align::Right { "--:" } else { "---" }))?;
    for c in results {
        line(out, cells(c).iter().map(String::as_str))?;
    }
    Ok(())
}

fn line<'a>(out: &mut dyn Write, cells: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let cells: Vec<String> = cells.map(|c| c.replace('|', "\\|")).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}

pub fn as_json(engine: &Engine, about: &About, results: &[Compared<'_>]) -> Value {
    let s = engine.summary();
    let results: Vec<Value> = results
        .iter()
        .map(|c| {
            let mut value = json!({
                "way": c.tried.way.name(), "kind": c.tried.way.kind.name(), "path": c.tried.path,
                "chunk": c.tried.chunk, "columns": c.tried.way.columns(),
                "tile": c.largest().map(|p| products_json(p)["tile"].clone()),
                "products": c.tried.products.iter().map(products_json).collect::<Vec<_>>(),
                "policy": s.policy, "backend": s.backend, "device": s.device, "driver": s.driver, "model": about.model,
                "prompt_tokens": c.tried.prompt, "generated_tokens": about.generate,
            });
            let more = match (&c.tried.outcome, c.rates()) {
                (Ok(f), Some([median, min, max])) => json!({
                    "tokens_per_second": { "median": median, "min": min, "max": max },
                    "speed_up": c.speed_up(), "first_token_seconds": f.first, "total_seconds": f.total,
                    "logits_hash": format!("{:016x}", f.hash), "finite": f.finite(), "repeatable": f.repeatable,
                    "same_bits": c.same_bits(), "same_tokens": c.same_tokens(), "max_abs_diff": c.max_abs_diff(),
                    "wrong": c.wrong(), "tokens": f.tokens, "text": f.text,
                }),
                (outcome, _) => json!({ "skipped": outcome.as_ref().err() }),
            };
            if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
                value.extend(more);
            }
            value
        })
        .collect();
    json!({
        "zinc": program(), "model": { "file": about.model, "tensor_bytes": about.bytes },
        "engine": s, "results": results,
    })
}

pub fn plot(engine: &Engine, about: &About, results: &[Compared<'_>]) -> Plot {
    let points = results.iter().filter_map(|c| {
        let name = match c.tried.chunk {
            1 => c.tried.way.name(),
            chunk => format!("{}, steps of {chunk}", c.tried.way.name()),
        };
        Some((name, c.tried.prompt as f64, c.rates()?))
    });
    let x = Axis { label: "tokens of the prompt", logarithmic: true };
    plot_of(engine, format!("Reading a prompt: {}", about.model), x, points)
}

/// A plot of [`Compared::rates`]: for each point the name of its line and its place on the x axis. The y axis is as the x axis.
pub fn plot_of(
    engine: &Engine,
    title: String,
    x: Axis,
    points: impl Iterator<Item = (String, f64, [f64; 3])>,
) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for (name, x, [y, low, high]) in points {
        let point = Point { x, y, low, high };
        match series.iter_mut().find(|s| s.name == name) {
            Some(found) => found.points.push(point),
            None => series.push(Series { name, points: vec![point] }),
        }
    }
    let s = engine.summary();
    Plot {
        title,
        subtitle: format!("{} ({}), {} arithmetic", s.device, s.driver, s.policy),
        y: Axis { label: "tokens a second (median, least to most)", logarithmic: x.logarithmic },
        x,
        series,
    }
}
