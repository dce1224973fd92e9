//! The one table of tolerances. A line says what is compared and why the number is what it is. They are never widened to pass.

/// Relative RMS of logits in f32 arithmetic against the fixtures; independent f32 runs agree to 1.2e-5.
pub const LOGITS_F32: f64 = 1e-4;

/// With f16 matrix inputs or an f16 KV cache: this many times the fixture's own `f16` noise figure, and at most [`LOGITS_F16_MAX`].
pub const LOGITS_F16_TIMES_NOISE: f64 = 4.0;
/// Upper limit of the f16 tolerance.
pub const LOGITS_F16_MAX: f64 = 1e-2;

/// With a q8_0 KV cache: this many times the fixture's own `q8` noise figure, and at most [`LOGITS_Q8_0_MAX`]. The figure is what logits lose when the input
/// of every weight product is rounded in the same way, to blocks of 32 integers with an f16 scale; here two of a layer's activations are, keys and values.
pub const LOGITS_Q8_0_TIMES_NOISE: f64 = 1.0;
/// Upper limit of the q8_0 tolerance. A block's step is a 127th of its largest value, which of 32 normal ones is 2.1 standard deviations in the mean, so rounding
/// leaves 2.1 / 127 / √12 = 0.5 % in a cache row, as f16 leaves 0.02 %. The rows of later layers and logits may have twenty times that (f16: [`LOGITS_F16_MAX`], fifty).
pub const LOGITS_Q8_0_MAX: f64 = 1e-1;

/// Under the fast policy: relative RMS of logits and cache rows against an exact path, or between two of its kernels. Logits with a standard
/// deviation of 3 that are off by this have a KL divergence of about (3 · 0.015)² / 2 = 1e-3, the most that the policy is allowed.
pub const LOGITS_FAST: f64 = 1.5e-2;

/// A weight product may differ from the f64 sum by this times Σ|w·x|: f32 rounding in any order of summation.
pub const PRODUCT_REL: f64 = 1e-6;

/// A product of f16 factors, times Σ|w·x| of the factors before: each is rounded to 11 bits, where drivers may cut off (2^-10), beside f32 sums.
pub const PRODUCT_F16_REL: f64 = 2.0 / 1024.0 + PRODUCT_REL;

/// What f16 loses of a weight below its normal range (2^-14), times Σ|x|.
pub const PRODUCT_F16_ABS: f64 = 1.0 / (1 << 24) as f64;

/// An activation in f16 under a power of two, relative; absolute, 2^-38 of the row's largest.
pub const CONVERT_REL: f32 = 1.0 / 1024.0;

/// A weight product with x rounded to integers may differ from the f64 sum by this many steps of x for each |w|: half a step, and 2 % of that for the
/// division and the f32 sums. A step is the largest |x| of 32 over 127 (one byte) or 32639 (two). [`PRODUCT_REL`] comes on top.
pub const DOT_STEP: f64 = 0.51;

/// Mean negative log likelihood (nats) of the real models: equal to three digits.
pub const NLL: f64 = 5e-4;

/// Argmax and greedy comparisons stop or skip where the margin is below this many times the logits' allowed absolute error.
pub const MARGIN_TIMES_ERROR: f64 = 4.0;

/// A norm of up to 8,192 columns, relative: an f32 sum of squares (halved by the root), a root of 2 ulp, two products.
pub const NORM_REL: f32 = 4e-6;

/// A rotated dimension, times the largest magnitude of its pair's operands: two f32 products and a sum.
pub const ROTATION_REL: f32 = 5e-7;

/// An activation, times |gate·up| (or the cap): Vulkan allows exp 3 + 2·|x| ulp, and tanh is made of it.
pub const ACTIVATION_REL: f32 = 4e-6;

/// An attention output, times the largest |value|: f32 scores of a few units, where 1e-6 of a score moves a weight by 1e-6.
pub const ATTENTION_REL: f32 = 1e-5;

/// The same on matrix cores, against the exact result for the queries, keys and values that f16 holds: every weight is rounded to 11 bits, where
/// drivers may cut off (2^-10), and its sum is not.
pub const ATTENTION_F16_REL: f32 = 1.0 / 1024.0 + ATTENTION_REL;

/// Log-sum-exp, absolute for a sum relative to its maximum: an f32 sum of up to 300,000 exponentials by parts.
pub const LOG_SUM_EXP: f32 = 1e-5;

/// A delta net's output or state, times the largest of all: f32 sums over up to 256 keys, carried over some dozens of rows.
pub const RECURRENT_REL: f32 = 1e-5;
