//! Experts against their oracles: choices with ties, all slots with one expert and with different ones. Products have a file of their own.

use super::{Grouping, decide, expert_bias, expert_sum, pack, products_suite as products, reference, route};
use crate::Kernels;
use crate::norm::rms_norm;
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use zinc_plan::RouteOrder;
use zinc_testkit::{Rng, shape_classes, tolerance};
use zinc_vulkan::Slice;

const ORDERS: [RouteOrder; 3] = [
    RouteOrder::SoftmaxThenTopK { renormalise: true },
    RouteOrder::SoftmaxThenTopK { renormalise: false },
    RouteOrder::TopKThenSoftmax,
];

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "moe");
    for (i, experts) in shape_classes(32).into_iter().chain([6, 128, 256, 512]).enumerate() {
        for (rows, top_k) in [(1, 1), (5, 3), (33, 8)] {
            let (top_k, order) = (top_k.min(experts), ORDERS[(i + rows) % 3]);
            s.case(format!("route {top_k} of {experts}, {rows} rows, {order:?}"), |s| {
                routed(s, experts, top_k, rows, order)
            });
        }
    }
    for (i, experts) in shape_classes(32).into_iter().chain([128, 256]).enumerate() {
        for (columns, top_k) in [(4, 1), (260, 3), (1024, 8), (2048, 8), (4096, 10)] {
            let (top_k, order, gated) = (top_k.min(experts), ORDERS[i % 3], (i + columns) % 8 < 4);
            if decide::supports(kernels.subgroup_size(), columns as u32, experts as u32).is_ok() {
                s.case(format!("decide {top_k} of {experts}, {columns} columns, {order:?}, {gated}"), |s| {
                    decided(s, (columns, experts), top_k, gated, order)
                });
            }
        }
    }
    for (experts, top_k, rows) in
        [(1, 1, 2), (6, 3, 17), (128, 8, 64), (256, 8, 67), (512, 10, 31), (256, 8, 512)]
    {
        for skew in [Skew::Even, Skew::One, Skew::Few] {
            s.case(format!("pack {top_k} of {experts}, {rows} rows, {skew:?}"), |s| {
                packed(s, experts, top_k, rows, skew)
            });
        }
    }
    products::cases(&mut s);
    for width in shape_classes(4).into_iter().chain([515, 2048]) {
        for (rows, top_k, layout) in
            [(1, 8, Layout::Columns), (3, 3, Layout::Unaligned), (5, 1, Layout::Dense)]
        {
            s.case(format!("expert_sum {top_k} of {width}, {rows} rows, {layout:?}"), |s| {
                summed(s, width, top_k, rows, layout)
            });
            s.case(format!("expert_bias {top_k} of {width}, {rows} rows, {layout:?}"), |s| {
                biased(s, width, top_k, rows, layout)
            });
        }
    }
    s.finish()
}

fn routed(
    s: &Suite<'_>,
    experts: usize,
    top_k: usize,
    rows: usize,
    order: RouteOrder,
) -> Result<(), Failure> {
    let mut rng = s.rng();
    let mut logits = Host::random(&mut rng, rows, experts, 3.0);
    // Some rows with ties, the first with all equal.
    for (i, row) in logits.data.chunks_exact_mut(experts).enumerate().filter(|(i, _)| i % 2 == 0) {
        row.iter_mut().for_each(|v| *v = if i == 0 { 1.0 } else { v.round() });
    }
    let (on, out) = (s.upload_as(&logits, Layout::Unaligned)?, s.output(rows, 2 * top_k)?);
    let args = route::Args { logits: on.mat(), order, choice: out.mat(), rows: rows as u32 };
    s.run(|rec| route::record(s.kernels(), rec, "route", &args))?;
    let allowed = |w: f32, _, c: usize| if c < top_k { 0.0 } else { tolerance::ACTIVATION_REL * w };
    s.compare(&out, &reference::route(&logits, top_k, order), allowed)
}

