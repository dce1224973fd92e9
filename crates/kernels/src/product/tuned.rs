//! Kernels and tiles of fast products that were measured on a device, in place of its policy's.

use super::{BenchShape, Chooser, Product, bench, select};
use crate::gemv::{Cut, ProductClass, TuneShape};
use crate::{DotShape, Error, Kernels, Policy, Precision, dot, gemm, slices};
use std::collections::BTreeMap;
use zinc_vulkan::Capabilities;

/// Which kernel takes a product of a class, by number of columns, and how it is cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastTiles {
    classes: BTreeMap<ProductClass, Vec<(u32, Product)>>,
}

impl FastTiles {
    /// Sets what takes products of a class: each entry those with at most so many columns and more than the one before.
    pub fn insert(&mut self, class: ProductClass, mut products: Vec<(u32, Product)>) {
        products.sort_by_key(|p| p.0);
        if !products.is_empty() {
            self.classes.insert(class, products);
        }
    }

    /// What was measured for a product of so many columns, where the device can do it.
    pub fn product(
        &self,
        caps: &Capabilities,
        policy: &Policy,
        class: &ProductClass,
        columns: u32,
    ) -> Option<Product> {
        let (_, product) = self.classes.get(class)?.iter().find(|(up_to, _)| columns <= *up_to)?;
        let fits = match product {
            // The exact kernel is not measured here.
            Product::Columns(_) => false,
            Product::Dot(tile) => dot::fits(caps, policy, class, columns, tile),
            Product::Slices(tile) => slices::fits(caps, policy, class, columns, tile),
            Product::Gemm(tile) => gemm::fits(caps, policy, class, columns, tile),
        };
        fits.then_some(*product)
    }

    /// All classes that were measured.
    pub fn classes(&self) -> impl Iterator<Item = &ProductClass> {
        self.classes.keys()
    }

    /// The products of a class, each for at most so many columns; none where it was not measured.
    pub fn products(&self, class: &ProductClass) -> &[(u32, Product)] {
        self.classes.get(class).map_or(&[], Vec::as_slice)
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastResult {
    /// The fastest kernel and tile; the policy's own where no other is clearly faster.
    pub product: Product,
    /// Its microseconds, with the conversion of its columns where it needs one.
    pub us: f64,
    /// Those of the policy's own.
    pub policy_us: f64,
    /// How many were measured.
    pub tried: usize,
}

/// Another product than the policy's must take less than this part of its time.
const CLEARLY: f64 = 0.97;

/// Tiles of f16 factors that are measured: those of which the policy's model of costs expects most.
const LIKELY: usize = 10;

/// Looks for a faster kernel or tile than the policy's under [`Precision::Fast`]. Lanes and bytes of integer dots stay.
///
/// # Errors
/// As [`select`] and [`bench`], of the policy's own. Others that do not fit the device are left out.
pub fn tune_fast(kernels: &Kernels, t: &TuneShape) -> Result<FastResult, Error> {
    let (caps, policy) = (kernels.caps(), kernels.policy());
    let by = Chooser { caps, policy, precision: Precision::Fast, cut: &Cut::Policy };
    let own = select(&by, &t.class, t.columns)?;
    let policy_us = time(kernels, t, own)?;
    let mut search = Search { kernels, t, best: (own, policy_us), measured: vec![own] };
    search.dots();
    if t.columns > 1 {
        let tiles = slices::candidates(caps, policy, &t.class, t.columns);
        tiles.into_iter().for_each(|tile| search.offer(Product::Slices(tile)));
        let tiles = gemm::likely(policy, caps, &t.class, t.columns, LIKELY);
        let wanted: Vec<_> = tiles.iter().map(|&tile| (t.columns, tile)).collect();
        gemm::Bench::prepare(kernels, &t.class, &wanted);
        tiles.into_iter().for_each(|tile| search.offer(Product::Gemm(tile)));
    }
    let (product, us) = if search.best.1 > CLEARLY * policy_us { (own, policy_us) } else { search.best };
    Ok(FastResult { product, us, policy_us, tried: search.measured.len() })
}

struct Search<'a> {
    kernels: &'a Kernels,
    t: &'a TuneShape,
    best: (Product, f64),
    measured: Vec<Product>,
}

impl Search<'_> {
    /// Integer dots: one property after the other, each at its best before the next.
    fn dots(&mut self) {
        let (kernels, t) = (self.kernels, self.t);
        let (caps, policy) = (kernels.caps(), kernels.policy());
        if dot::select(caps, policy, &t.class, t.columns).is_err() {
            return;
        }
        let mut shape = *policy.dot.shape(t.columns);
        let mut busy = policy.dot.busy_groups;
        for property in 0..4 {
            let wide = |n: u32| DotShape {
                subgroups: n,
                long_subgroups: n,
                long_gated: [shape.long_gated[0], n],
                ..shape
            };
            let tall =
                |rows: u32| DotShape { rows, long_gated: [rows.div_ceil(2), shape.long_gated[1]], ..shape };
            let others: Vec<(DotShape, u32)> = match property {
                0 => [4, 8, 16, 32].map(|n| (wide(n), busy)).to_vec(),
                1 => [1, 2, 4].map(|rows| (tall(rows), busy)).to_vec(),
                2 => [busy / 2, busy, busy * 2, busy * 4].map(|busy| (shape, busy)).to_vec(),
                _ => vec![(DotShape { ahead: !shape.ahead, ..shape }, busy)],
            };
            for (other, groups) in others {
                let before = self.best.1;
                let mut policy = policy.clone();
                policy.dot.busy_groups = groups.max(1);
                self.offer(Product::Dot(dot::shaped(&policy, &other, &t.class, t.columns)));
                if self.best.1 < before {
                    (shape, busy) = (other, groups.max(1));
                }
            }
        }
    }

