//! Attention from the projections on: bit for bit what `qk_norm_rope_kv`, attention and a gate give one after the other, in the result and in every byte of the
//! caches. Keys lie around block and page edges; what no row may read is NaN.

use super::attention::{Args, COUNTER_BYTES, record_variant, scratch_bytes};
use super::reference::Rules;
use super::suite::{Case, Placed, SEQUENCES, cache, exactly, shape, with_sinks};
use super::{DecodeArgs, Split, Variant, decode};
use crate::elementwise::sigmoid_gate::{self, Parts};
use crate::kv::suite::same_bytes;
use crate::kv::{KvCache, KvType, PAGE_TOKENS};
use crate::rope::Rotation;
use crate::rope::qk_norm_rope_kv::{self, HeadNorms};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite};
use crate::{Kernels, Precision, RowInfo};
use zinc_plan::Pairing;
use zinc_vulkan::Slice;

/// Every case.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "decode attention");
    let plain = Rules { scale: 0.09, ..Default::default() };
    let all = Rules { softcap: Some(5.0), window: Some(40), sinks: Some(vec![]), ..plain.clone() };
    let halves = Head {
        norms: true,
        values: false,
        gated: false,
        pairing: Pairing::Halves,
        pairs: 32,
        layout: Layout::Columns,
    };
    let bare =
        Head { norms: false, pairing: Pairing::Adjacent, pairs: 20, layout: Layout::Unaligned, ..halves };
    for (shape, kind, rules, head) in [
        (shape(4, 2, 64, 64), KvType::F16, &plain, &halves),
        (shape(14, 2, 64, 64), KvType::F16, &all, &Head { pairs: 16, ..halves }),
        (
            shape(7, 1, 128, 64),
            KvType::F32,
            &all,
            &Head { layout: Layout::Unaligned, values: true, ..halves },
        ),
        (shape(3, 3, 80, 40), KvType::F16, &plain, &bare),
        (shape(6, 2, 64, 96), KvType::Q8_0, &all, &halves),
        (shape(4, 2, 64, 64), KvType::Q8_0, &plain, &Head { values: true, ..halves }),
        (shape(6, 2, 64, 64), KvType::F16, &all, &Head { gated: true, pairs: 16, ..halves }),
    ] {
        let case = Case { shape, kind, rules: rules.clone(), max_pages: 40, tiles: false };
        suite.case(format!("{shape:?} {} {:?}", kind.name(), head.pairing), |s| rows(s, &case, head));
    }
    suite.finish()
}

/// How heads are normed and turned, and how they lie.
#[derive(Clone, Copy)]
struct Head {
    norms: bool,
    values: bool,
    gated: bool,
    pairing: Pairing,
    pairs: u32,
    layout: Layout,
}

/// Three rows of a sequence each, at the ends of their caches: once both ways.
fn rows(s: &Suite<'_>, case: &Case, head: &Head) -> Result<(), Failure> {
    let longest = case.max_pages as u32 * PAGE_TOKENS - 1;
    for positions in [[0, 31, 32], [15, 64, longest], [255, 16, 1]] {
        row(s, case, head, positions)?;
    }
    Ok(())
}

