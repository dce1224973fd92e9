//! Attention against its oracle: lengths around block and page edges and beyond windows, rows of several sequences on scattered pages; and
//! bit for bit the same alone, in company, in passes, in tiles and in a larger grid. What a row must not read is NaN.

use super::attention::COUNTER_BYTES;
use super::reference::{Paged, Rules, attention as oracle};
use super::{AttentionPolicy, Shape, Split, Tile, Variant, attention, decode_suite, matrix_suite};
use crate::kv::suite::{blank, scattered_pages};
use crate::kv::{KvCache, KvType, PAGE_TOKENS};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use crate::{DeviceClass, Kernels, Policy, Precision, RowInfo};
use zinc_testkit::{Rng, tolerance::ATTENTION_REL};
use zinc_vulkan::Slice;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    [exact(kernels), decode_suite::suite(kernels), matrix_suite::suite(kernels)].concat()
}

/// The exact ways.
fn exact(kernels: &Kernels) -> Vec<CaseResult> {
    let mut results = cases(kernels, "attention", &[1, 15, 16, 17, 31, 32, 33, 64, 65, 128, 1000]);
    results.extend(chunks(kernels, "attention in tiles", usize::MAX));
    // The cards' constants run here too, whatever the device.
    let attention = AttentionPolicy::of(DeviceClass::Nvidia);
    if attention != kernels.policy().attention {
        let policy = Policy { attention, ..kernels.policy().clone() };
        let kernels = Kernels::with_policy(kernels.device(), policy);
        results.extend(cases(&kernels, "attention (card)", &[17, 64, 65]));
        results.extend(chunks(&kernels, "attention in tiles (card)", 2));
    }
    results
}

pub(super) fn shape(heads: u32, kv_heads: u32, key_size: u32, value_size: u32) -> Shape {
    Shape { heads, kv_heads, key_size, value_size }
}

fn cases(kernels: &Kernels, family: &'static str, windows: &[u32]) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, family);
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
        (shape(6, 2, 96, 64), KvType::Q8_0),
    ] {
        for (rules, name) in [(&plain, "plain"), (&all, "window, soft cap, sinks")] {
            let case = Case { shape, kind, rules: rules.clone(), max_pages: 24, tiles: false };
            suite.case(format!("{shape:?} {} {name}", kind.name()), |s| lengths(s, &case));
        }
    }
    let case = |rules: Rules| Case {
        shape: shape(4, 2, 64, 64),
        kind: KvType::F16,
        rules,
        max_pages: 24,
        tiles: true,
    };
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

/// Chunks of a sequence: numbers of rows around a tile's, after histories around a page's, and over several spans. Of the shapes
/// the first so many.
fn chunks(kernels: &Kernels, family: &'static str, shapes: usize) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, family);
    let plain = Rules { scale: 0.09, ..Default::default() };
    let all = Rules { softcap: Some(5.0), window: Some(40), sinks: Some(vec![]), ..plain.clone() };
    let sinks = Rules { sinks: Some(vec![]), ..plain.clone() };
    let wide = Rules { window: Some(700), ..all.clone() };
    for (at, (shape, kind, rules)) in [
        (shape(4, 1, 64, 64), KvType::F16, &all),
        (shape(3, 1, 128, 128), KvType::F16, &plain),
        (shape(1, 1, 16, 16), KvType::F16, &sinks),
        (shape(7, 1, 64, 64), KvType::F32, &plain),
        (shape(8, 1, 80, 40), KvType::F16, &all),
        (shape(4, 2, 256, 256), KvType::F16, &sinks),
        (shape(2, 1, 512, 512), KvType::F16, &plain),
        (shape(2, 1, 40, 8), KvType::F16, &sinks),
        (shape(2, 1, 8, 192), KvType::F32, &all),
        (shape(7, 1, 64, 96), KvType::Q8_0, &all),
    ]
    .into_iter()
    .enumerate()
    .take(shapes)
    {
        let case = Case { shape, kind, rules: rules.clone(), max_pages: 24, tiles: true };
        suite.case(format!("{shape:?} {}", kind.name()), |s| {
            let tile = s.tile(&shape)?.rows();
            let rows = [1, tile - 1, tile, tile + 1, 13, 3 * tile + 2].map(|r| r.clamp(1, 70));
            let histories = [0, 1, 15, 16, 17, 150];
            for i in 0..6 {
                chunk(s, &case, rows[i], histories[(i + at) % 6])?;
            }
            Ok(())
        });
    }
    for (name, rules) in [("plain", &sinks), ("window", &wide)] {
        let case = Case {
            shape: shape(2, 1, 32, 32),
            kind: KvType::F16,
            rules: rules.clone(),
            max_pages: 70,
            tiles: true,
        };
        suite.case(format!("several spans, {name}"), |s| {
            chunk(s, &case, 3, 507)?;
            chunk(s, &case, 7, 1020)?;
            chunk(s, &case, 4, 1100)
        });
    }
    suite.finish()
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub shape: Shape,
    pub kind: KvType,
    pub rules: Rules,
    /// Pages of a sequence at most.
    pub max_pages: usize,
    /// Also in tiles.
    pub tiles: bool,
}