/// The norm's bits where a workgroup takes its row, logits within a product's tolerance, the choice of these logits as `route` makes it. Twice, for counters.
fn decided(
    s: &Suite<'_>,
    (columns, experts): (usize, usize),
    top_k: usize,
    gated: bool,
    order: RouteOrder,
) -> Result<(), Failure> {
    let (mut rng, k, eps) = (s.rng(), s.kernels(), 1e-6);
    let x = s.upload(&Host::random(&mut rng, 1, columns, 2.0))?;
    let norm = s.values(&rng.normals(columns, 1.0))?;
    // Some experts are alike.
    let mut matrix = Host::random(&mut rng, experts, columns, 0.1);
    let first = matrix.data[..columns].to_vec();
    matrix.data.chunks_exact_mut(columns).step_by(5).for_each(|row| row.copy_from_slice(&first));
    let (router, gate) = (s.values(&matrix.data)?, rng.normals(columns, 0.1));
    let gate_on = s.values(&gate)?;
    let bias = (!gated).then(|| rng.normals(experts, 1.0));
    let bias_on = bias.as_ref().map(|b| s.values(b)).transpose()?;
    let output = |width| s.output(1, width);
    let (normed, logits, logit) = (output(columns)?, output(experts)?, output(1)?);
    let (choice, apart, of_logits) = (output(2 * top_k)?, output(columns)?, output(2 * top_k)?);
    for _ in 0..2 {
        s.run(|rec| {
            let args = decide::Args {
                x: x.mat(),
                norm: &norm,
                eps,
                normed: normed.mat(),
                router: &router,
                bias: bias_on.as_ref(),
                logits: logits.mat(),
                gate: gated.then(|| decide::Gate { weight: &gate_on, logit: logit.mat() }),
                order,
                choice: choice.mat(),
            };
            decide::record(k, rec, "decide", &args)
        })?;
    }
    s.run(|rec| {
        let (x, weight, group, out) = (x.mat(), Some(&norm), columns as u32, apart.mat());
        rms_norm::record(k, rec, "rms_norm", &rms_norm::Args { x, weight, group, eps, out, rows: 1 })?;
        let args = route::Args { logits: logits.mat(), order, choice: of_logits.mat(), rows: 1 };
        route::record(k, rec, "route", &args)
    })?;
    let (row, want) = (s.read(&normed)?, s.read(&apart)?);
    let exact = columns > 512;
    compare(&row, &want, |w, _, _| if exact { 0.0 } else { tolerance::NORM_REL * w.abs() })?;
    let product = |weights: &[f32]| -> (f64, f64) {
        let terms = || row.data.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b));
        (terms().sum(), terms().map(f64::abs).sum())
    };
    let check = |out: &_, rows: Vec<(f64, f64)>| {
        let data = rows.iter().map(|r| r.0 as f32).collect::<Vec<_>>();
        let want = Host { width: data.len(), data };
        s.compare(out, &want, |_, _, c| (tolerance::PRODUCT_REL * rows[c].1) as f32)
    };
    let bias = |i: usize| bias.as_ref().map_or(0.0, |b| f64::from(b[i]));
    let sums = matrix.rows().map(product).enumerate();
    check(&logits, sums.map(|(i, (sum, size))| (sum + bias(i), size + bias(i).abs())).collect())?;
    if gated {
        check(&logit, vec![product(&gate)])?;
    }
    compare(&s.read(&choice)?, &s.read(&of_logits)?, |_, _, _| 0.0)
}

/// How slots are shared out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Skew {
    Even,
    One,
    Few,
}

/// A choice of different experts in each row; with [`Skew::One`] the same ones in all.
pub(super) fn choice(rng: &mut Rng, experts: usize, top_k: usize, rows: usize, skew: Skew) -> Host {
    let mut data = Vec::new();
    for _ in 0..rows {
        let among = match skew {
            Skew::Even => experts,
            Skew::One => top_k,
            Skew::Few => (2 * top_k).min(experts),
        };
        let mut all: Vec<usize> = (experts - among..experts).collect();
        for slot in 0..top_k {
            let other = if matches!(skew, Skew::One) { slot } else { slot + rng.below(all.len() - slot) };
            all.swap(slot, other);
        }
        data.extend(all[..top_k].iter().map(|&e| e as f32));
        data.extend((0..top_k).map(|_| rng.uniform(0.0, 1.0)));
    }
    Host { width: 2 * top_k, data }
}

