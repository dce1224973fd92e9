//! Attention against its oracle: lengths around block and page edges and beyond windows, rows of several sequences on scattered pages; and
//! bit for bit the same alone, in company, in passes and in a larger grid. What a row must not read is NaN.

use super::reference::{Paged, Rules, attention as oracle};
use super::{AttentionPolicy, Shape, attention};
use crate::kv::suite::{blank, scattered_pages};
use crate::kv::{KvCache, KvType, PAGE_TOKENS};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use crate::{DeviceClass, Kernels, Policy, RowInfo};
use zinc_testkit::{Rng, tolerance::ATTENTION_REL};
use zinc_vulkan::Slice;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut results = cases(kernels, "attention", &[1, 15, 16, 17, 31, 32, 33, 64, 65, 128, 1000]);
    // The cards' constants run here too, whatever the device.
    let attention = AttentionPolicy::of(DeviceClass::Nvidia);
    if attention != kernels.policy().attention {
        let policy = Policy { attention, ..kernels.policy().clone() };
        results.extend(cases(
            &Kernels::with_policy(kernels.device(), policy),
            "attention (card)",
            &[17, 64, 65],
        ));
    }
    results
}

fn cases(kernels: &Kernels, family: &'static str, windows: &[u32]) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, family);
    let shape = |heads, kv_heads, key_size, value_size| Shape { heads, kv_heads, key_size, value_size };
    let plain = Rules { scale: 0.09, ..Default::default() };
    let all = Rules { softcap: Some(5.0), window: Some(40), sinks: Some(vec![]), ..plain.clone() };
    for (shape, kind) in [
        (shape(4, 2, 128, 128), KvType::F16),
        (shape(4, 2, 128, 128), KvType::F32),
        (shape(9, 3, 64, 64), KvType::F16),
        (shape(14, 2, 64, 64), KvType::F16),
        (shape(8, 1, 256, 256), KvType::F16),
        (shape(2, 1, 512, 512), KvType::F16),
        (shape(2, 2, 192, 128), KvType::F16),
        (shape(3, 3, 80, 40), KvType::F32),
    ] {
        for (rules, name) in [(&plain, "plain"), (&all, "window, soft cap, sinks")] {
            let case = Case { shape, kind, rules: rules.clone() };
            suite.case(format!("{shape:?} {} {name}", kind.name()), |s| lengths(s, &case));
        }
    }
    let case = |rules: Rules| Case { shape: shape(4, 2, 64, 64), kind: KvType::F16, rules };
    for &window in windows {
        let rules = Rules { window: Some(window), ..plain.clone() };
        suite.case(format!("window {window}"), |s| lengths(s, &case(rules)));
    }
    suite.case("a large soft cap argument", |s| {
        lengths(s, &case(Rules { softcap: Some(0.5), scale: 30.0, ..plain.clone() }))
    });
    suite.case("large scores", |s| lengths(s, &case(Rules { scale: 40.0, ..plain.clone() })));
    suite.finish()
}

#[derive(Debug, Clone)]
struct Case {
    shape: Shape,
    kind: KvType,
    rules: Rules,
}

const SEQUENCES: usize = 3;
const MAX_PAGES: usize = 24;

/// A cache in which the first `lengths[s]` positions of sequence s hold values and everything else is NaN.
fn cache(rng: &mut Rng, case: &Case, lengths: [u32; SEQUENCES]) -> Paged {
    let pages = scattered_pages(rng, SEQUENCES, MAX_PAGES);
    let mut fill = |size: u32| {
        let mut of = blank(case.kind, case.shape.kv_heads as usize, size as usize, pages.len(), f32::NAN);
        for (sequence, &length) in lengths.iter().enumerate() {
            for position in 0..length {
                let row = RowInfo { position, sequence: sequence as u32, ..Default::default() };
                let heads = rng.normals((case.shape.kv_heads * size) as usize, 1.0);
                of.write(&pages, MAX_PAGES, row, &heads);
            }
        }
        of
    };
    let (k, v) = (fill(case.shape.key_size), fill(case.shape.value_size));
    Paged { k, v, pages, max_pages: MAX_PAGES }
}

/// The paged cache on the device.
struct Placed {
    k: Slice,
    v: Slice,
    pages: Slice,
}

