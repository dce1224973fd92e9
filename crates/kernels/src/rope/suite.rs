//! Rotation against its oracle, and the fused operation bit for bit against the operations that it fuses.

use super::qk_norm_rope_kv::{self, HeadNorms};
use super::{Rotation, reference, rope};
use crate::elementwise::slice;
use crate::kv::reference::HostCache;
use crate::kv::suite::{blank, same_bytes, scattered_pages, some_rows};
use crate::kv::{KvCache, KvType, kv_write};
use crate::norm::rms_norm;
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use crate::{Kernels, RowInfo};
use zinc_plan::{Pairing, RopeTable};
use zinc_testkit::tolerance::ROTATION_REL;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "rope");
    for pairing in [Pairing::Adjacent, Pairing::Halves] {
        for (heads, head_size, rotated) in
            [(1, 2, 2), (3, 64, 64), (9, 128, 128), (2, 256, 64), (1, 512, 512), (5, 80, 32), (2, 128, 0)]
        {
            for (rows, layout) in [(1, Layout::Columns), (7, Layout::Columns), (3, Layout::Unaligned)] {
                let name = format!("rope {pairing:?} {heads} x {head_size}, {rotated} turn, {rows} rows");
                suite.case(name, |s| plain(s, pairing, heads, head_size, rotated, rows, layout));
            }
        }
        for kind in KvType::ALL {
            for norms in [false, true] {
                for (heads, kv_heads, sizes, rotated) in [
                    (4, 2, [128, 128], 128),
                    (9, 3, [64, 64], 64),
                    (2, 1, [256, 256], 64),
                    (3, 3, [24, 8], 16),
                ] {
                    // Whole blocks, of fewer lanes than a subgroup and of more.
                    if kind == KvType::Q8_0 && ![9, 2].contains(&heads) {
                        continue;
                    }
                    for (rows, layout) in [(1, Layout::Columns), (6, Layout::Unaligned)] {
                        let gated = heads == 2 || rows == 6 && norms;
                        let shape = Fused {
                            pairing,
                            kind,
                            norms,
                            gated,
                            heads,
                            kv_heads,
                            sizes,
                            rotated,
                            rows,
                            layout,
                            values: norms && heads != 4,
                        };
                        suite.case(format!("qk_norm_rope_kv {shape:?}"), |s| fused(s, &shape));
                    }
                }
            }
        }
    }
    suite.finish()
}

/// (cos, sin) of positions below `positions`.
fn table(rotated: usize, positions: u32) -> Vec<[f32; 2]> {
    let table = RopeTable::new(rotated as u32, 10000.0, 1.0, None);
    (0..positions).flat_map(|p| table.cos_sin(p).map(|(c, s)| [c, s]).collect::<Vec<_>>()).collect()
}

fn plain(
    s: &Suite<'_>,
    pairing: Pairing,
    heads: usize,
    head_size: usize,
    rotated: usize,
    rows: usize,
    layout: Layout,
) -> Result<(), Failure> {
    let mut rng = s.rng();
    let info: Vec<RowInfo> =
        (0..rows).map(|_| RowInfo { position: rng.below(500) as u32, ..Default::default() }).collect();
    let angles = table(rotated, 500);
    let x = Host::random(&mut rng, rows, heads * head_size, 1.0);
    let (x_on, out) = (s.upload_as(&x, layout)?, s.output_as(rows, heads * head_size, layout)?);
    let (table_on, info_on) = (s.values(&angles)?, s.values(&info)?);
    let args = rope::Args {
        x: x_on.mat(),
        head_size: head_size as u32,
        rotation: Rotation { table: &table_on, rotated_pairs: rotated as u32 / 2, pairing },
        row_info: &info_on,
        out: out.mat(),
        rows: rows as u32,
    };
    s.run(|rec| rope::record(s.kernels(), rec, "rope", &args))?;
    let want = reference::rope(&x, head_size, &angles, rotated / 2, pairing, &info);
    // A normal value stays below 6.
    s.compare(&out, &want, |_, _, _| 6.0 * ROTATION_REL)
}

#[derive(Debug)]
struct Fused {
    pairing: Pairing,
    kind: KvType,
    norms: bool,
    gated: bool,
    heads: usize,
    kv_heads: usize,
    sizes: [usize; 2],
    rotated: usize,
    rows: usize,
    layout: Layout,
    /// Value heads are normed.
    values: bool,
}