pub(super) fn grouping(
    s: &Suite<'_>,
    experts: usize,
    top_k: usize,
    rows: usize,
) -> Result<Grouping, Failure> {
    Ok(Grouping::of(s.kernels().policy(), experts as u32, top_k as u32, rows as u32)?)
}

/// Room for lists, poisoned, with a canary behind them.
pub(super) fn room(s: &Suite<'_>, g: &Grouping) -> Result<Slice, Failure> {
    s.values(&vec![u32::MAX; g.list_bytes() as usize / 4 + 16])
}

fn packed(s: &Suite<'_>, experts: usize, top_k: usize, rows: usize, skew: Skew) -> Result<(), Failure> {
    let choice = choice(&mut s.rng(), experts, top_k, rows, skew);
    let g = grouping(s, experts, top_k, rows)?;
    let (on, lists) = (s.upload(&choice)?, room(s, &g)?);
    let args = pack::Args { choice: on.mat(), grouping: g, lists: &lists };
    s.run(|rec| pack::record(s.kernels(), rec, "pack", &args))?;
    let got: Vec<u32> = s.read_values(&lists)?;
    let (tiles, slots) = reference::pack(&choice, &g);
    if got[0] as usize != tiles.len() || tiles.len() > g.batches() as usize {
        return Err(format!("{} tiles for {}, room for {}", got[0], tiles.len(), g.batches()).into());
    }
    let places = got[4..].chunks_exact(4).take(tiles.len()).map(|t| [t[0], t[1], t[2]]);
    if let Some(wrong) = places.zip(&tiles).position(|(got, want)| got != *want) {
        return Err(
            format!("tile {wrong} is {:?}, not {:?}", &got[4 + 4 * wrong..][..3], tiles[wrong]).into()
        );
    }
    let (at, end) = (g.pairs_at() as usize, g.list_bytes() as usize / 4);
    if got[at..end] != slots[..] {
        return Err("slots in another order".to_string().into());
    }
    match got[end..].iter().all(|&w| w == u32::MAX) {
        true => Ok(()),
        false => Err("something behind the lists was written".to_string().into()),
    }
}

fn summed(s: &Suite<'_>, width: usize, top_k: usize, rows: usize, layout: Layout) -> Result<(), Failure> {
    let mut rng = s.rng();
    let choice = choice(&mut rng, 16, top_k, rows, Skew::Even);
    let (x, factors) = (Host::random(&mut rng, rows, top_k * width, 1.0), rng.normals(16, 1.0));
    let (x_on, choice_on, factors_on) = (s.upload_as(&x, layout)?, s.upload(&choice)?, s.values(&factors)?);
    for has_factor in [false, true] {
        let out = s.output_as(rows, width, layout)?;
        let args = expert_sum::Args {
            x: x_on.mat(),
            choice: choice_on.mat(),
            factor: has_factor.then_some(&factors_on),
            out: out.mat(),
            rows: rows as u32,
        };
        s.run(|rec| expert_sum::record(s.kernels(), rec, "expert_sum", &args))?;
        let (want, magnitude) = reference::expert_sum(&x, &choice, has_factor.then_some(&factors));
        s.compare(&out, &want, |w, r, c| {
            tolerance::PRODUCT_REL as f32 * (magnitude.data[r * width + c] + w.abs())
        })?;
    }
    Ok(())
}

/// Exactly.
fn biased(s: &Suite<'_>, width: usize, top_k: usize, rows: usize, layout: Layout) -> Result<(), Failure> {
    let mut rng = s.rng();
    let choice = choice(&mut rng, 16, top_k, rows, Skew::Even);
    let (x, bias) = (Host::random(&mut rng, rows, top_k * width, 1.0), rng.normals(16 * width, 1.0));
    let (x_on, choice_on, bias_on) = (s.upload_as(&x, layout)?, s.upload(&choice)?, s.values(&bias)?);
    let out = s.output_as(rows, top_k * width, layout)?;
    let args = expert_bias::Args {
        x: x_on.mat(),
        choice: choice_on.mat(),
        bias: &bias_on,
        out: out.mat(),
        rows: rows as u32,
    };
    s.run(|rec| expert_bias::record(s.kernels(), rec, "expert_bias", &args))?;
    s.compare(&out, &reference::expert_bias(&x, &choice, &bias), |_, _, _| 0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
