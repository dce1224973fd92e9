//! The KV write against its oracle: every byte of the cache, rows of several sequences on scattered pages.

use super::reference::HostCache;
use super::{KvCache, KvType, PAGE_TOKENS, kv_write};
use crate::suite::{CaseResult, Failure, Host, Layout, Suite};
use crate::{Kernels, RowInfo};
use zinc_testkit::Rng;

/// Every case of this family.
pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
    let mut suite = Suite::new(kernels, "kv");
    for kind in KvType::ALL {
        for (kv_heads, key_size, value_size) in
            [(1, 64, 64), (2, 128, 128), (3, 8, 24), (4, 192, 128), (1, 512, 512)]
        {
            if ![key_size, value_size].iter().all(|s: &usize| s.is_multiple_of(kind.unit() as usize)) {
                continue;
            }
            for (rows, layout) in [(1, Layout::Columns), (17, Layout::Columns), (5, Layout::Unaligned)] {
                let name =
                    format!("kv_write {} {kv_heads} x {key_size}/{value_size}, {rows} rows", kind.name());
                suite.case(name, |s| write(s, kind, kv_heads, [key_size, value_size], rows, layout));
            }
        }
    }
    suite.case("conversion to f16", |s| conversion(s, KvType::F16, &halves(&mut s.rng())));
    suite.case("conversion to q8_0", |s| conversion(s, KvType::Q8_0, &blocks(&mut s.rng())));
    suite.finish()
}

/// Page tables of sequences with pages in random order, and as many more pages that no table names.
pub(crate) fn scattered_pages(rng: &mut Rng, sequences: usize, max_pages: usize) -> Vec<u32> {
    let mut pages: Vec<u32> = (0..2 * (sequences * max_pages) as u32).collect();
    for i in (1..pages.len()).rev() {
        pages.swap(i, rng.below(i + 1));
    }
    pages.truncate(sequences * max_pages);
    pages
}

/// A cache full of a value that no test writes.
pub(crate) fn blank(kind: KvType, kv_heads: usize, size: usize, pages: usize, value: f32) -> HostCache {
    let data = vec![value; 2 * pages * kv_heads * PAGE_TOKENS as usize * size];
    HostCache { kind, kv_heads, size, data }
}

/// Rows of two sequences at different positions.
pub(crate) fn some_rows(rng: &mut Rng, rows: usize, positions: usize) -> Vec<RowInfo> {
    let start = rng.below(positions - rows / 2);
    (0..rows)
        .map(|r| RowInfo { token: 7, position: (start + r / 2) as u32, sequence: (r % 2) as u32, flags: 0 })
        .collect()
}

fn write(
    s: &Suite<'_>,
    kind: KvType,
    kv_heads: usize,
    sizes: [usize; 2],
    rows: usize,
    layout: Layout,
) -> Result<(), Failure> {
    let mut rng = s.rng();
    let max_pages = 3;
    let pages = scattered_pages(&mut rng, 2, max_pages);
    let info = some_rows(&mut rng, rows, max_pages * PAGE_TOKENS as usize);
    let heads = sizes.map(|size| Host::random(&mut rng, rows, kv_heads * size, 1.0));
    let mut want = sizes.map(|size| blank(kind, kv_heads, size, pages.len(), -7.0));
    let on = [s.bytes(&want[0].bytes())?, s.bytes(&want[1].bytes())?];
    let (k, v) = (s.upload_as(&heads[0], layout)?, s.upload_as(&heads[1], layout)?);
    let (pages_on, info_on) = (s.values(&pages)?, s.values(&info)?);
    let cache = KvCache {
        k: &on[0],
        v: &on[1],
        kind,
        kv_heads: kv_heads as u32,
        key_size: sizes[0] as u32,
        value_size: sizes[1] as u32,
        pages: &pages_on,
        max_pages: max_pages as u32,
    };
    let args = kv_write::Args { k: k.mat(), v: v.mat(), cache, row_info: &info_on, rows: rows as u32 };
    s.run(|rec| kv_write::record(s.kernels(), rec, "kv_write", &args))?;
    for ((want, heads), on) in want.iter_mut().zip(&heads).zip(&on) {
        for (&row, heads) in info.iter().zip(heads.rows()) {
            want.write(&pages, max_pages, row, heads);
        }
        same_bytes(&s.read_values(on)?, &want.bytes())?;
    }
    Ok(())
}

