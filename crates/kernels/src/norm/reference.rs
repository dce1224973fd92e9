//! Scalar oracles of the norms, with sums in f64.

use crate::suite::Host;

fn squares(group: &[f32]) -> f64 {
    group.iter().map(|&v| f64::from(v).powi(2)).sum()
}

fn over_groups(x: &Host, group: usize, norm: impl Fn(&[f32], &mut Vec<f32>)) -> Host {
    let mut data = Vec::with_capacity(x.data.len());
    for part in x.data.chunks_exact(group) {
        norm(part, &mut data);
    }
    Host { width: x.width, data }
}

/// `x · rsqrt(mean(x²) + eps) · weight`.
pub fn rms_norm(x: &Host, weight: Option<&[f32]>, group: usize, eps: f32) -> Host {
    over_groups(x, group, |part, out| {
        let factor = 1.0 / (squares(part) / group as f64 + f64::from(eps)).sqrt();
        let weight = |i: usize| weight.map_or(1.0, |w| f64::from(w[i]));
        out.extend(part.iter().enumerate().map(|(i, &v)| (f64::from(v) * factor * weight(i)) as f32));
    })
}

/// `scale · x · rsqrt(max(Σx², eps²))`.
pub fn l2_norm(x: &Host, group: usize, eps: f32, scale: f32) -> Host {
    over_groups(x, group, |part, out| {
        let factor = f64::from(scale) / squares(part).max(f64::from(eps).powi(2)).sqrt();
        out.extend(part.iter().map(|&v| (f64::from(v) * factor) as f32));
    })
}
