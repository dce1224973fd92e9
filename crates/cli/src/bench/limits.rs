//! How near a model's rates come to what `zinc bench device` measured.

use super::measure::{Kind, Measured};
use crate::error::Outcome;
use crate::output::plural;
use serde_json::{Value, json};
use zinc_engine::{DeviceFigures, Engine, Products};
use zinc_vulkan::CacheLocation;

/// A share of a limit.
pub struct OfLimit {
    test: String,
    limit: &'static str,
    percent: f64,
}

/// Of decoding, the weights of products that are read a second in the read bandwidth; of prefill, their multiplications and additions in
/// the rate of cooperative matrices of 16-bit floats. Of experts those count that a token uses. Nothing where the limit was not measured.
pub fn of_limits(engine: &Engine, results: &[Measured]) -> Outcome<Vec<OfLimit>> {
    let Some(figures) =
        engine.device_capabilities().and_then(|c| DeviceFigures::read(c, &CacheLocation::User))
    else {
        return Ok(Vec::new());
    };
    let products = engine.products(1)?;
    let bytes: u64 = products
        .iter()
        .map(|p| p.weights() / p.class.format.block_elems as u64 * p.class.format.block_bytes as u64)
        .sum();
    let weights: u64 = products.iter().map(Products::weights).sum();
    Ok(results
        .iter()
        .filter_map(|r| {
            let (rate, most, limit) = match r.kind {
                Kind::Decode => (bytes as f64 * r.median() / 1e9, figures.read_gb_per_s, "read bandwidth"),
                Kind::Prefill => {
                    (2.0 * weights as f64 * r.median() / 1e12, figures.float_matrix_rate()?, "matrix rate")
                }
            };
            let test = format!("{} {}", r.kind.name(), plural(r.tokens, "token"));
            Some(OfLimit { test, limit, percent: 100.0 * rate / most })
        })
        .collect())
}

impl OfLimit {
    pub fn line(&self) -> String {
        format!("{}: {:.1} % of the device's {} in weight products", self.test, self.percent, self.limit)
    }

    pub fn as_json(&self) -> Value {
        json!({ "test": self.test, "limit": self.limit, "percent": self.percent })
    }
}
