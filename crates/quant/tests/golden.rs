//! Every format against values that independent decoders gave: bit for bit.
//!
//! The fixture `quants` has them for most formats; the others bring a `golden.gguf` in their folder, made with the `gguf`
//! package from PyPI, with the tensors `<FORMAT>.weight`, `<FORMAT>.values`, `x` and `<FORMAT>.y`.

use std::path::Path;
use zinc_gguf::{Gguf, TensorInfo};
use zinc_quant::{Format, formats};
use zinc_testkit::{Reference, fixtures_dir, tolerance};

struct Golden {
    /// The encoded rows, one after another.
    blocks: Vec<u8>,
    /// Their values.
    values: Vec<f32>,
    /// A vector as long as a row.
    x: Vec<f32>,
    /// Each row times `x`, summed in f64.
    y: Vec<f32>,
}

fn golden(format: &Format) -> Golden {
    let fixture = fixtures_dir().join("quants");
    let all = open(&fixture.join("quants.gguf"));
    let name = format.name;
    if let Some(weight) = all.tensor(&format!("{name}.weight")) {
        assert_type(weight, format);
        let reference = Reference::load(&fixture.join("quants.safetensors"));
        return Golden {
            blocks: all.data(weight).to_vec(),
            values: reference.f32(&format!("{name}.values")),
            x: reference.f32("x"),
            y: reference.f32(&format!("{name}.y")),
        };
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/formats").join(name.to_lowercase());
    let own = open(&folder.join("golden.gguf"));
    let tensor = |name: &str| own.tensor(name).unwrap_or_else(|| panic!("no golden `{name}`"));
    let floats = |name: &str| -> Vec<f32> {
        own.data(tensor(name)).as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
    };
    let weight = tensor(&format!("{name}.weight"));
    assert_type(weight, format);
    Golden {
        blocks: own.data(weight).to_vec(),
        values: floats(&format!("{name}.values")),
        x: floats("x"),
        y: floats(&format!("{name}.y")),
    }
}

fn open(path: &Path) -> Gguf {
    Gguf::open(path).unwrap_or_else(|e| panic!("{e}"))
}

fn assert_type(weight: &TensorInfo, format: &Format) {
    assert_eq!(weight.ggml_type.id(), format.ggml_type);
}

/// NaN equals NaN, everything else must have the same bits.
fn assert_same(format: &Format, how: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{format} by {how}, element {i}: got {got:e}, want {want:e}");
    }
}

#[test]
fn values_are_bit_exact() {
    for format in formats() {
        let golden = golden(format);
        let mut got = vec![f32::NAN; golden.values.len()];
        format.decode_row(&golden.blocks, &mut got);
        assert_same(format, "row", &got, &golden.values);

        got.fill(f32::NAN);
        let blocks = golden.blocks.chunks_exact(format.block_bytes);
        for (block, values) in blocks.zip(got.chunks_exact_mut(format.block_elems)) {
            (format.decode)(block, values);
        }
        assert_same(format, "block", &got, &golden.values);
    }
}

#[test]
fn products_agree() {
    for format in formats() {
        let golden = golden(format);
        let k = golden.x.len();
        let mut row = vec![f32::NAN; k];
        for (r, (blocks, &want)) in golden.blocks.chunks_exact(format.row_bytes(k)).zip(&golden.y).enumerate()
        {
            format.decode_row(blocks, &mut row);
            let terms = || row.iter().zip(&golden.x).map(|(&w, &x)| f64::from(w) * f64::from(x));
            let (got, scale) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            let off = (got - f64::from(want)).abs();
            assert!(off <= tolerance::PRODUCT_REL * scale, "{format} row {r}: got {got}, want {want}");
        }
    }
}

#[test]
fn the_list_agrees_with_the_container() {
    for format in formats() {
        let known = zinc_gguf::GgmlType::from_id(format.ggml_type).expect("an id that GGUF files use");
        assert_eq!(known.name(), format.name);
        assert_eq!(known.block_elems(), format.block_elems as u64, "{format}");
        assert_eq!(known.block_bytes(), format.block_bytes as u64, "{format}");
    }
}
