//! The options that say how tokens are chosen.

use crate::error::{Outcome, usage};
use std::time::SystemTime;
use zinc_engine::SamplingOptions;

/// How tokens are chosen. Applied in this order: bias, penalties, top-k, typical, top-p, min-p, temperature.
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Randomness of the choice; 0 always takes the most likely token.
    #[arg(short = 't', long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Choose among the K most likely tokens; 0: all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: u32,
    /// Choose among the fewest most likely tokens whose probabilities reach P; 1: all.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Choose among tokens at least P times as likely as the most likely one; 0: all.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub min_p: f32,
    /// Choose among the tokens of most typical information whose probabilities reach P; 1: all.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub typical: f32,
    /// Make tokens seen before less likely by this factor; 1: not.
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repetition_penalty: f32,
    /// Subtract this from the logit of a token seen before.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub presence_penalty: f32,
    /// Subtract this from the logit of a token for each time it was seen.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub frequency_penalty: f32,
    /// How many of the last tokens the penalties look at; 0: all.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub penalty_window: u32,
    /// Add a number to the logit of a token, such as `1234=-5` or `1234=-inf`; may be repeated.
    #[arg(long, value_name = "ID=BIAS", value_parser = logit_bias, allow_hyphen_values = true)]
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the random choices: the same seed gives the same text [default: a new one each time].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let wrong = || format!("`{text}` is not a token id, `=` and a number");
    let (id, bias) = text.split_once('=').ok_or_else(wrong)?;
    Ok((id.trim().parse().map_err(|_| wrong())?, bias.trim().parse().map_err(|_| wrong())?))
}

impl SamplingArgs {
    /// For the engine, checked; `vocab` is the number of the model's tokens.
    pub fn options(&self, vocab: u32) -> Outcome<SamplingOptions> {
        if let Some((id, _)) = self.logit_bias.iter().find(|b| b.0 >= vocab) {
            return Err(usage(
                format!("`--logit-bias` names token {id}, the model has {vocab}"),
                "`zinc tokenize` shows the ids of a text",
            ));
        }
        let options = SamplingOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            penalty_window: self.penalty_window,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed.unwrap_or_else(new_seed),
        };
        options.check().map_err(|e| usage(e, "`--help` says what each option does"))?;
        Ok(options)
    }
}

/// A seed from the clock, short enough to be typed again.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The options that can be set by name in a conversation, with their present values.
pub fn named(options: &SamplingOptions) -> Vec<(&'static str, String)> {
    let o = options;
    vec![
        ("temperature", o.temperature.to_string()),
        ("top-k", o.top_k.to_string()),
        ("top-p", o.top_p.to_string()),
        ("min-p", o.min_p.to_string()),
        ("typical", o.typical_p.to_string()),
        ("repetition-penalty", o.repetition_penalty.to_string()),
        ("presence-penalty", o.presence_penalty.to_string()),
        ("frequency-penalty", o.frequency_penalty.to_string()),
        ("penalty-window", o.penalty_window.to_string()),
        ("seed", o.seed.to_string()),
    ]
}

/// Sets one of the [`named`] options; an error says what is wrong and leaves them as they are.
pub fn set(options: &mut SamplingOptions, name: &str, value: &str) -> Result<(), String> {
    fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("`{value}` is not a number of this kind"))
    }
    let mut o = options.clone();
    match name {
        "temperature" => o.temperature = number(value)?,
        "top-k" => o.top_k = number(value)?,
        "top-p" => o.top_p = number(value)?,
        "min-p" => o.min_p = number(value)?,
        "typical" => o.typical_p = number(value)?,
        "repetition-penalty" => o.repetition_penalty = number(value)?,
        "presence-penalty" => o.presence_penalty = number(value)?,
        "frequency-penalty" => o.frequency_penalty = number(value)?,
        "penalty-window" => o.penalty_window = number(value)?,
        "seed" => o.seed = number(value)?,
        _ => {
            let names: Vec<&str> = named(options).iter().map(|n| n.0).collect();
            return Err(format!("no setting `{name}`; there are {}", names.join(", ")));
        }
    }
    o.check()?;
    *options = o;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_setting_can_be_set_to_its_own_value() {
        let mut o = SamplingOptions::default();
        for (name, value) in named(&o) {
            set(&mut o, name, &value).unwrap();
        }
        assert_eq!(o, SamplingOptions::default());
        set(&mut o, "top-k", "40").unwrap();
        assert_eq!(o.top_k, 40);
        assert!(set(&mut o, "top-p", "2").is_err());
        assert!(set(&mut o, "nonsense", "2").unwrap_err().contains("top-k"));
    }

    #[test]
    fn a_bias_is_an_id_and_a_number() {
        assert_eq!(logit_bias("7=-1.5"), Ok((7, -1.5)));
        assert_eq!(logit_bias("7=-inf"), Ok((7, f32::NEG_INFINITY)));
        assert!(logit_bias("7").is_err());
        assert!(logit_bias("x=1").is_err());
    }
}
