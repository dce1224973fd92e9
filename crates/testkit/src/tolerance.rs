//! The one table of tolerances. A line says what is compared and why the number is what it is. They are never widened to pass.

/// Relative RMS of logits in f32 arithmetic against the fixtures; independent f32 runs agree to 1.2e-5.
pub const LOGITS_F32: f64 = 1e-4;

/// With f16 matrix inputs or an f16 KV cache: this many times the fixture's own `f16` noise figure, and at most [`LOGITS_F16_MAX`].
pub const LOGITS_F16_TIMES_NOISE: f64 = 4.0;
/// Upper limit of the f16 tolerance.
pub const LOGITS_F16_MAX: f64 = 1e-2;

/// A weight product may differ from the f64 sum by this times Σ|w·x|: f32 rounding in any order of summation.
pub const PRODUCT_REL: f64 = 1e-6;

/// Mean negative log likelihood (nats) of the real models: equal to three digits.
pub const NLL: f64 = 5e-4;

/// Argmax and greedy comparisons stop or skip where the margin is below this many times the logits' allowed absolute error.
pub const MARGIN_TIMES_ERROR: f64 = 4.0;