fn fused(s: &Suite<'_>, shape: &Fused) -> Result<(), Failure> {
    let mut rng = s.rng();
    let &Fused { pairing, kind, norms, gated, heads, kv_heads, rotated, rows, layout, values, .. } = shape;
    let [size, value_size] = shape.sizes;
    let k = s.kernels();
    let max_pages = 3;
    let pages = scattered_pages(&mut rng, 2, max_pages);
    let info = some_rows(&mut rng, rows, max_pages * 16);
    let (pages_on, info_on, table_on) = (s.values(&pages)?, s.values(&info)?, s.values(&table(rotated, 48))?);
    let weights = [s.values(&rng.normals(size, 1.0))?, s.values(&rng.normals(size, 1.0))?];
    let mut columns = |width| s.upload_as(&Host::random(&mut rng, rows, width, 1.0), layout);
    let q_width = heads * size * if gated { 2 } else { 1 };
    let (q, key, v) = (columns(q_width)?, columns(kv_heads * size)?, columns(kv_heads * value_size)?);
    let output = |width| s.output_as(rows, width, layout);
    let (out, out_apart) = (output(heads * size)?, output(heads * size)?);
    let (q_normed, k_normed, k_turned) =
        (output(heads * size)?, output(kv_heads * size)?, output(kv_heads * size)?);
    let (q_heads, v_normed) = (output(heads * size)?, output(kv_heads * value_size)?);
    let start = [size, value_size].map(|size| blank(kind, kv_heads, size, pages.len(), -7.0));
    let upload = |c: &HostCache| s.bytes(&c.bytes());
    let memory = [upload(&start[0])?, upload(&start[1])?, upload(&start[0])?, upload(&start[1])?];
    let cache = |i: usize| KvCache {
        k: &memory[i],
        v: &memory[i + 1],
        kind,
        kv_heads: kv_heads as u32,
        key_size: size as u32,
        value_size: value_size as u32,
        pages: &pages_on,
        max_pages: max_pages as u32,
    };
    let rotation = Rotation { table: &table_on, rotated_pairs: rotated as u32 / 2, pairing };
    let (row_info, n, eps) = (&info_on, rows as u32, 1e-6);
    s.run(|rec| {
        let args = qk_norm_rope_kv::Args {
            q: q.mat(),
            gated,
            k: key.mat(),
            v: v.mat(),
            norms: norms.then_some(HeadNorms { q: &weights[0], k: &weights[1], values, eps }),
            rotation,
            cache: cache(0),
            row_info,
            out: out.mat(),
            rows: n,
        };
        qk_norm_rope_kv::record(k, rec, "fused", &args)?;
        let (mut turned_q, mut turned_k) = (q.mat(), key.mat());
        if gated {
            let (stride, len, out) = (2 * size as u32, size as u32, q_heads.mat());
            let args = slice::Args { x: q.mat(), stride, first: 0, len, out, rows: n };
            slice::record(k, rec, "slice", &args)?;
            turned_q = out;
        }
        if norms {
            for (x, weight, out) in
                [(&mut turned_q, &weights[0], &q_normed), (&mut turned_k, &weights[1], &k_normed)]
            {
                let args = rms_norm::Args {
                    x: *x,
                    weight: Some(weight),
                    group: size as u32,
                    eps,
                    out: out.mat(),
                    rows: n,
                };
                rms_norm::record(k, rec, "rms_norm", &args)?;
                *x = out.mat();
            }
        }
        let mut v_heads = v.mat();
        if values {
            let (group, out) = (value_size as u32, v_normed.mat());
            let args = rms_norm::Args { x: v_heads, weight: None, group, eps, out, rows: n };
            rms_norm::record(k, rec, "rms_norm", &args)?;
            v_heads = out;
        }
        for (x, out) in [(turned_q, &out_apart), (turned_k, &k_turned)] {
            let args = rope::Args { x, head_size: size as u32, rotation, row_info, out: out.mat(), rows: n };
            rope::record(k, rec, "rope", &args)?;
        }
        let args = kv_write::Args { k: k_turned.mat(), v: v_heads, cache: cache(2), row_info, rows: n };
        kv_write::record(k, rec, "kv_write", &args)
    })?;
    compare(&s.read(&out)?, &s.read(&out_apart)?, |_, _, _| 0.0)?;
    for i in [0, 1] {
        let (got, apart): (Vec<u8>, Vec<u8>) = (s.read_values(&memory[i])?, s.read_values(&memory[i + 2])?);
        same_bytes(&got, &apart)?;
        if got == start[i].bytes() {
            return Err("nothing was stored".to_owned().into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