    /// Measures a product that was not yet, and that the device has room for.
    fn offer(&mut self, product: Product) {
        if self.measured.contains(&product) {
            return;
        }
        let Ok(us) = time(self.kernels, self.t, product) else { return };
        self.measured.push(product);
        if us < self.best.1 {
            self.best = (product, us);
        }
    }
}

/// Microseconds of a product that waits for the one before it, with the conversion of its columns.
fn time(kernels: &Kernels, t: &TuneShape, product: Product) -> Result<f64, Error> {
    let &TuneShape { class, columns, rotate_bytes, warm_up } = t;
    let repeats = 3;
    if let Product::Gemm(tile) = product {
        let timing =
            gemm::Bench::new(kernels, class, columns, rotate_bytes)?.time(&tile, repeats, warm_up)?;
        return Ok(timing.median_us + timing.convert_us);
    }
    Ok(bench(kernels, &BenchShape { class, columns, product, rotate_bytes, repeats, warm_up })?.alone_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zinc_quant::by_name;

    #[test]
    fn what_was_measured_is_taken_up_to_its_columns_where_it_fits() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let (caps, policy) = (kernels.caps(), kernels.policy());
        let format = by_name("Q8_0").expect("a format of the list");
        let class = ProductClass { format, m: 64, k: 256, gated: false };
        let t = TuneShape { class, columns: 4, rotate_bytes: 9000, warm_up: Duration::from_millis(1) };
        let found = tune_fast(&kernels, &t).unwrap();
        assert!(found.tried > 4 && found.us <= found.policy_us, "{found:?}");
        let mut tiles = FastTiles::default();
        tiles.insert(class, vec![(4, found.product)]);
        assert_eq!(tiles.product(caps, policy, &class, 3), Some(found.product));
        assert_eq!(tiles.product(caps, policy, &class, 5), None);
        let Ok(tile) = dot::select(caps, policy, &class, 4) else { return };
        for wrong in [dot::Tile { bytes: 3 - tile.bytes, ..tile }, dot::Tile { subgroups: 4096, ..tile }] {
            tiles.insert(class, vec![(4, Product::Dot(wrong))]);
            assert_eq!(tiles.product(caps, policy, &class, 4), None, "{wrong:?}");
        }
    }
}
