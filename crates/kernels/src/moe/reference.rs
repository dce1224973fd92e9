//! Scalar oracles.

use super::Grouping;
use crate::suite::Host;
use zinc_plan::RouteOrder;

/// The choice of each row: numbers of experts, then weights.
pub fn route(logits: &Host, top_k: usize, order: RouteOrder) -> Host {
    let mut data = Vec::new();
    for row in logits.rows() {
        let mut best: Vec<usize> = (0..row.len()).collect();
        best.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap_or(std::cmp::Ordering::Equal));
        let weight = |&i: &usize| (f64::from(row[i]) - f64::from(row[best[0]])).exp();
        let (chosen, all) = (&best[..top_k], &best[..]);
        let of = if order == (RouteOrder::SoftmaxThenTopK { renormalise: false }) { all } else { chosen };
        let sum: f64 = of.iter().map(weight).sum();
        data.extend(chosen.iter().map(|&i| i as f32));
        data.extend(chosen.iter().map(|i| (weight(i) / sum) as f32));
    }
    Host { width: 2 * top_k, data }
}

/// The expert in each slot of all rows.
pub fn experts(choice: &Host) -> Vec<usize> {
    choice.rows().flat_map(|row| &row[..row.len() / 2]).map(|&e| e as usize).collect()
}

/// Tiles (expert, first place, places), and the slots by expert.
pub fn pack(choice: &Host, grouping: &Grouping) -> (Vec<[u32; 3]>, Vec<u32>) {
    let (mut tiles, mut slots) = (Vec::new(), Vec::new());
    let of = experts(choice);
    for expert in 0..grouping.experts {
        let own: Vec<u32> = (0..of.len() as u32).filter(|&s| of[s as usize] == expert as usize).collect();
        for tile in own.chunks(grouping.columns() as usize) {
            tiles.push([expert, slots.len() as u32, tile.len() as u32]);
            slots.extend(tile);
        }
    }
    (tiles, slots)
}

/// `Σ_s weight(s) · factor[expert(s)] · x[s]`, and Σ of magnitudes.
pub fn expert_sum(x: &Host, choice: &Host, factor: Option<&[f32]>) -> (Host, Host) {
    let top_k = choice.width / 2;
    let width = x.width / top_k;
    let (mut sums, mut magnitudes) = (Vec::new(), Vec::new());
    for (x, choice) in x.rows().zip(choice.rows()) {
        for i in 0..width {
            let term = |s: usize| {
                let factor = factor.map_or(1.0, |f| f64::from(f[choice[s] as usize]));
                f64::from(choice[top_k + s]) * factor * f64::from(x[s * width + i])
            };
            sums.push((0..top_k).map(term).sum::<f64>() as f32);
            magnitudes.push((0..top_k).map(|s| term(s).abs()).sum::<f64>() as f32);
        }
    }
    (Host { width, data: sums }, Host { width, data: magnitudes })
}

/// `x[s] + bias[expert(s)]`.
pub fn expert_bias(x: &Host, choice: &Host, bias: &[f32]) -> Host {
    let top_k = choice.width / 2;
    let part = x.width / top_k;
    let row = |(x, choice): (&[f32], &[f32])| -> Vec<f32> {
        x.iter().enumerate().map(|(i, v)| v + bias[choice[i / part] as usize * part + i % part]).collect()
    };
    Host { width: x.width, data: x.rows().zip(choice.rows()).flat_map(row).collect() }
}
