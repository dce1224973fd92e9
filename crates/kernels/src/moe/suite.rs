//! Experts against their oracles: choices with ties, all slots with one expert and with different ones, products of every format.

use super::{Grouping, expert_bias, expert_sum, pack, reference, route};
use crate::Kernels;
use crate::gemv::reference::{Product, gated, product};
use crate::gemv::{Biases, ExpertArgs, Gate, Up, Weights, record_experts};
use crate::suite::{CaseResult, Failure, Host, Layout, Placed, Suite, compare};
use zinc_plan::RouteOrder;
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::{Rng, shape_classes, tolerance};
use zinc_vulkan::Slice;

const ORDERS: [RouteOrder; 3] = [
    RouteOrder::SoftmaxThenTopK { renormalise: true },
    RouteOrder::SoftmaxThenTopK { renormalise: false },
    RouteOrder::TopKThenSoftmax,
];
const OAI: Gate = Gate::OaiSwiGlu { alpha: 1.702, limit: 7.0 };

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
    for (experts, top_k, rows) in
        [(1, 1, 2), (6, 3, 17), (128, 8, 64), (256, 8, 67), (512, 10, 31), (256, 8, 512)]
    {
        for skew in [Skew::Even, Skew::One, Skew::Few] {
            s.case(format!("pack {top_k} of {experts}, {rows} rows, {skew:?}"), |s| {
                packed(s, experts, top_k, rows, skew)
            });
        }
    }
    products(&mut s);
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

/// How slots are shared out.
#[derive(Debug, Clone, Copy)]
enum Skew {
    Even,
    One,
    Few,
}