pub(super) const SEQUENCES: usize = 3;

impl Suite<'_> {
    fn split(&self, shape: &Shape) -> Result<Variant, Failure> {
        let k = self.kernels();
        Ok(Variant::Split(Split::of(&k.policy().attention, k.subgroup_size(), k.caps(), shape)?))
    }

    /// A workgroup for each span, where the kernel can.
    fn spans(&self, shape: &Shape) -> Result<Option<Variant>, Failure> {
        let Variant::Split(split) = self.split(shape)? else { return Ok(None) };
        let whole = split.value_part == shape.value_size;
        Ok(whole.then_some(Variant::Split(Split { whole_spans: true, ..split })))
    }

    fn tile(&self, shape: &Shape) -> Result<Tile, Failure> {
        let (k, policy) = (self.kernels(), &self.kernels().policy().attention);
        Tile::of(&policy.tile, policy.key_block, k.subgroup_size(), k.caps(), shape)
            .ok_or_else(|| Failure(format!("no tile for {shape:?}")))
    }
}

/// A cache in which the first `lengths[s]` positions of sequence s hold values and everything else is NaN.
pub(super) fn cache(rng: &mut Rng, case: &Case, lengths: [u32; SEQUENCES]) -> Paged {
    let max_pages = case.max_pages;
    let pages = scattered_pages(rng, SEQUENCES, max_pages);
    let mut fill = |size: u32| {
        let mut of = blank(case.kind, case.shape.kv_heads as usize, size as usize, pages.len(), f32::NAN);
        for (sequence, &length) in lengths.iter().enumerate() {
            for position in 0..length {
                let row = RowInfo { position, sequence: sequence as u32, ..Default::default() };
                let heads = rng.normals((case.shape.kv_heads * size) as usize, 1.0);
                of.write(&pages, max_pages, row, &heads);
            }
        }
        of
    };
    let (k, v) = (fill(case.shape.key_size), fill(case.shape.value_size));
    Paged { k, v, pages, max_pages }
}

/// The paged cache on the device.
pub(super) struct Placed {
    pub k: Slice,
    pub v: Slice,
    pages: Slice,
}

impl Placed {
    pub(super) fn new(s: &Suite<'_>, host: &Paged) -> Result<Placed, Failure> {
        Ok(Placed {
            k: s.bytes(&host.k.bytes())?,
            v: s.bytes(&host.v.bytes())?,
            pages: s.values(&host.pages)?,
        })
    }
}

/// The case with random sinks where it has any.
pub(super) fn with_sinks(rng: &mut Rng, case: &Case) -> Case {
    let mut case = case.clone();
    case.rules.heads = case.shape.heads as usize;
    if let Some(sinks) = &mut case.rules.sinks {
        *sinks = rng.normals(case.rules.heads, 2.0);
    }
    case
}

pub(super) fn exactly(name: &str, got: &Host, want: &Host) -> Result<(), Failure> {
    compare(got, want, |_, _, _| 0.0).map_err(|f| Failure(format!("{name}: {}", f.0)))
}

fn check(case: &Case, host: &Paged, q: &Host, rows: &[RowInfo], got: &Host) -> Result<(), Failure> {
    let largest = host.v.data.iter().filter(|v| !v.is_nan()).fold(0f32, |m, v| m.max(v.abs()));
    let scores = case.rules.scale.max(1.0);
    compare(got, &oracle(q, host, &case.rules, rows), |_, _, _| ATTENTION_REL * largest * scores)
}

