//! What every format of the list promises: identity, error of encoding, and the device layout.

use proptest::prelude::*;
use std::collections::HashSet;
use zinc_quant::{Format, FormatRef, by_ggml_type, by_name, formats};
use zinc_testkit::{Rng, shape_classes};

fn through(format: &Format, x: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0xff; format.row_bytes(x.len())];
    format.encode_row(x, &mut bytes);
    let mut back = vec![f32::NAN; x.len()];
    format.decode_row(&bytes, &mut back);
    back
}

fn rms(x: impl Iterator<Item = f32>) -> f64 {
    let (sum, n) = x.fold((0.0, 0), |(sum, n), v| (sum + f64::from(v).powi(2), n + 1));
    (sum / f64::from(n)).sqrt()
}

/// The relative error that the format's bits per weight allow for values that fill its range as normal ones do. Formats without
/// blocks are floats, of which the coarsest here keeps 8 bits of mantissa.
fn allowed_rms(format: &Format) -> f64 {
    let bits = format.block_bytes as f64 * 8.0 / format.block_elems as f64;
    if format.block_elems == 1 { (-9f64).exp2() } else { 3.0 * (-bits).exp2() }
}

fn assert_close(format: &Format, what: &str, x: &[f32]) {
    let back = through(format, x);
    let error = rms(back.iter().zip(x).map(|(a, b)| a - b)) / rms(x.iter().copied());
    let allowed = allowed_rms(format);
    assert!(error <= allowed, "{format}, {what}: relative RMS error {error:.5}, allowed {allowed:.5}");
}

#[test]
fn identity_is_the_ggml_type() {
    assert_eq!(formats().iter().map(|f| f.ggml_type).collect::<HashSet<_>>().len(), formats().len());
    for format in formats() {
        assert_eq!(by_ggml_type(format.ggml_type), Some(*format));
        assert_eq!(by_name(format.name), Some(*format));
        assert_eq!(by_name(&format.name.to_lowercase()), Some(*format));
        assert_eq!(
            (format!("{format}"), format!("{format:?}")),
            (format.name.to_owned(), format.name.to_owned())
        );
        assert!(!format.glsl.is_empty(), "{format}");
    }
    assert_eq!(by_ggml_type(9999), None);
    assert_eq!(by_name("Q9_9"), None);
}

#[test]
fn encoding_keeps_what_the_bits_allow() {
    let mut rng = Rng::fresh();
    for format in formats() {
        for std in [1e-3, 0.02, 1.0, 40.0] {
            assert_close(format, "normal values", &rng.normals(2048, std));
        }
        let positive: Vec<f32> = rng.normals(2048, 0.1).iter().map(|v| v.abs()).collect();
        assert_close(format, "positive values", &positive);
        assert_close(format, "negative values", &positive.iter().map(|v| -v).collect::<Vec<_>>());
    }
}

#[test]
fn zeros_stay_zero() {
    for format in formats() {
        assert!(through(format, &[0.0; 512]).iter().all(|&v| v == 0.0), "{format}");
    }
}

/// One value a thousand times the others: it is kept, and the others are off by no more than its step.
#[test]
fn outliers_cost_no_more_than_a_step() {
    let mut rng = Rng::fresh();
    for format in formats() {
        for sign in [1.0, -1.0] {
            let mut x = rng.normals(512, 0.01);
            let at = rng.below(512);
            x[at] = 10.0 * sign;
            let step = 10.0 * 4.0 * allowed_rms(format) as f32;
            for (i, (a, b)) in through(format, &x).iter().zip(&x).enumerate() {
                assert!((a - b).abs() <= step, "{format}: element {i} became {a} from {b}, outlier at {at}");
            }
        }
    }
}

#[test]
fn device_layout_is_reversible() {
    let mut rng = Rng::fresh();
    for format in formats() {
        for blocks in shape_classes(8) {
            let k = blocks * format.block_elems;
            let row = rng.bytes(format.row_bytes(k));
            let mut packed = vec![0xaa; format.device_row_bytes(k)];
            format.pack_row(&row, k, &mut packed);
            let mut back = vec![0x55; row.len()];
            format.unpack_row(&packed, k, &mut back);
            assert_eq!(back, row, "{format} with {blocks} blocks");
            assert_planes(format, blocks, &row, &packed);
        }
    }
}

/// Each plane is where it is said to be, aligned, and padded with zeros.
fn assert_planes(format: FormatRef, blocks: usize, row: &[u8], packed: &[u8]) {
    let k = blocks * format.block_elems;
    let mut end = 0;
    for (i, plane) in format.planes.iter().enumerate() {
        let start = format.plane_offset(i, k);
        assert!(start.is_multiple_of(16) && start - end < 16, "{format} plane {i}");
        assert!(packed[end..start].iter().all(|&b| b == 0), "{format}: padding before plane {i}");
        for (b, block) in row.chunks_exact(format.block_bytes).enumerate() {
            let got = &packed[start + b * plane.len..][..plane.len];
            let own: Vec<u8> = plane.pieces().flat_map(|at| &block[at..at + plane.piece]).copied().collect();
            assert_eq!(got, own, "{format} plane {i} block {b}");
        }
        end = start + blocks * plane.len;
    }
    assert!(packed[end..].iter().all(|&b| b == 0) && packed.len() - end < 16, "{format}: last padding");
}

/// The planes are the block, each byte once, in pieces that a shader can load.
#[test]
fn planes_cover_the_block() {
    for format in formats() {
        let mut bytes: Vec<usize> =
            (format.planes.iter()).flat_map(|p| p.pieces().flat_map(|at| at..at + p.piece)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..format.block_bytes).collect::<Vec<_>>(), "{format}");
        for plane in format.planes {
            let loadable = plane.len.is_multiple_of(4) || plane.len <= 2;
            assert!(loadable, "{format}: a plane of {} bytes", plane.len);
        }
    }
}

#[test]
#[should_panic(expected = "not whole blocks")]
fn a_row_is_whole_blocks() {
    let format = formats().iter().find(|f| f.block_elems > 1).expect("a block format");
    format.row_bytes(format.block_elems + 1);
}

proptest! {
    /// Any finite values, however large, small or mixed, become something finite, but for the last of BF16, which round to infinity.
    #[test]
    fn any_finite_values_encode(bits in prop::collection::vec(any::<u32>(), 256)) {
        let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).map(|v| if v.is_finite() { v } else { 0.0 }).collect();
        for format in formats() {
            let back = through(format, &x);
            prop_assert!(back.iter().all(|v| v.is_finite() || format.block_elems == 1), "{format}");
        }
    }

    /// Any bytes decode without a panic, whole row or block by block, to the same bits.
    #[test]
    fn any_bytes_decode(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        for format in formats() {
            let bytes = rng.bytes(format.row_bytes(512));
            let (mut row, mut blocks) = (vec![0.0; 512], vec![0.0; 512]);
            format.decode_row(&bytes, &mut row);
            for (b, v) in bytes.chunks_exact(format.block_bytes).zip(blocks.chunks_exact_mut(format.block_elems)) {
                (format.decode)(b, v);
            }
            let bits = |v: &[f32]| v.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect::<Vec<_>>();
            prop_assert_eq!(bits(&row), bits(&blocks), "{}", format);
        }
    }
}