/// A choice of different experts in each row; with [`Skew::One`] the same ones in all.
fn choice(rng: &mut Rng, experts: usize, top_k: usize, rows: usize, skew: Skew) -> Host {
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

fn grouping(s: &Suite<'_>, experts: usize, top_k: usize, rows: usize) -> Result<Grouping, Failure> {
    Ok(Grouping::of(s.kernels().policy(), experts as u32, top_k as u32, rows as u32)?)
}

/// Room for lists, poisoned, with a canary behind them.
fn room(s: &Suite<'_>, g: &Grouping) -> Result<Slice, Failure> {
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

/// Matrices of experts in file and in device layout.
struct Matrices {
    format: FormatRef,
    /// Rows of an expert.
    m: usize,
    k: usize,
    file: Vec<u8>,
    device: Slice,
}

impl Matrices {
    fn random(
        s: &Suite<'_>,
        rng: &mut Rng,
        format: FormatRef,
        [experts, m, k]: [usize; 3],
    ) -> Result<Matrices, Failure> {
        let mut file = vec![0; experts * m * format.row_bytes(k)];
        let mut packed = vec![0; experts * m * format.device_row_bytes(k)];
        let rows = file.chunks_exact_mut(format.row_bytes(k));
        for (row, device) in rows.zip(packed.chunks_exact_mut(format.device_row_bytes(k))) {
            format.encode_row(&rng.normals(k, 0.1), row);
            format.pack_row(row, k, device);
        }
        Ok(Matrices { format, m, k, file, device: s.bytes(&packed)? })
    }

    fn weights(&self) -> Weights<'_> {
        Weights { slice: &self.device, format: self.format, m: self.m as u32, k: self.k as u32 }
    }

    /// Products of each slot's expert with the slot's x, slot after slot.
    fn times(&self, x: &Host, choice: &Host) -> Vec<Vec<Product>> {
        let top_k = choice.width / 2;
        let part = |slot: usize| {
            let row = &x.data[slot / top_k * x.width..][..x.width];
            if x.width == self.k { row } else { &row[slot % top_k * self.k..][..self.k] }
        };
        let matrix = self.m * self.format.row_bytes(self.k);
        let of = |(slot, expert): (usize, usize)| {
            let bytes = &self.file[expert * matrix..][..matrix];
            product(self.format, bytes, self.k, &[part(slot)]).remove(0)
        };
        reference::experts(choice).into_iter().enumerate().map(of).collect()
    }
}

/// What a product is tried with.
#[derive(Debug, Clone, Copy)]
struct Try {
    format: FormatRef,
    shape: [usize; 3],
    top_k: usize,
    rows: usize,
    /// A part of x for each slot.
    parts: bool,
    gate: Option<Gate>,
    /// Gate and up in one tensor.
    behind: bool,
    bias: bool,
}

fn products(s: &mut Suite<'_>) {
    // The formats' decoding is tried with one matrix: here each finds its expert's.
    for (i, &format) in formats().iter().enumerate() {
        let shape = [6, 5, if format.block_elems == 1 { 341 } else { 256 }];
        let gate = (i % 2 == 0).then_some(Gate::SwiGlu);
        let t = Try { format, shape, top_k: 3, rows: 1, parts: false, gate, behind: i % 4 == 0, bias: false };
        s.case(format!("{t:?}"), |s| multiplied(s, &t, Skew::Even));
    }
    let named = |name| by_name(name).unwrap_or(formats()[0]);
    let base = Try {
        format: named("Q4_K"),
        shape: [6, 9, 256],
        top_k: 2,
        rows: 1,
        parts: false,
        gate: None,
        behind: false,
        bias: false,
    };
    let mxfp4 = Try { format: named("MXFP4"), shape: [5, 33, 96], top_k: 4, bias: true, ..base };
    let q8 = Try { format: named("Q8_0"), shape: [256, 3, 64], top_k: 8, parts: true, ..base };
    let all = [
        base,
        Try { parts: true, rows: 9, ..base },
        Try { gate: Some(Gate::GeGlu), rows: 3, behind: true, ..base },
        Try { rows: 2, ..mxfp4 },
        Try { gate: Some(OAI), ..mxfp4 },
        Try { gate: Some(OAI), rows: 65, ..mxfp4 },
        q8,
        Try { rows: 3, ..q8 },
        Try { rows: 70, ..q8 },
    ];
    for t in all {
        for skew in [Skew::Even, Skew::One] {
            s.case(format!("{t:?}, {skew:?}"), |s| multiplied(s, &t, skew));
        }
    }
}

/// A product that is right, and a row of which has the very bits that it has alone, unpacked.
fn multiplied(s: &Suite<'_>, t: &Try, skew: Skew) -> Result<(), Failure> {
    let mut rng = s.rng();
    let [experts, m, k] = t.shape;
    let choice = choice(&mut rng, experts, t.top_k, t.rows, skew);
    let x = Host::random(&mut rng, t.rows, if t.parts { t.top_k * k } else { k }, 1.0);
    let layout = if k % 4 == 0 { Layout::Columns } else { Layout::Unaligned };
    let (first, up) = if t.behind {
        (Matrices::random(s, &mut rng, t.format, [experts, 2 * m, k])?, None)
    } else {
        let first = Matrices::random(s, &mut rng, t.format, t.shape)?;
        let up = t.gate.map(|_| Matrices::random(s, &mut rng, t.format, t.shape)).transpose()?;
        (first, up)
    };
    let biases = [rng.normals(experts * m, 1.0), rng.normals(experts * m, 1.0)];
    let on = [s.values(&biases[0])?, s.values(&biases[1])?];
    let run = |x: &Host, choice: &Host| -> Result<Placed, Failure> {
        let rows = choice.data.len() / choice.width;
        let g = grouping(s, experts, t.top_k, rows)?;
        let (x_on, choice_on) = (s.upload_as(x, layout)?, s.upload(choice)?);
        let (lists, out) = (room(s, &g)?, s.output(rows, t.top_k * m)?);
        let args = ExpertArgs {
            weights: first.weights(),
            up: t.gate.map(|gate| (gate, up.as_ref().map_or(Up::Behind, |up| Up::Apart(&up.device)))),
            biases: t.bias.then_some(Biases { first: &on[0], up: t.gate.map(|_| &on[1]) }),
            x: x_on.mat(),
            grouping: g,
            choice: choice_on.mat(),
            lists: &lists,
            out: out.mat(),
        };
        s.run(|rec| {
            if g.is_packed() {
                let args = pack::Args { choice: choice_on.mat(), grouping: g, lists: &lists };
                pack::record(s.kernels(), rec, "pack", &args)?;
            }
            record_experts(s.kernels(), rec, "experts", &args)
        })?;
        Ok(out)
    };
    let got = s.read(&run(&x, &choice)?)?;

    let of = reference::experts(&choice);
    let both = [first.times(&x, &choice), up.as_ref().map_or(vec![], |up| up.times(&x, &choice))];
    let biased = |which: usize, slot: usize, i: usize| {
        let (from, i_in) = if t.behind { (0, which * m + i) } else { (which, i) };
        let Product { value, magnitude } = both[from][slot][i_in];
        let bias = if t.bias { f64::from(biases[which][of[slot] * m + i]) } else { 0.0 };
        (value + bias, magnitude + bias.abs())
    };
    let (mut want, mut allowed) = (Vec::new(), Vec::new());
    for slot in 0..of.len() {
        for i in 0..m {
            let (value, magnitude) = biased(0, slot, i);
            let Some(gate) = t.gate else {
                want.push(value as f32);
                allowed.push((tolerance::PRODUCT_REL * magnitude) as f32);
                continue;
            };
            let (u, u_magnitude) = biased(1, slot, i);
            // The errors of both products, the steepest slope of the activations being below 1.2, and the activation's own.
            let products = 1.2 * magnitude * (u.abs() + 1.0) + 1.2 * value.abs() * u_magnitude;
            let own = f64::from(tolerance::ACTIVATION_REL) * (value * (u.abs() + 1.0)).abs();
            want.push(gated(gate, value, u) as f32);
            allowed.push((tolerance::PRODUCT_REL * products + own) as f32);
        }
    }
    let want = Host { width: t.top_k * m, data: want };
    compare(&got, &want, |_, row, c| allowed[row * t.top_k * m + c])?;

    if t.rows == 1 {
        return Ok(());
    }
    let row = rng.below(t.rows);
    let part = |h: &Host| Host { width: h.width, data: h.data[row * h.width..][..h.width].to_vec() };
    let alone = s.read(&run(&part(&x), &part(&choice))?)?;
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
    match alone.data.iter().zip(&part(&got).data).position(differs) {
        None => Ok(()),
        Some(i) => Err(format!("row {row} alone has other bits in column {i}").into()),
    }
}

fn summed(s: &Suite<'_>, width: usize, top_k: usize, rows: usize, layout: Layout) -> Result<(), Failure> {
    let mut rng = s.rng();
    let choice = choice(&mut rng, 16, top_k, rows, Skew::Even);
    let (x, added) =
        (Host::random(&mut rng, rows, top_k * width, 1.0), Host::random(&mut rng, rows, width, 1.0));
    let factors = rng.normals(16, 1.0);
    let (x_on, choice_on) = (s.upload_as(&x, layout)?, s.upload(&choice)?);
    let (added_on, factors_on) = (s.upload_as(&added, layout)?, s.values(&factors)?);
    for (has_factor, has_added) in [(false, false), (true, false), (false, true), (true, true)] {
        let out = s.output_as(rows, width, layout)?;
        let args = expert_sum::Args {
            x: x_on.mat(),
            choice: choice_on.mat(),
            factor: has_factor.then_some(&factors_on),
            added: has_added.then(|| added_on.mat()),
            out: out.mat(),
            rows: rows as u32,
        };
        s.run(|rec| expert_sum::record(s.kernels(), rec, "expert_sum", &args))?;
        let (mut want, magnitude) = reference::expert_sum(&x, &choice, has_factor.then_some(&factors));
        if has_added {
            want.data.iter_mut().zip(&added.data).for_each(|(w, a)| *w += a);
        }
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
