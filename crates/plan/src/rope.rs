//! Rotary position embedding: frequencies, and their sines and cosines in f64 (GPU sin and cos are only accurate within ±π).

/// YaRN (Peng et al. 2023): low frequencies are interpolated, high ones kept, with a ramp between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YarnScaling {
    /// Context extension factor.
    pub factor: f64,
    /// Context that the model was trained on.
    pub original_context: f64,
    /// Rotations above which a dimension keeps its frequency; 32.
    pub beta_fast: f64,
    /// Rotations below which a dimension is interpolated; 1.
    pub beta_slow: f64,
    /// Multiplies the magnitude beside `1 + 0.1·ln(factor)`; 1.
    pub attn_factor: f64,
}

/// Frequencies of one kind of layer.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeTable {
    /// Angle per position of each rotated pair; the head's first `2·len` dimensions turn.
    pub inverse_frequencies: Vec<f64>,
    /// Multiplies cosine and sine (YaRN), else 1.
    pub magnitude: f64,
}

impl RopeTable {
    /// `base^(−2i/rotated)`, divided by `linear_factor` and by `factors[i]` (`rope_freqs.weight`; Llama 3 scaling, Gemma 4's
    /// unrotated dimensions).
    pub fn new(rotated: u32, base: f64, linear_factor: f64, factors: Option<&[f32]>) -> RopeTable {
        let inverse_frequencies = (0..rotated as usize / 2)
            .map(|i| {
                let factor = factors.and_then(|f| f.get(i)).map_or(1.0, |&f| f64::from(f));
                base.powf(-2.0 * i as f64 / f64::from(rotated)) / (linear_factor * factor)
            })
            .collect();
        RopeTable { inverse_frequencies, magnitude: 1.0 }
    }

    /// YaRN with the correction range not rounded to whole dimensions (GPT-OSS: `truncate = false`).
    pub fn yarn(rotated: u32, base: f64, yarn: &YarnScaling) -> RopeTable {
        let d = f64::from(rotated);
        let dimension =
            |beta: f64| d * (yarn.original_context / (beta * std::f64::consts::TAU)).ln() / (2.0 * base.ln());
        let low = dimension(yarn.beta_fast).max(0.0);
        let high = dimension(yarn.beta_slow).min(d - 1.0);
        let width = if high > low { high - low } else { 0.001 };
        let inverse_frequencies = (0..rotated as usize / 2)
            .map(|i| {
                let own = base.powf(-2.0 * i as f64 / d);
                let keep = 1.0 - ((i as f64 - low) / width).clamp(0.0, 1.0);
                own * keep + own / yarn.factor * (1.0 - keep)
            })
            .collect();
        let magnitude = yarn.attn_factor * (1.0 + 0.1 * yarn.factor.ln());
        RopeTable { inverse_frequencies, magnitude }
    }

    /// Cosine and sine of every rotated pair at a position, times the magnitude.
    pub fn cos_sin(&self, position: u32) -> impl Iterator<Item = (f32, f32)> + '_ {
        self.inverse_frequencies.iter().map(move |f| {
            let (sin, cos) = (f * f64::from(position)).sin_cos();
            ((cos * self.magnitude) as f32, (sin * self.magnitude) as f32)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_frequencies_fall_from_one() {
        let t = RopeTable::new(8, 10000.0, 1.0, None);
        let want = [1.0, 0.1, 0.01, 0.001];
        for (got, want) in t.inverse_frequencies.iter().zip(want) {
            assert!((got - want).abs() < 1e-12);
        }
        assert_eq!(t.cos_sin(0).next(), Some((1.0, 0.0)));
    }

    #[test]
    fn yarn_keeps_the_fastest_and_interpolates_the_slowest() {
        let yarn = YarnScaling {
            factor: 32.0,
            original_context: 4096.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attn_factor: 1.0,
        };
        let plain = RopeTable::new(64, 150000.0, 1.0, None);
        let t = RopeTable::yarn(64, 150000.0, &yarn);
        assert_eq!(t.inverse_frequencies[0], plain.inverse_frequencies[0]);
        assert!((t.inverse_frequencies[31] * 32.0 / plain.inverse_frequencies[31] - 1.0).abs() < 1e-12);
        assert!((t.magnitude - 1.3465735902799727).abs() < 1e-12);
    }
}
