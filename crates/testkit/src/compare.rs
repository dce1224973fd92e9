//! Error measures. All sums are in f64 so that the measure adds no noise of its own.

/// Where two vectors differ by more than allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Index of the first element out of tolerance.
    pub index: usize,
    /// Value that was computed.
    pub got: f32,
    /// Value that was expected.
    pub want: f32,
    /// How far apart they were allowed to be.
    pub allowed: f32,
}

/// Compares element by element: `|got − want| ≤ abs + rel·|want|`; NaN is never equal to anything, an infinity only to itself.
pub fn compare_f32(got: &[f32], want: &[f32], abs: f32, rel: f32) -> Result<(), Mismatch> {
    assert_eq!(got.len(), want.len(), "lengths differ");
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let allowed = abs + rel * want.abs();
        let same = got == want || (got - want).abs() <= allowed;
        if !same {
            return Err(Mismatch { index, got, want, allowed });
        }
    }
    Ok(())
}

/// Largest absolute difference and its index; NaN counts as infinitely far.
pub fn max_abs_diff(got: &[f32], want: &[f32]) -> (f32, usize) {
    assert_eq!(got.len(), want.len(), "lengths differ");
    let mut worst = (0.0, 0);
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        let d = if a == b { 0.0 } else { (a - b).abs() };
        let d = if d.is_nan() { f32::INFINITY } else { d };
        if d > worst.0 {
            worst = (d, i);
        }
    }
    worst
}

/// RMS of the difference over the RMS of the centred reference: the fixtures' error measure.
pub fn relative_rms(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len(), "lengths differ");
    let n = want.len() as f64;
    let mean = want.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let diff: f64 = got.iter().zip(want).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let spread: f64 = want.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
    let r = (diff / spread).sqrt();
    if r.is_nan() { f64::INFINITY } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_never_within_tolerance() {
        assert!(compare_f32(&[f32::NAN], &[0.0], 1e9, 0.0).is_err());
        assert!(compare_f32(&[0.0], &[f32::NAN], 1e9, 0.0).is_err());
        assert_eq!(max_abs_diff(&[f32::NAN], &[0.0]).0, f32::INFINITY);
        assert_eq!(relative_rms(&[f32::NAN, 1.0], &[0.0, 1.0]), f64::INFINITY);
    }

    #[test]
    fn relative_rms_is_measured_against_the_centred_reference() {
        assert!((relative_rms(&[11.0, 9.0], &[10.0, 12.0]) - (10.0f64 / 2.0).sqrt()).abs() < 1e-12);
    }
}
