//! Products on the device with the golden blocks of `fixtures/quants`: ggml's own quantisation, the sums of independent decoders. Row 4 is
//! zeros, row 5 has one sign, row 6 outliers, two rows are random bytes that no quantiser writes.
//!
//! They lie here and not beside the kernels, because only this crate reads GGUF files and runs kernels.

use zinc_gguf::Gguf;
use zinc_kernels::gemv::{Args, Epilogue, ProductClass, Weights, record, select};
use zinc_kernels::suite::{Failure, Host, Suite};
use zinc_kernels::{Kernels, Mat};
use zinc_quant::{FormatRef, formats};
use zinc_testkit::{Reference, fixtures_dir, tolerance};

const ROW: usize = 512;

#[test]
fn products_of_golden_blocks() {
    let folder = fixtures_dir().join("quants");
    let blocks = Gguf::open(&folder.join("quants.gguf")).expect("the fixture's blocks");
    let golden = Reference::load(&folder.join("quants.safetensors"));
    let kernels = Kernels::new(&zinc_vulkan::testing::device());
    let mut suite = Suite::new(&kernels, "golden");
    for &format in formats() {
        if let Some(tensor) = blocks.tensor(&format!("{format}.weight")) {
            let rows = blocks.data(tensor);
            suite.case(format.name, |s| check(s, format, rows, &golden));
        }
    }
    let results = suite.finish();
    assert!(results.len() >= 14, "{} formats have golden values", results.len());
    let bad: Vec<_> = results.iter().filter(|r| !r.ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    zinc_vulkan::testing::assert_valid();
}

fn check(s: &Suite<'_>, format: FormatRef, rows: &[u8], golden: &Reference) -> Result<(), Failure> {
    let x = golden.f32("x");
    let values = golden.f32(&format!("{format}.values"));
    let want = Host { width: values.len() / ROW, data: golden.f32(&format!("{format}.y")) };
    let mut packed = vec![0; want.width * format.device_row_bytes(ROW)];
    let device_rows = packed.chunks_exact_mut(format.device_row_bytes(ROW));
    for (to, row) in device_rows.zip(rows.chunks_exact(format.row_bytes(ROW))) {
        format.pack_row(row, ROW, to);
    }
    let (weights, x_slice, out) = (s.bytes(&packed)?, s.values(&x)?, s.output(1, want.width)?);
    let args = Args {
        weights: Weights { slice: &weights, format, m: want.width as u32, k: ROW as u32 },
        up: None,
        x: Mat::dense(&x_slice, ROW as u32),
        norm: None,
        columns: 1,
        epilogue: Epilogue::default(),
        out: out.mat(),
    };
    let class = ProductClass { format, m: args.weights.m, k: args.weights.k, gated: false };
    let tile = select(s.kernels().policy(), &class, args.columns)?;
    s.run(|rec| record(s.kernels(), rec, "golden", &args, tile))?;
    s.compare(&out, &want, |_, _, row| {
        let terms = values[ROW * row..][..ROW].iter().zip(&x);
        let magnitude: f64 = terms.map(|(&w, &x)| (f64::from(w) * f64::from(x)).abs()).sum();
        (tolerance::PRODUCT_REL * magnitude) as f32
    })
}
