//! The fields that say how tokens are chosen, in all APIs by the same names.

use super::input::OneOrMany;
use crate::error::{ApiError, ApiResult};
use crate::id;
use serde::Deserialize;
use serde_json::{Map, Value};
use zinc_engine::SamplingOptions;

/// Alternatives to a token at most, as OpenAI has it.
const TOP_LOGPROBS: usize = 20;

/// Stop strings at most.
const STOPS: usize = 64;

/// How tokens are chosen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i64>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    #[serde(alias = "repeat_penalty")]
    pub repetition_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub logit_bias: Option<Map<String, Value>>,
    pub seed: Option<i64>,
    pub ignore_eos: Option<bool>,
}

impl Sampling {
    /// For the engine; `vocab` is the number of the model's tokens. Without a temperature it is 1, as OpenAI has it; without a seed
    /// there is a new one each time.
    ///
    /// # Errors
    /// For the client: a value out of range.
    pub fn options(&self, vocab: u32) -> ApiResult<SamplingOptions> {
        let options = SamplingOptions {
            temperature: self.temperature.unwrap_or(1.0),
            // −1 and 0 mean all.
            top_k: self.top_k.unwrap_or(0).clamp(0, i64::from(vocab)) as u32,
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            typical_p: self.typical_p.unwrap_or(1.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            penalty_window: 0,
            logit_bias: self.bias(vocab)?,
            seed: self.seed.map_or_else(id::random, |s| s as u64),
        };
        options.check().map_err(ApiError::bad)?;
        Ok(options)
    }

    fn bias(&self, vocab: u32) -> ApiResult<Vec<(u32, f32)>> {
        let wrong = |what: String| ApiError::field("logit_bias", what);
        let one = |(key, value): (&String, &Value)| {
            let id = key.parse::<u32>().ok().filter(|&id| id < vocab);
            let id = id.ok_or_else(|| wrong(format!("`{key}` is no token id of this model")))?;
            let bias = value.as_f64().ok_or_else(|| wrong(format!("the bias of token {id} is no number")))?;
            // By OpenAI's definition −100 bans a token and 100 leaves no other.
            Ok((id, if bias <= -100.0 { f32::NEG_INFINITY } else { bias as f32 }))
        };
        self.logit_bias.iter().flatten().map(one).collect()
    }
}

/// Checks how many alternatives to a token are asked for.
///
/// # Errors
/// For the client: too many.
pub fn alternatives(field: &str, top: Option<usize>) -> ApiResult<Option<usize>> {
    match top {
        Some(n) if n > TOP_LOGPROBS => {
            Err(ApiError::field(field, format!("it must be at most {TOP_LOGPROBS}")))
        }
        _ => Ok(top),
    }
}

/// Checks stop strings.
///
/// # Errors
/// For the client: too many.
pub fn stops(field: &str, stop: Option<OneOrMany<String>>) -> ApiResult<Vec<String>> {
    let stops: Vec<String> = stop.map(OneOrMany::into_vec).unwrap_or_default();
    if stops.len() > STOPS {
        return Err(ApiError::field(field, format!("at most {STOPS} stop strings are taken")));
    }
    Ok(stops.into_iter().filter(|s| !s.is_empty()).collect())
}