fn lengths(s: &Suite<'_>, case: &Case) -> Result<(), Failure> {
    let mut rng = s.rng();
    let mut case = case.clone();
    let heads = case.shape.heads as usize;
    case.rules.heads = heads;
    if let Some(sinks) = &mut case.rules.sinks {
        *sinks = rng.normals(heads, 2.0);
    }
    let lengths = [MAX_PAGES as u32 * PAGE_TOKENS, 70, 1];
    let mut rows: Vec<RowInfo> = [0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 200, 255, 256, lengths[0] - 1]
        .map(|position| RowInfo { position, ..Default::default() })
        .to_vec();
    rows.insert(4, RowInfo { position: lengths[1] - 1, sequence: 1, ..Default::default() });
    rows.insert(9, RowInfo { position: 0, sequence: 2, ..Default::default() });
    let host = cache(&mut rng, &case, lengths);
    let on =
        Placed { k: s.bytes(&host.k.bytes())?, v: s.bytes(&host.v.bytes())?, pages: s.values(&host.pages)? };
    let q = Host::random(&mut rng, rows.len(), heads * case.shape.key_size as usize, 1.0);

    let run = |q: &Host, rows: &[RowInfo], max_keys: u32, at_once: usize, layout: Layout| {
        attend(s, &case, &on, q, rows, (max_keys, at_once, layout))
    };
    let together = run(&q, &rows, lengths[0], rows.len(), Layout::Columns)?;
    let largest = host.v.data.iter().filter(|v| !v.is_nan()).fold(0f32, |m, v| m.max(v.abs()));
    let scores = case.rules.scale.max(1.0);
    compare(&together, &oracle(&q, &host, &case.rules, &rows), |_, _, _| ATTENTION_REL * largest * scores)?;

    let exactly = |name: &str, got: &Host, want: &Host| {
        compare(got, want, |_, _, _| 0.0).map_err(|f| Failure(format!("{name}: {}", f.0)))
    };
    exactly("in passes", &run(&q, &rows, lengths[0], 4, Layout::Columns)?, &together)?;
    exactly("a larger grid", &run(&q, &rows, 2 * lengths[0] + 5, rows.len(), Layout::Unaligned)?, &together)?;
    for r in [0, 4, 9, rng.below(rows.len()), rows.len() - 1] {
        let one = Host { width: q.width, data: q.data[r * q.width..][..q.width].to_vec() };
        let alone = run(&one, &rows[r..=r], rows[r].position + 1, 1, Layout::Columns)?;
        let width = together.width;
        let want = Host { width, data: together.data[r * width..][..width].to_vec() };
        exactly(&format!("row {r} alone"), &alone, &want)?;
    }
    Ok(())
}

/// Runs attention with scratch for `at_once` rows, full of NaN.
fn attend(
    s: &Suite<'_>,
    case: &Case,
    on: &Placed,
    q: &Host,
    rows: &[RowInfo],
    (max_keys, at_once, layout): (u32, usize, Layout),
) -> Result<Host, Failure> {
    let (k, shape, rules) = (s.kernels(), &case.shape, &case.rules);
    let row_bytes = attention::scratch_bytes(k, shape, max_keys, rules.window).map_err(crate::Error::from)?;
    let scratch = s.values(&vec![f32::NAN; row_bytes as usize / 4 * at_once])?;
    let q_on = s.upload_as(q, layout)?;
    let out = s.output_as(rows.len(), (shape.heads * shape.value_size) as usize, layout)?;
    let info = s.values(rows)?;
    let sinks = rules.sinks.as_ref().map(|sinks| s.values(sinks)).transpose()?;
    let args = attention::Args {
        q: q_on.mat(),
        cache: KvCache {
            k: &on.k,
            v: &on.v,
            kind: case.kind,
            kv_heads: shape.kv_heads,
            key_size: shape.key_size,
            value_size: shape.value_size,
            pages: &on.pages,
            max_pages: MAX_PAGES as u32,
        },
        heads: shape.heads,
        scale: rules.scale,
        softcap: rules.softcap,
        window: rules.window,
        sinks: sinks.as_ref(),
        row_info: &info,
        max_keys,
        scratch: &scratch,
        out: out.mat(),
        rows: rows.len() as u32,
    };
    s.run(|rec| attention::record(k, rec, "attention", &args))?;
    s.read(&out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
