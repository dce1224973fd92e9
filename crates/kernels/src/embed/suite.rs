//! Embeddings are bit-exact with the decoder; copies with their source.

use super::{CopyArgs, EmbedArgs, copy_rows, embed};
use crate::gemv::Weights;
use crate::suite::{CaseResult, Host, Suite, compare};
use crate::{Kernels, RowInfo};
use zinc_quant::{FormatRef, formats};
use zinc_testkit::shape_classes;

/// Every case of embeddings and copies.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut s = Suite::new(kernels, "embed");
    for &format in formats() {
        for (k, rows) in [(format.block_elems, 1), (3 * format.block_elems, 7), (2304, 3)] {
            embeds(&mut s, format, k, rows);
        }
        if format.block_elems == 1 {
            embeds(&mut s, format, 37, 5);
        }
    }
    for width in shape_classes(64) {
        copies(&mut s, width);
    }
    s.finish()
}

fn embeds(s: &mut Suite<'_>, format: FormatRef, k: usize, count: usize) {
    s.case(format!("{format}, {count} rows of {k}"), |s| {
        let m = 9;
        let mut rng = s.rng();
        let mut want = Host { width: k, data: vec![] };
        let mut packed = vec![0; m * format.device_row_bytes(k)];
        let mut table = vec![0.0f32; m * k];
        let decoded = table.chunks_exact_mut(k);
        for (values, device) in decoded.zip(packed.chunks_exact_mut(format.device_row_bytes(k))) {
            let mut file = vec![0; format.row_bytes(k)];
            format.encode_row(&rng.normals(k, 1.0), &mut file);
            format.decode_row(&file, values);
            format.pack_row(&file, k, device);
        }
        let scale = 1.5f32;
        let mut infos = Vec::new();
        for i in 0..count {
            let token = rng.below(m);
            infos.push(RowInfo { token: token as u32, position: i as u32, ..RowInfo::default() });
            want.data.extend(table[token * k..(token + 1) * k].iter().map(|v| v * scale));
        }
        let (device, rows, out) = (s.bytes(&packed)?, s.values(&infos)?, s.output(count, k)?);
        let args = EmbedArgs {
            table: Weights { slice: &device, format, m: m as u32, k: k as u32 },
            rows: &rows,
            count: count as u32,
            scale,
            out: out.mat(),
        };
        s.run(|rec| embed(s.kernels(), rec, "embed", &args))?;
        // Exact, but for subnormal scales, which a device may flush.
        s.compare(&out, &want, |_, _, _| 1e-4 * f32::MIN_POSITIVE.sqrt())
    });
}

fn copies(s: &mut Suite<'_>, width: usize) {
    s.case(format!("copies of {width} columns"), |s| {
        let mut rng = s.rng();
        let x = Host::random(&mut rng, 5, width, 1.0);
        let indices: [u32; 4] = std::array::from_fn(|_| rng.below(5) as u32);
        let row = |&i: &u32| x.data[i as usize * width..(i as usize + 1) * width].to_vec();
        let want = Host { width, data: indices.iter().flat_map(row).collect() };
        let (placed, list, out) = (s.upload(&x)?, s.values(&indices)?, s.output(4, width)?);
        let args = CopyArgs { x: placed.mat(), rows: 5, indices: &list, count: 4, out: out.mat() };
        s.run(|rec| copy_rows(s.kernels(), rec, "copy", &args))?;
        compare(&s.read(&out)?, &want, |_, _, _| 0.0)
    });
}

#[cfg(test)]
mod tests {
    use super::suite;
    use crate::suite::assert_suite;

    #[test]
    fn rows_are_those_of_the_decoder() {
        assert_suite(suite);
    }
}