fn lengths(s: &Suite<'_>, case: &Case) -> Result<(), Failure> {
    let mut rng = s.rng();
    let case = with_sinks(&mut rng, case);
    let lengths = [case.max_pages as u32 * PAGE_TOKENS, 70, 1];
    let mut rows: Vec<RowInfo> = [0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 200, 255, 256, lengths[0] - 1]
        .map(|position| RowInfo { position, ..Default::default() })
        .to_vec();
    rows.insert(4, RowInfo { position: lengths[1] - 1, sequence: 1, ..Default::default() });
    rows.insert(9, RowInfo { position: 0, sequence: 2, ..Default::default() });
    let host = cache(&mut rng, &case, lengths);
    let on = Placed::new(s, &host)?;
    let q = Host::random(&mut rng, rows.len(), (case.shape.heads * case.shape.key_size) as usize, 1.0);

    let split = s.split(&case.shape)?;
    let run = |q: &Host, rows: &[RowInfo], max_keys: u32, at_once: usize, layout: Layout| {
        attend(s, &case, &on, q, rows, (&split, max_keys, at_once, layout))
    };
    let together = run(&q, &rows, lengths[0], rows.len(), Layout::Columns)?;
    check(&case, &host, &q, &rows, &together)?;

    exactly("in passes", &run(&q, &rows, lengths[0], 4, Layout::Columns)?, &together)?;
    exactly("a larger grid", &run(&q, &rows, 2 * lengths[0] + 5, rows.len(), Layout::Unaligned)?, &together)?;
    if let Some(spans) = s.spans(&case.shape)? {
        let whole = attend(s, &case, &on, &q, &rows, (&spans, lengths[0], rows.len(), Layout::Columns))?;
        exactly("a span a workgroup", &whole, &together)?;
    }
    if case.tiles {
        let tile = Variant::Tiled(s.tile(&case.shape)?);
        let tiled = attend(s, &case, &on, &q, &rows, (&tile, lengths[0], 1, Layout::Columns))?;
        exactly("in tiles", &tiled, &together)?;
    }
    for r in [0, 4, 9, rng.below(rows.len()), rows.len() - 1] {
        let one = Host { width: q.width, data: q.data[r * q.width..][..q.width].to_vec() };
        let alone = run(&one, &rows[r..=r], rows[r].position + 1, 1, Layout::Columns)?;
        let width = together.width;
        let want = Host { width, data: together.data[r * width..][..width].to_vec() };
        exactly(&format!("row {r} alone"), &alone, &want)?;
    }
    Ok(())
}

/// Rows of one sequence after a history, in tiles.
fn chunk(s: &Suite<'_>, case: &Case, count: u32, history: u32) -> Result<(), Failure> {
    let mut rng = s.rng();
    let case = with_sinks(&mut rng, case);
    let keys = history + count;
    let rows: Vec<RowInfo> =
        (history..keys).map(|position| RowInfo { position, sequence: 1, ..Default::default() }).collect();
    let host = cache(&mut rng, &case, [0, keys, 0]);
    let on = Placed::new(s, &host)?;
    let q = Host::random(&mut rng, rows.len(), (case.shape.heads * case.shape.key_size) as usize, 1.0);
    let run = |variant: &Variant, layout| {
        attend(s, &case, &on, &q, &rows, (variant, keys, rows.len(), layout))
            .map_err(|f| Failure(format!("{count} rows after {history} keys, {}: {}", variant.name(), f.0)))
    };
    let split = run(&s.split(&case.shape)?, Layout::Columns)?;
    let tile = Variant::Tiled(s.tile(&case.shape)?);
    let layout = [Layout::Columns, Layout::Unaligned][case.shape.heads as usize % 2];
    let name = format!("{count} rows after {history} keys, {layout:?}");
    let tiled = run(&tile, layout)?;
    exactly(&name, &tiled, &split)?;
    if let Some(spans) = s.spans(&case.shape)? {
        exactly("a span a workgroup", &run(&spans, Layout::Columns)?, &split)?;
    }
    check(&case, &host, &q, &rows, &tiled).map_err(|f| Failure(format!("{name}: {}", f.0)))
}

/// Runs attention with scratch for `at_once` rows, full of NaN. It must leave the counters at 0.
pub(super) fn attend(
    s: &Suite<'_>,
    case: &Case,
    on: &Placed,
    q: &Host,
    rows: &[RowInfo],
    (variant, max_keys, at_once, layout): (&Variant, u32, usize, Layout),
) -> Result<Host, Failure> {
    let (k, shape, rules) = (s.kernels(), &case.shape, &case.rules);
    let row_bytes = attention::scratch_bytes(k, shape, max_keys, rules.window).map_err(crate::Error::from)?;
    let counters = vec![0.0; COUNTER_BYTES as usize / 4];
    let scratch =
        s.values(&[counters.as_slice(), &vec![f32::NAN; row_bytes as usize / 4 * at_once]].concat())?;
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
            max_pages: case.max_pages as u32,
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
        run: 1,
        precision: Precision::Exact,
    };
    s.run(|rec| attention::record_variant(k, rec, "attention", &args, variant))?;
    let counters: Vec<u32> = s.read_values(&scratch.slice(0, COUNTER_BYTES)?)?;
    if counters.iter().any(|&c| c != 0) {
        return Err(Failure("counters are not 0 again".into()));
    }
    s.read(&out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::exact);
    }
}
