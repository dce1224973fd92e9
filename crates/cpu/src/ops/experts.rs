//! `Route`, `ExpertLinear`, `ExpertBias`, `ExpertSum`.

use super::linear::multiply;
use crate::parallel::rows_from;
use crate::values::View;
use crate::weights::Matrix;
use zinc_plan::RouteOrder;

/// Experts and weights of a row of a choice.
fn slots(row: &[f32]) -> impl Iterator<Item = (usize, f32)> {
    let (experts, weights) = row.split_at(row.len() / 2);
    experts.iter().map(|&e| e as usize).zip(weights.iter().copied())
}

/// Chooses the `top_k` experts of each row, the heaviest first, of equal ones the first: their numbers, then their weights.
pub(crate) fn route(logits: View, top_k: usize, order: RouteOrder) -> Vec<f32> {
    let mut choice = vec![];
    for row in 0..logits.rows {
        let logits = logits.row(row);
        let mut best: Vec<usize> = (0..logits.len()).collect();
        best.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        best.truncate(top_k);
        let max = logits[best[0]];
        let exp = |i: usize| (logits[i] - max).exp();
        let chosen: f32 = best.iter().map(|&i| exp(i)).sum();
        let sum = match order {
            RouteOrder::SoftmaxThenTopK { renormalise: false } => (0..logits.len()).map(exp).sum(),
            // Softmax over all and division by the sum of the chosen is softmax over the chosen.
            RouteOrder::SoftmaxThenTopK { renormalise: true } | RouteOrder::TopKThenSoftmax => chosen,
        };
        choice.extend(best.iter().map(|&i| i as f32));
        choice.extend(best.iter().map(|&i| exp(i) / sum));
    }
    choice
}

/// `out[s] = weight[expert(s)] · x` for each slot s of each row; `x` is one vector for all slots or a vector a slot.
///
/// The slots are gathered by expert, so that each expert's rows are decoded once.
pub(crate) fn expert_linear(x: View, weight: Matrix, experts: usize, choice: View) -> Vec<f32> {
    let m = weight.rows / experts;
    let mut by_expert: Vec<Vec<usize>> = vec![vec![]; experts];
    let top_k = choice.width / 2;
    let all = (0..choice.rows).flat_map(|row| slots(choice.row(row)));
    all.enumerate().for_each(|(slot, (expert, _))| by_expert[expert].push(slot));
    let vector = |slot: usize| {
        let (row, s) = (slot / top_k, slot % top_k);
        let x = x.row(row);
        if x.len() == weight.k { x } else { &x[s * weight.k..][..weight.k] }
    };
    let mut out = vec![0.0; choice.rows * top_k * m];
    for (expert, slots) in by_expert.iter().enumerate().filter(|(_, slots)| !slots.is_empty()) {
        let vectors: Vec<&[f32]> = slots.iter().map(|&slot| vector(slot)).collect();
        let y = multiply(weight.part(expert * m, m), &vectors);
        for (i, y) in y.chunks_exact(slots.len()).enumerate() {
            slots.iter().zip(y).for_each(|(&slot, &v)| out[slot * m + i] = v);
        }
    }
    out
}

/// `x[s] + bias[expert(s)]`.
pub(crate) fn expert_bias(x: View, bias: &[f32], choice: View) -> Vec<f32> {
    let width = 2 * x.width / choice.width;
    rows_from(x.rows, x.width, |row, out| {
        let vectors = out.chunks_exact_mut(width).zip(x.row(row).chunks_exact(width));
        for ((y, x), (expert, _)) in vectors.zip(slots(choice.row(row))) {
            let bias = &bias[expert * width..][..width];
            y.iter_mut().zip(x).zip(bias).for_each(|((y, x), b)| *y = x + b);
        }
    })
}

/// `Σ_s weight(s) · scale[expert(s)] · x[s]`, in slot order.
pub(crate) fn expert_sum(x: View, choice: View, scale: Option<&[f32]>) -> Vec<f32> {
    let width = 2 * x.width / choice.width;
    rows_from(x.rows, width, |row, out| {
        for (x, (expert, weight)) in x.row(row).chunks_exact(width).zip(slots(choice.row(row))) {
            let factor = weight * scale.map_or(1.0, |s| s[expert]);
            out.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(order: RouteOrder) -> Vec<(usize, f32)> {
        let logits = [1.0, 3.0, -2.0, 3.0, 0.0];
        slots(&route(View { data: &logits, stride: 5, first: 0, width: 5, rows: 1 }, 3, order)).collect()
    }

    #[test]
    fn the_heaviest_experts_come_first_and_ties_in_order() {
        let slots = chosen(RouteOrder::TopKThenSoftmax);
        assert_eq!(slots.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 3, 0]);
        assert!((slots.iter().map(|s| s.1).sum::<f32>() - 1.0).abs() < 1e-6);
        assert_eq!(slots, chosen(RouteOrder::SoftmaxThenTopK { renormalise: true }));
    }

    #[test]
    fn without_renormalising_the_weights_are_those_of_all_experts() {
        let slots = chosen(RouteOrder::SoftmaxThenTopK { renormalise: false });
        let sum: f32 = [1f32, 3.0, -2.0, 3.0, 0.0].iter().map(|l| l.exp()).sum();
        assert!((slots[2].1 - 1f32.exp() / sum).abs() < 1e-6);
    }
}