pub(crate) fn same_bytes(got: &[u8], want: &[u8]) -> Result<(), Failure> {
    match got.iter().zip(want).position(|(a, b)| a != b) {
        None if got.len() == want.len() => Ok(()),
        None => Err(format!("{} bytes, {} expected", got.len(), want.len()).into()),
        Some(i) => Err(format!("byte {i} of the cache is {:#x}, {:#x} expected", got[i], want[i]).into()),
    }
}

/// Ties, subnormals, both ends of the range, infinities: rounded to nearest, ties to even.
fn halves(rng: &mut Rng) -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0,
        -1.0 - 1.0 / 2048.0,
        65504.0,
        65519.996,
        65520.0,
        70000.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        6.1035156e-5,
        6.1e-5,
        5.9604645e-8,
        2.9802322e-8,
        2.9802326e-8,
        -8.940697e-8,
        1e-10,
    ];
    values.extend((0..1024 - values.len()).map(|i| rng.normal() * 2f32.powi((i % 40) as i32 - 26)));
    values
}

/// Blocks whose scales are 1, no power of two, near the ends of f16's range and beyond them, 0 and no number; codes that are ties among them.
fn blocks(rng: &mut Rng) -> Vec<f32> {
    let ties = |largest: f32| {
        (0..32).map(move |i| if i == 0 { largest } else { (i as f32 - 16.5) * largest / 127.0 })
    };
    let random = |rng: &mut Rng, largest: f32| -> Vec<f32> {
        let mut block = rng.normals(32, largest / 4.0);
        block[rng.below(32)] = -largest;
        block
    };
    let mut values: Vec<f32> = [127.0, -254.0, 3.0, 1e-3].into_iter().flat_map(ties).collect();
    for largest in
        [0.0, 1e-38, 1e-6, 3.78e-6, 3.79e-6, 7e-5, 7.7e-3, 8.31e6, 8.32e6, 1e30, f32::INFINITY, f32::NAN]
    {
        values.extend(random(rng, largest));
    }
    values.resize_with(1024, || 0.0);
    for i in 16..32 {
        let largest = (1.0 + rng.normal().abs()) * 2f32.powi(2 * i - 40);
        values[i as usize * 32..][..32].copy_from_slice(&random(rng, largest));
    }
    values
}

/// A head of 1,024 values as the device stores it.
fn conversion(s: &Suite<'_>, kind: KvType, values: &[f32]) -> Result<(), Failure> {
    let mut want = blank(kind, 1, 1024, 1, 3.0);
    let (k, v) = (s.bytes(&want.bytes())?, s.bytes(&want.bytes())?);
    let row = RowInfo { position: 5, ..Default::default() };
    let (pages, info) = (s.values(&[0u32])?, s.values(&[row])?);
    let x = s.upload(&Host { width: 1024, data: values.to_vec() })?;
    let cache = KvCache {
        k: &k,
        v: &v,
        kind,
        kv_heads: 1,
        key_size: 1024,
        value_size: 1024,
        pages: &pages,
        max_pages: 1,
    };
    let args = kv_write::Args { k: x.mat(), v: x.mat(), cache, row_info: &info, rows: 1 };
    s.run(|rec| kv_write::record(s.kernels(), rec, "kv_write", &args))?;
    want.write(&[0], 1, row, values);
    same_bytes(&s.read_values(&k)?, &want.bytes())?;
    same_bytes(&s.read_values(&v)?, &want.bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn suite_passes() {
        crate::suite::assert_suite(super::suite);
    }
}