fn row(s: &Suite<'_>, case: &Case, head: &Head, positions: [u32; SEQUENCES]) -> Result<(), Failure> {
    let (mut rng, k) = (s.rng(), s.kernels());
    let case = with_sinks(&mut rng, case);
    let (shape, rules) = (&case.shape, &case.rules);
    let host = cache(&mut rng, &case, positions);
    let infos: Vec<RowInfo> = (0..)
        .zip(positions)
        .map(|(sequence, position)| RowInfo { position, sequence, ..Default::default() })
        .collect();
    let widths =
        [shape.heads * shape.key_size, shape.kv_heads * shape.key_size, shape.kv_heads * shape.value_size];
    let q_width = if head.gated { 2 * widths[0] } else { widths[0] };
    let [q, keys, v] =
        [q_width, widths[1], widths[2]].map(|w| Host::random(&mut rng, SEQUENCES, w as usize, 1.0));
    let (q, keys, v) =
        (s.upload_as(&q, head.layout)?, s.upload_as(&keys, head.layout)?, s.upload_as(&v, head.layout)?);
    let weights = [rng.normals(shape.key_size as usize, 1.0), rng.normals(shape.key_size as usize, 1.0)];
    let (q_weight, k_weight) = (s.values(&weights[0])?, s.values(&weights[1])?);
    let angles = rng.normals((case.max_pages as u32 * PAGE_TOKENS * 2 * head.pairs) as usize, 1.0);
    let table = s.values(&angles)?;
    let (info, pages) = (s.values(&infos)?, s.values(&host.pages)?);
    let sinks = rules.sinks.as_ref().map(|sinks| s.values(sinks)).transpose()?;
    let row_bytes = scratch_bytes(k, shape, longest(&case), rules.window)?;
    let scratch = s.values(&vec![0u32; (COUNTER_BYTES + 3 * row_bytes) as usize / 4])?;
    let rotation = Rotation { table: &table, rotated_pairs: head.pairs, pairing: head.pairing };
    let norms =
        head.norms.then_some(HeadNorms { q: &q_weight, k: &k_weight, values: head.values, eps: 1e-6 });
    let variant = Variant::Split(Split::of(&k.policy().attention, k.subgroup_size(), k.caps(), shape)?);

    let run = |fused: bool| -> Result<(Host, [Slice; 2]), Failure> {
        let on = Placed::new(s, &host)?;
        let turned = s.output(SEQUENCES, widths[0] as usize)?;
        let [out, gated] =
            [0, 1].map(|_| s.output_as(SEQUENCES, (shape.heads * shape.value_size) as usize, head.layout));
        let (out, gated) = (out?, gated?);
        let cache = KvCache {
            k: &on.k,
            v: &on.v,
            kind: case.kind,
            kv_heads: shape.kv_heads,
            key_size: shape.key_size,
            value_size: shape.value_size,
            pages: &pages,
            max_pages: case.max_pages as u32,
        };
        let args = Args {
            q: if fused { q.mat() } else { turned.mat() },
            cache,
            heads: shape.heads,
            scale: rules.scale,
            softcap: rules.softcap,
            window: rules.window,
            sinks: sinks.as_ref(),
            row_info: &info,
            max_keys: longest(&case),
            scratch: &scratch,
            out: out.mat(),
            rows: SEQUENCES as u32,
            run: 1,
            precision: Precision::Exact,
        };
        s.run(|rec| {
            if fused {
                let args = DecodeArgs {
                    attention: args,
                    gated: head.gated,
                    k: keys.mat(),
                    v: v.mat(),
                    norms,
                    rotation,
                };
                return decode::record(k, rec, "decode attention", &args);
            }
            let (rows, row_info) = (SEQUENCES as u32, &info);
            let input = qk_norm_rope_kv::Args {
                q: q.mat(),
                gated: head.gated,
                k: keys.mat(),
                v: v.mat(),
                norms,
                rotation,
                cache,
                row_info,
                out: turned.mat(),
                rows,
            };
            qk_norm_rope_kv::record(k, rec, "qk_norm_rope_kv", &input)?;
            record_variant(k, rec, "attention", &args, &variant)?;
            if head.gated {
                let size = shape.key_size;
                let parts = Some(Parts { stride: 2 * size, first: size, len: size });
                let (x, gate, out) = (out.mat(), q.mat(), gated.mat());
                let args = sigmoid_gate::Args { x, gate, parts, out, rows };
                sigmoid_gate::record(k, rec, "sigmoid_gate", &args)?;
            }
            Ok(())
        })?;
        let result = if head.gated && !fused { &gated } else { &out };
        Ok((s.read(result)?, [on.k, on.v]))
    };
    let ((want, caches), (got, fused)) = (run(false)?, run(true)?);
    exactly(&format!("positions {positions:?}"), &got, &want)?;
    for (got, want) in fused.iter().zip(&caches) {
        same_bytes(&s.read_values(got)?, &s.read_values(want)?)?;
    }
    Ok(())
}

fn longest(case: &Case) -> u32 {
    case.max_pages as u32 * PAGE_TOKENS
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
