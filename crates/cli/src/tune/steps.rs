//! How many tokens of a prompt a step best reads: measured with the model itself, its products cut as tuned.

use super::Args;
use crate::bench::measure::Bench;
use crate::error::{Outcome, error};
use crate::load::{PolicyArg, tell};
use crate::output::{Align, Table, plural};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use zinc_engine::{Cut, Engine, LoadOptions, Measured, PrefillMode, model_class};
use zinc_gguf::Gguf;
use zinc_kernels::Policy;
use zinc_vulkan::Device;

/// What was measured.
pub struct Steps {
    model: String,
    policy: &'static str,
    /// Tokens of the prompt that was read.
    prompt: usize,
    /// Rows of a step and tokens a second.
    rates: Vec<(u32, f64)>,
    best: u32,
}

/// Other steps than the default's must be faster by this factor.
const CLEARLY: f64 = 1.03;

/// Reads a prompt in steps of each width, and notes the best.
pub fn tune(device: Device, args: &Args, model: &Path, measured: &mut Measured) -> Outcome<Steps> {
    let mut options = LoadOptions::new(model);
    options.prefill = PrefillMode::Batched;
    let mut widths = args.chunks.clone();
    let gguf = Arc::new(Gguf::open(model)?);
    let read = zinc_model::Model::from_gguf(&gguf).map_err(zinc_engine::Error::from)?;
    let (caps, policy) = (device.capabilities(), Policy::of(device.capabilities()));
    options.precision = args.policy.map(PolicyArg::precision);
    let precision = options.precision_for(&read.plan, &policy);
    let default = policy.steps(caps, precision);
    widths.push(default.min(args.chunks.iter().copied().max().unwrap_or(1)));
    widths.sort_unstable();
    widths.dedup();
    options.chunk = widths.last().copied();
    // Several of the widest steps, so that a narrower last one counts little.
    let prompt = 2 * options.chunk.unwrap_or(1);
    options.context = Some((prompt + 1).min(read.spec.context_length.max(2)));
    let mut engine = Engine::on_device(gguf, device, &options, &mut |_| ())?;
    engine.finish_warming(); // what is measured is steps
    let class = model_class(engine.model(), precision);
    let prompt = (prompt as usize).min(engine.context() - 1);
    let widest = engine.prefill_path().chunk;
    widths.retain(|&rows| rows <= widest);
    if widths.is_empty() {
        return Err(error(
            format!("steps have at most {widest} tokens here"),
            "`--chunks` names what is tried; `zinc check -m FILE` says what is in the way",
        ));
    }
    let cut = match measured.tiles.measured().is_empty() {
        true => Cut::Policy,
        false => Cut::Tuned(Arc::new(measured.tiles.clone())),
    };
    let mut bench = Bench::new(engine, 1, 3)?;
    let mut rates = Vec::new();
    for &rows in &widths {
        tell(&[format!("steps of {}", plural(rows as usize, "token"))]);
        bench.engine.set_steps(rows, cut.clone())?;
        rates.push((rows, bench.prefill(prompt, 0)?.median()));
    }
    let best = best(&rates, default);
    measured.chunks.insert(class.clone(), best);
    Ok(Steps { model: class, policy: precision.name(), prompt, rates, best })
}

/// The fastest width; the default where no other is clearly faster, or the narrowest of those that are as good.
fn best(rates: &[(u32, f64)], default: u32) -> u32 {
    let fastest = rates.iter().map(|r| r.1).fold(0.0, f64::max);
    let as_good = || rates.iter().filter(|r| r.1 * CLEARLY >= fastest).map(|r| r.0);
    as_good().find(|&rows| rows == default).or(as_good().min()).unwrap_or(default)
}

impl Steps {
    pub fn as_text(&self, out: &mut dyn Write) -> Outcome {
        let mut table =
            Table::new(&[("tokens a step", Align::Right), ("tok/s", Align::Right), ("", Align::Left)]);
        for &(rows, rate) in &self.rates {
            let best = if rows == self.best { "taken" } else { "" };
            table.row([rows.to_string(), format!("{rate:.1}"), best.into()]);
        }
        writeln!(out, "a prompt of {}, {} arithmetic", plural(self.prompt, "token"), self.policy)?;
        Ok(table.write(out, 0)?)
    }

    pub fn as_json(&self) -> Value {
        let rates: Vec<Value> =
            self.rates.iter().map(|&(rows, rate)| json!({"rows": rows, "tokens_per_s": rate})).collect();
        json!({"model": self.model, "policy": self.policy, "prompt": self.prompt, "best": self.best, "results": rates})
    }
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_default_stays_unless_another_width_is_clearly_faster() {
        assert_eq!(best(&[(128, 90.0), (512, 100.0), (1024, 102.0)], 512), 512);
        assert_eq!(best(&[(128, 90.0), (512, 100.0), (1024, 110.0)], 512), 1024);
        assert_eq!(best(&[(128, 109.0), (512, 100.0), (1024, 110.0)], 512), 128);
        assert_eq!(best(&[(4, 1.0), (8, 5.0)], 512), 8);
        assert_eq!(best(&[(512, 99.0), (1024, 100.0), (2048, 98.0)], 2048), 2048);
    }
}
