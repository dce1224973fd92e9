//! Attention on matrix cores against the oracle on what f16 holds of queries, keys and values; and bit for bit the same whatever rows are beside
//! a row. What no row may read is NaN.

use super::matrix::score_rule;
use super::reference::{Paged, Rules, attention as oracle};
use super::suite::{Case, Placed, SEQUENCES, attend, cache, exactly, shape, with_sinks};
use super::{AttentionPolicy, LanesTile, MatrixPolicy, MatrixTile, Variant, matrix_of};
use crate::kv::{KvType, PAGE_TOKENS};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite, compare};
use crate::{DeviceClass, Kernels, RowInfo};
use zinc_testkit::tolerance::ATTENTION_F16_REL;

/// Every case on matrix cores; where the device has none that can be used, that.
pub(super) fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "attention on matrices");
    let Some([_, n, k]) = matrix_of(kernels.caps()) else {
        suite.skip("the device has no cooperative matrices of f16 with sums in f32");
        return suite.finish();
    };
    let plain = Rules { scale: 0.09, ..Default::default() };
    let all = Rules { softcap: Some(5.0), window: Some(40), sinks: Some(vec![]), ..plain.clone() };
    let sinks = Rules { sinks: Some(vec![]), ..plain.clone() };
    let steep = Rules { scale: 20.0, ..sinks.clone() };
    // Little code, and several of everything: a software driver takes a second for each matrix product that it compiles.
    let small = MatrixPolicy {
        rows: 1,
        row_groups: 2,
        column_groups: 2,
        row_tiles: 1,
        keys: 2 * n,
        stage: 2 * k,
        value_keys: k,
        values: u32::MAX,
        shared_bytes: u32::MAX,
    };
    let tall = MatrixPolicy { row_tiles: 2, ..small };
    // Mesa 26's software driver lets all subgroups of a workgroup wait in a subgroup's barrier: only one of them may decide for itself there.
    let software = kernels.policy().class == DeviceClass::Software;
    let alone = MatrixPolicy { row_groups: if software { 1 } else { 2 }, column_groups: 1, ..small };
    let mut cases = vec![
        (shape(4, 1, 32, 32), KvType::F16, &all, small),
        (shape(3, 1, 64, 64), KvType::F16, &plain, small),
        (shape(1, 1, 16, 16), KvType::F16, &sinks, MatrixPolicy { row_tiles: 2, ..alone }),
        (shape(7, 1, 32, 32), KvType::F32, &plain, small),
        (shape(8, 1, 40, 24), KvType::F16, &all, tall),
        (shape(2, 2, 32, 32), KvType::F16, &steep, alone),
        (shape(2, 1, 8, 48), KvType::F32, &steep, small),
        (shape(4, 1, 32, 64), KvType::Q8_0, &all, small),
    ];
    if !software {
        for own in [kernels.policy().attention.matrix, AttentionPolicy::of(DeviceClass::Nvidia).matrix] {
            cases.extend([
                (shape(4, 1, 64, 64), KvType::F16, &steep, own),
                (shape(8, 2, 128, 128), KvType::F16, &plain, own),
                (shape(14, 2, 80, 40), KvType::F32, &all, own),
                (shape(4, 2, 256, 256), KvType::F16, &sinks, own),
                (shape(8, 2, 128, 128), KvType::Q8_0, &all, own),
                (shape(4, 1, 512, 512), KvType::F16, &all, own),
            ]);
        }
    }
    for (at, (shape, kind, rules, policy)) in cases.into_iter().enumerate() {
        let case = Case { shape, kind, rules: rules.clone(), max_pages: 24, tiles: true };
        suite.case(format!("{shape:?} {}, {policy:?}", kind.name()), |s| {
            let tile = tile(s, &policy, &case)?;
            all_rows(s, &case, (&Variant::Matrix(tile), tile.rows()), at)
        });
    }
    lanes(&mut suite, [&plain, &all, &sinks, &steep]);
    suite.finish()
}

/// Tiles whose weights stay in their lanes, where the device has such.
fn lanes(suite: &mut Suite<'_>, [plain, all, sinks, steep]: [&Rules; 4]) {
    let Some(policy) = suite.kernels().policy().attention.lanes else {
        return suite.skip("the device's lanes do not hold elements of matrices as known");
    };
    let cases = [
        (shape(8, 2, 128, 128), KvType::F16, plain),
        (shape(7, 1, 128, 64), KvType::F32, all),
        (shape(4, 1, 64, 64), KvType::F16, steep),
        (shape(3, 1, 16, 128), KvType::F16, sinks),
        (shape(5, 1, 80, 96), KvType::F16, all),
        (shape(9, 3, 64, 64), KvType::Q8_0, all),
        (shape(8, 2, 128, 128), KvType::Q8_0, sinks),
        (shape(71, 1, 32, 32), KvType::F16, plain),
    ];
    for (at, (shape, kind, rules)) in cases.into_iter().enumerate() {
        let case = Case { shape, kind, rules: rules.clone(), max_pages: 24, tiles: true };
        // A driver takes a second to compile each.
        let large = (at < 2).then_some(("large", 100_000));
        for (name, rows) in [("small", 1)].into_iter().chain(large) {
            suite.case(format!("{shape:?} {}, {name} tiles of lanes", kind.name()), |s| {
                let tile = LanesTile::of(&policy, s.kernels().caps(), &case.shape, rows);
                let tile = tile.ok_or_else(|| Failure(format!("no tile for {shape:?}")))?;
                all_rows(s, &case, (&Variant::Lanes(tile), tile.rows()), at)
            });
        }
    }
}

