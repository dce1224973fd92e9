//! Products of slots with their experts' matrices, by every family that has a kernel for them: of every format, with all rows at one expert and with
//! different ones, with experts that nobody chose.

use super::suite::{Skew, choice, grouping, room};
use super::{Grouping, pack, reference};
use crate::dot::reference::bounded;
use crate::gemm::suite::{matrices, small};
use crate::gemm::{ConvertArgs, Matrix, Packed, convert};
use crate::gemv::reference::{gated, product};
use crate::gemv::{self, Biases, ExpertArgs, Gate, ProductClass, Up, Weights};
use crate::product::{Product, record_experts};
use crate::suite::{Failure, Host, Layout, Placed, Suite, compare};
use crate::{Mat, dot};
use zinc_quant::{FormatRef, by_name, formats};
use zinc_testkit::{Rng, tolerance};
use zinc_vulkan::Slice;

const OAI: Gate = Gate::OaiSwiGlu { alpha: 1.702, limit: 7.0 };

/// Which kernel is tried.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    Columns,
    Dot,
    Gemm(Matrix),
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

/// A product's value, and how far a kernel's may be from it.
type Bounded = (f64, f64);

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
    fn times(&self, x: &Host, choice: &Host, by: Product) -> Vec<Vec<Bounded>> {
        let top_k = choice.width / 2;
        let part = |slot: usize| {
            let row = &x.data[slot / top_k * x.width..][..x.width];
            if x.width == self.k { row } else { &row[slot % top_k * self.k..][..self.k] }
        };
        let matrix = self.m * self.format.row_bytes(self.k);
        let of = |(slot, expert): (usize, usize)| -> Vec<Bounded> {
            let (bytes, x) = (&self.file[expert * matrix..][..matrix], part(slot));
            let exact = || product(self.format, bytes, self.k, &[x]).remove(0).into_iter();
            match by {
                Product::Columns(_) => {
                    exact().map(|p| (p.value, tolerance::PRODUCT_REL * p.magnitude)).collect()
                }
                Product::Dot(tile) => {
                    let all = bounded(self.format, bytes, self.k, &[x], tile.bytes).remove(0);
                    all.into_iter().map(|b| (b.value, b.error)).collect()
                }
                Product::Gemm(_) | Product::Slices(_) => {
                    let sum: f64 = x.iter().map(|v| f64::from(v.abs())).sum();
                    let error =
                        |magnitude| tolerance::PRODUCT_F16_REL * magnitude + tolerance::PRODUCT_F16_ABS * sum;
                    exact().map(|p| (p.value, error(p.magnitude))).collect()
                }
            }
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

/// Every case.
pub(super) fn cases(s: &mut Suite<'_>) {
    // The formats' decoding is tried with one matrix: here each finds its expert's.
    for (i, &format) in formats().iter().enumerate() {
        let shape = [6, 5, if format.block_elems == 1 { 341 } else { 256 }];
        let gate = (i % 2 == 0).then_some(Gate::SwiGlu);
        let t = Try { format, shape, top_k: 3, rows: 1, parts: false, gate, behind: i % 4 == 0, bias: false };
        case(s, Family::Columns, &t, Skew::Even);
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
    let own = matrices(s.kernels()).into_iter().map(Family::Gemm);
    for family in [Family::Columns, Family::Dot].into_iter().chain(own) {
        for (t, skew) in all.iter().flat_map(|t| [(t, Skew::Even), (t, Skew::One)]) {
            case(s, family, t, skew);
        }
    }
    for matrix in matrices(s.kernels()) {
        tiles(s, matrix, &base);
    }
}

/// Experts whose slots end where tiles do, and rows that end where tiles do.
fn tiles(s: &mut Suite<'_>, matrix: Matrix, base: &Try) {
    let tile = small(s.kernels(), matrix);
    let (rows, columns) = (tile.rows as usize, tile.columns as usize);
    let widths = [columns - 1, columns, columns + 1, 3 * columns + 5];
    for (n, m) in widths.into_iter().zip([rows + 1, rows - 1, rows, 2 * rows + 3]) {
        let t = Try { shape: [3, m, 256], top_k: 1, rows: n, ..*base };
        case(s, Family::Gemm(matrix), &t, Skew::One);
        let gated = Try { gate: Some(Gate::SwiGlu), top_k: 2, parts: true, ..t };
        case(s, Family::Gemm(matrix), &gated, Skew::Even);
    }
    // What is no whole step of K.
    if let Some(format) = by_name("F16") {
        let t = Try { format, shape: [4, 7, 341], top_k: 2, rows: 19, bias: true, ..*base };
        case(s, Family::Gemm(matrix), &t, Skew::Even);
    }
}

/// Tries a product where the family has a kernel for it.
fn case(s: &mut Suite<'_>, family: Family, t: &Try, skew: Skew) {
    let name = format!("{family:?} {t:?}, {skew:?}");
    match chosen(s, family, t, t.rows) {
        Ok((g, by)) => s.case(name, |s| multiplied(s, family, t, skew, g, by)),
        // Not every device has integer products, nor every format lanes that share chunks.
        Err(_) if matches!(family, Family::Dot | Family::Gemm(Matrix::Lanes)) => {}
        Err(e) => s.case(name, |_| Err(e)),
    }
}

/// How so many rows are grouped for a family, and its kernel.
fn chosen(s: &Suite<'_>, family: Family, t: &Try, rows: usize) -> Result<(Grouping, Product), Failure> {
    let ([experts, m, k], top_k) = (t.shape.map(|n| n as u32), t.top_k as u32);
    let class = ProductClass { format: t.format, m, k, gated: t.gate.is_some() };
    let (caps, policy) = (s.kernels().caps(), s.kernels().policy());
    if let Family::Gemm(matrix) = family {
        let tile = small(s.kernels(), matrix);
        tile.check_experts(caps, policy.subgroup_size, t.format, class.gated)?;
        return Ok((Grouping::tiled(tile.columns, experts, top_k, rows as u32)?, Product::Gemm(tile)));
    }
    let g = grouping(s, t.shape[0], t.top_k, rows)?;
    let by = match family {
        Family::Dot => Product::Dot(dot::select_experts(caps, policy, &class, &g)?),
        _ => Product::Columns(gemv::select_experts(policy, &class, &g)?),
    };
    Ok((g, by))
}

/// A product that is right, and a row of which has the very bits that it has alone.
fn multiplied(
    s: &Suite<'_>,
    family: Family,
    t: &Try,
    skew: Skew,
    g: Grouping,
    by: Product,
) -> Result<(), Failure> {
    let mut rng = s.rng();
    let [experts, m, k] = t.shape;
    let choice = choice(&mut rng, experts, t.top_k, t.rows, skew);
    let x = Host::random(&mut rng, t.rows, if t.parts { t.top_k * k } else { k }, 1.0);
    let (first, up) = if t.behind {
        (Matrices::random(s, &mut rng, t.format, [experts, 2 * m, k])?, None)
    } else {
        let first = Matrices::random(s, &mut rng, t.format, t.shape)?;
        let up = t.gate.map(|_| Matrices::random(s, &mut rng, t.format, t.shape)).transpose()?;
        (first, up)
    };
    let biases = [rng.normals(experts * m, 1.0), rng.normals(experts * m, 1.0)];
    let on = [s.values(&biases[0])?, s.values(&biases[1])?];
    let matrices = (
        first.weights(),
        t.gate.map(|gate| (gate, up.as_ref().map_or(Up::Behind, |up| Up::Apart(&up.device)))),
    );
    let biased = t.bias.then_some(Biases { first: &on[0], up: t.gate.map(|_| &on[1]) });
    let got = s.read(&run(s, matrices, biased, (&x, &choice), g, by)?)?;

    let of = reference::experts(&choice);
    let both = [first.times(&x, &choice, by), up.as_ref().map_or(vec![], |up| up.times(&x, &choice, by))];
    let with_bias = |which: usize, slot: usize, i: usize| {
        let (from, i_in) = if t.behind { (0, which * m + i) } else { (which, i) };
        let (value, error) = both[from][slot][i_in];
        let bias = if t.bias { f64::from(biases[which][of[slot] * m + i]) } else { 0.0 };
        (value + bias, error + tolerance::PRODUCT_REL * bias.abs())
    };
    let (mut want, mut allowed) = (Vec::new(), Vec::new());
    for (slot, i) in (0..of.len()).flat_map(|slot| (0..m).map(move |i| (slot, i))) {
        let (value, error) = with_bias(0, slot, i);
        let Some(gate) = t.gate else {
            want.push(value as f32);
            allowed.push(error as f32);
            continue;
        };
        let (u, u_error) = with_bias(1, slot, i);
        // The errors of both products, the steepest slope of the activations being below 1.2, and the activation's own.
        let products = 1.2 * (error * (u.abs() + 1.0) + value.abs() * u_error + error * u_error);
        let own = f64::from(tolerance::ACTIVATION_REL) * (value * (u.abs() + 1.0)).abs();
        want.push(gated(gate, value, u) as f32);
        allowed.push((products + own) as f32);
    }
    let want = Host { width: t.top_k * m, data: want };
    compare(&got, &want, |_, row, c| allowed[row * t.top_k * m + c])?;

    if t.rows == 1 {
        return Ok(());
    }
    let row = rng.below(t.rows);
    let part = |h: &Host| Host { width: h.width, data: h.data[row * h.width..][..h.width].to_vec() };
    let (g, by) = chosen(s, family, t, 1)?;
    let alone = s.read(&run(s, matrices, biased, (&part(&x), &part(&choice)), g, by)?)?;
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
    match alone.data.iter().zip(&part(&got).data).position(differs) {
        None => Ok(()),
        Some(i) => Err(format!("row {row} alone has other bits in column {i}").into()),
    }
}

/// The product of rows, packed first where their grouping is.
fn run(
    s: &Suite<'_>,
    (weights, up): (Weights<'_>, Option<(Gate, Up<'_>)>),
    biases: Option<Biases<'_>>,
    (x, choice): (&Host, &Host),
    grouping: Grouping,
    by: Product,
) -> Result<Placed, Failure> {
    let layout = if weights.k % 4 == 0 { Layout::Columns } else { Layout::Unaligned };
    let (x_on, choice_on) = (s.upload_as(x, layout)?, s.upload(choice)?);
    let m = if matches!(up, Some((_, Up::Behind))) { weights.m / 2 } else { weights.m };
    let (lists, out) =
        (room(s, &grouping)?, s.output(grouping.rows as usize, (grouping.top_k * m) as usize)?);
    let (choice, lists, k) = (choice_on.mat(), &lists, weights.k);
    let in_f16 = matches!(by, Product::Gemm(_));
    let width = x.width as u32 / k * Packed::width(k);
    let room = s.bytes(&vec![0xff; if in_f16 { 4 * (width * grouping.rows) as usize } else { 0 }])?;
    let packed = Mat::dense(&room, width);
    let x = if in_f16 { packed } else { x_on.mat() };
    let args = ExpertArgs { weights, up, biases, x, grouping, choice, lists, out: out.mat() };
    s.run(|rec| {
        if in_f16 {
            let out = Packed::within(packed, grouping.rows, k)?;
            convert(s.kernels(), rec, "convert", &ConvertArgs { x: x_on.mat(), out })?;
        }
        if grouping.is_packed() {
            pack::record(s.kernels(), rec, "pack", &pack::Args { choice, grouping, lists })?;
        }
        record_experts(s.kernels(), rec, "experts", &args, by)
    })?;
    Ok(out)
}
