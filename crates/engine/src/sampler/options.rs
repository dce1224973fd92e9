//! What a user can ask of the sampler.

/// How the next token is chosen from its logits.
///
/// In this order: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw. The filters look at the distribution
/// at temperature 1, so a temperature does not change what they keep. Each filter keeps at least one token.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingOptions {
    /// Divides the logits before the draw; 0 takes the most likely token (greedy).
    pub temperature: f32,
    /// Keeps the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this times as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Locally typical sampling (Meister et al. 2022): keeps the tokens whose information is nearest to the entropy until their
    /// probabilities reach this sum; 1 keeps all.
    pub typical_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen before (Keskar et al. 2019); 1 does nothing.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of a token seen before.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token for each time it was seen.
    pub frequency_penalty: f32,
    /// How many of the last tokens, prompt included, the penalties look at; 0: all.
    pub penalty_window: u32,
    /// Added to the logits of these tokens; −∞ forbids one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the draws: the same seed, options and logits give the same tokens.
    pub seed: u64,
}

impl Default for SamplingOptions {
    /// Greedy, nothing else.
    fn default() -> Self {
        SamplingOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_window: 64,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplingOptions {
    /// Whether the most likely token is always taken.
    pub fn greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether any logit is changed before the choice.
    pub fn adjusts(&self) -> bool {
        self.penalises() || self.logit_bias.iter().any(|&(_, b)| b != 0.0)
    }

    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Checks the ranges; the message names the option, its value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let range = |name: &str, v: f32, ok: bool, allowed: &str| {
            if ok { Ok(()) } else { Err(format!("`{name}` is {v}, it must be {allowed}")) }
        };
        let t = self.temperature;
        range("temperature", t, t.is_finite() && t >= 0.0, "0 or more")?;
        range("top-p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and at most 1")?;
        range("min-p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1")?;
        range(
            "typical",
            self.typical_p,
            self.typical_p > 0.0 && self.typical_p <= 1.0,
            "above 0 and at most 1",
        )?;
        let r = self.repetition_penalty;
        range("repetition-penalty", r, r.is_finite() && r > 0.0, "above 0")?;
        range("presence-penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a number")?;
        range("frequency-penalty", self.frequency_penalty, self.frequency_penalty.is_finite(), "a number")?;
        for &(token, bias) in &self.logit_bias {
            range(&format!("logit-bias of token {token}"), bias, bias < f32::INFINITY, "a number or -inf")?;
        }
        Ok(())
    }
}