/// Chunks around the rows of a tile, each after another history, and rows in company.
fn all_rows(s: &Suite<'_>, case: &Case, by: (&Variant, u32), at: usize) -> Result<(), Failure> {
    let n = by.1;
    let rows = [1, n - 1, n, n + 1, 13, 3 * n + 2].map(|r| r.clamp(1, 70));
    let histories = [0, 1, 15, 16, 17, 150];
    for i in 0..6 {
        chunk(s, case, by.0, rows[i], histories[(i + at) % 6])?;
    }
    company(s, case, by.0)
}

fn tile(s: &Suite<'_>, policy: &MatrixPolicy, case: &Case) -> Result<MatrixTile, Failure> {
    let k = s.kernels();
    MatrixTile::of(policy, k.subgroup_size(), k.caps(), &case.shape)
        .ok_or_else(|| Failure(format!("no tile for {:?}", case.shape)))
}

/// The exact result for what the kernel multiplies: queries times the factor of their scores, keys and values, each rounded to f16.
fn rounded_oracle(case: &Case, host: &Paged, q: &Host, rows: &[RowInfo]) -> Host {
    let (factor, _) = score_rule(case.rules.scale, case.rules.softcap);
    let scaled: Vec<f32> = q.data.iter().map(|v| v * factor).collect();
    let q = Host { width: q.width, data: KvType::F16.rounded(&scaled) };
    let mut host = host.clone();
    for data in [&mut host.k.data, &mut host.v.data] {
        *data = KvType::F16.rounded(data);
    }
    let scale = case.rules.softcap.unwrap_or(std::f32::consts::LN_2);
    oracle(&q, &host, &Rules { scale, ..case.rules.clone() }, rows)
}

fn check(case: &Case, host: &Paged, q: &Host, rows: &[RowInfo], got: &Host) -> Result<(), Failure> {
    let largest = host.v.data.iter().filter(|v| !v.is_nan()).fold(0f32, |m, v| m.max(v.abs()));
    let allowed = ATTENTION_F16_REL * largest * case.rules.scale.max(1.0);
    compare(got, &rounded_oracle(case, host, q, rows), |_, _, _| allowed)
}

/// Rows of one sequence after a history.
fn chunk(s: &Suite<'_>, case: &Case, by: &Variant, count: u32, history: u32) -> Result<(), Failure> {
    let mut rng = s.rng();
    let case = with_sinks(&mut rng, case);
    let keys = history + count;
    let rows: Vec<RowInfo> =
        (history..keys).map(|position| RowInfo { position, sequence: 1, ..Default::default() }).collect();
    let host = cache(&mut rng, &case, [0, keys, 0]);
    let on = Placed::new(s, &host)?;
    let q = Host::random(&mut rng, rows.len(), (case.shape.heads * case.shape.key_size) as usize, 1.0);
    let layout = [Layout::Columns, Layout::Unaligned][case.shape.heads as usize % 2];
    let got = attend(s, &case, &on, &q, &rows, (by, keys, 1, layout))?;
    check(&case, &host, &q, &rows, &got)
        .map_err(|f| Failure(format!("{count} rows after {history} keys, {layout:?}: {}", f.0)))
}

/// Rows of several sequences at far positions; each also alone.
fn company(s: &Suite<'_>, case: &Case, by: &Variant) -> Result<(), Failure> {
    let mut rng = s.rng();
    let case = with_sinks(&mut rng, case);
    let lengths: [u32; SEQUENCES] = [case.max_pages as u32 * PAGE_TOKENS, 70, 1];
    let rows = [(0, 0), (0, 33), (0, lengths[0] - 1), (1, 69), (2, 0), (0, 64), (0, 65), (1, 3)]
        .map(|(sequence, position)| RowInfo { position, sequence, ..Default::default() });
    let host = cache(&mut rng, &case, lengths);
    let on = Placed::new(s, &host)?;
    let q = Host::random(&mut rng, rows.len(), (case.shape.heads * case.shape.key_size) as usize, 1.0);
    let run =
        |q: &Host, rows: &[RowInfo]| attend(s, &case, &on, q, rows, (by, lengths[0], 1, Layout::Columns));
    let together = run(&q, &rows)?;
    check(&case, &host, &q, &rows, &together).map_err(|f| Failure(format!("several sequences: {}", f.0)))?;
    for r in [1, 2, 3] {
        let one = Host { width: q.width, data: q.data[r * q.width..][..q.width].to_vec() };
        let width = together.width;
        let want = Host { width, data: together.data[r * width..][..width].to_vec() };
        exactly(&format!("row {r} alone"), &run(&one, &rows[r..=r])?, &want)?;
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
