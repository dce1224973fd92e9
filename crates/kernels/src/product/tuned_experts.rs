//! Products of experts that were measured on a device: how slots are grouped, and which kernel and tile takes them.
//!
//! The products of a choice read the same lists, so their groups are equally wide: a width is as good as all of a model's products together are with it.

use super::{Chooser, Product, group, select_experts};
use crate::gemv::{Cut, ProductClass};
use crate::moe::{Bench, BenchShape, Grouping};
use crate::{Error, GemvShape, Kernels, Precision, dot, gemm, gemv};
use std::collections::BTreeMap;
use std::time::Duration;

/// A product of an expert, and how many there are and are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpertClass {
    /// The product of one expert.
    pub class: ProductClass,
    /// Experts to choose from.
    pub experts: u32,
    /// Experts that a row uses.
    pub top_k: u32,
}

/// What takes a product in steps of at most so many rows, and more than half of them: with fewer an expert has other numbers of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertTile {
    /// Rows.
    pub rows: u32,
    /// Slots of a group.
    pub slots: u32,
    /// The kernel and its tile.
    pub product: Product,
}

/// What was measured, by class and by whether inexact kernels were allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpertTiles {
    classes: BTreeMap<(ExpertClass, bool), Vec<ExpertTile>>,
}

impl ExpertTiles {
    /// Sets what takes a class.
    pub fn insert(&mut self, class: ExpertClass, precision: Precision, mut tiles: Vec<ExpertTile>) {
        tiles.sort_by_key(|t| t.rows);
        if !tiles.is_empty() {
            self.classes.insert((class, precision == Precision::Fast), tiles);
        }
    }

    /// All that was measured.
    pub fn iter(&self) -> impl Iterator<Item = (&ExpertClass, Precision, &[ExpertTile])> {
        self.classes.iter().map(|((class, fast), tiles)| {
            (class, if *fast { Precision::Fast } else { Precision::Exact }, tiles.as_slice())
        })
    }

    fn entry(&self, by: &Chooser<'_>, class: ExpertClass, rows: u32) -> Option<&ExpertTile> {
        let tiles = self.classes.get(&(class, by.precision == Precision::Fast))?;
        tiles.iter().find(|t| rows <= t.rows).filter(|t| rows > t.rows / 2)
    }

    /// How the slots of a choice are grouped, where all products that read it were measured and agree.
    pub(super) fn grouping(
        &self,
        by: &Chooser<'_>,
        classes: &[ProductClass],
        own: &Grouping,
    ) -> Option<Grouping> {
        let &Grouping { experts, top_k, rows, .. } = own;
        let entry = |&class: &ProductClass| self.entry(by, ExpertClass { class, experts, top_k }, rows);
        let grouping = of_slots(own, entry(classes.first()?)?.slots)?;
        classes.iter().all(|class| self.product(by, class, &grouping).is_some()).then_some(grouping)
    }

    /// What takes a product of slots that are grouped so, where the device can do it.
    pub(super) fn product(&self, by: &Chooser<'_>, class: &ProductClass, g: &Grouping) -> Option<Product> {
        let key = ExpertClass { class: *class, experts: g.experts, top_k: g.top_k };
        let tile = self.entry(by, key, g.rows)?;
        (tile.slots == g.columns() && fits(by, class, g, &tile.product)).then_some(tile.product)
    }
}

/// The slots of a batch in groups of another width; a single row's are not packed.
fn of_slots(own: &Grouping, slots: u32) -> Option<Grouping> {
    match own.rows {
        1 => (slots == own.columns()).then_some(*own),
        rows => Grouping::tiled(slots, own.experts, own.top_k, rows).ok(),
    }
}

/// Whether it is a product that the device can do, with the results of the policy's own.
fn fits(by: &Chooser<'_>, class: &ProductClass, g: &Grouping, product: &Product) -> bool {
    let fast = by.precision == Precision::Fast;
    match product {
        Product::Columns(tile) => gemv::fits_experts(by.policy, class, g, tile),
        Product::Dot(tile) => {
            fast && tile.columns == g.columns() && dot::fits(by.caps, by.policy, class, g.columns(), tile)
        }
        Product::Gemm(tile) => fast && gemm::fits_experts(by, class, g, tile),
        Product::Slices(_) => false,
    }
}

/// What to find tiles for: all products of experts of a model's steps of so many rows.
#[derive(Debug, Clone)]
pub struct ExpertShape {
    /// The products, of a row's experts each.
    pub classes: Vec<ProductClass>,
    /// Experts to choose from.
    pub experts: u32,
    /// Experts that a row uses.
    pub top_k: u32,
    /// Rows.
    pub rows: u32,
    /// What is allowed.
    pub precision: Precision,
    /// Work before a measurement counts.
    pub warm_up: Duration,
}

/// What was found for a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertResult {
    /// The product.
    pub class: ProductClass,
    /// What takes it best beside the others; the policy's own where all of them together are not clearly faster in another way.
    pub tile: ExpertTile,
    /// Its microseconds, with the conversion of its rows and its share of the packing.
    pub us: f64,
    /// Those of the policy's own.
    pub policy_us: f64,
    /// How many ways were measured.
    pub tried: usize,
}

/// Other ways than the policy's must take less than this part of its time.
const CLEARLY: f64 = 0.97;
/// Rounds over all choices that count.
const REPEATS: u32 = 3;
/// Widths of groups.
const SLOTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Looks for faster ways than the policy's: of each width of groups the best tile of every product, then the best width for all.
///
/// # Errors
/// [`Unsupported`](crate::Unsupported) where the policy has no way, else what the device says.
pub fn tune_experts(kernels: &Kernels, t: &ExpertShape) -> Result<Vec<ExpertResult>, Error> {
    let (caps, policy) = (kernels.caps(), kernels.policy());
    let by = Chooser { caps, policy, precision: t.precision, cut: &Cut::Policy };
    let own = group(&by, &t.classes, t.experts, t.top_k, t.rows)?;
    // Around the slots of an expert in the mean.
    let near = |slots: &u32| (own.mean() / 2..=4 * own.mean()).contains(slots) && *slots != own.columns();
    let mut groupings = vec![own];
    groupings.extend(SLOTS.into_iter().filter(near).filter_map(|slots| of_slots(&own, slots)));
    let mut searches = Vec::new();
    for &class in &t.classes {
        let &ExpertShape { experts, top_k, rows, .. } = t;
        let shape = BenchShape { class, experts, top_k, rows, parts: !class.gated };
        let bench = Bench::new(kernels, shape)?;
        let first = (own, select_experts(&by, &class, &own)?);
        let mut search = Search { by: &by, class, t, bench: &bench, tried: Vec::new() };
        let policy_us = search.time(own, first.1)?;
        let best: Vec<Option<(Product, f64)>> = groupings.iter().map(|g| search.best(g)).collect();
        searches.push((first.1, policy_us, best, search.tried.len()));
    }
    let total = |i: usize| searches.iter().map(|s| s.2[i].map(|b| b.1)).sum::<Option<f64>>();
    let all = (0..groupings.len()).filter_map(|i| Some((i, total(i)?)));
    let policy_us: f64 = searches.iter().map(|s| s.1).sum();
    let chosen = all.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|best| best.1 <= CLEARLY * policy_us);
    let results = t.classes.iter().zip(searches).map(|(&class, (product, policy_us, best, tried))| {
        let found = chosen.and_then(|(i, _)| Some((groupings[i], best[i]?)));
        let (g, (product, us)) = found.unwrap_or((own, (product, policy_us)));
        let tile = ExpertTile { rows: t.rows, slots: g.columns(), product };
        ExpertResult { class, tile, us, policy_us, tried }
    });
    Ok(results.collect())
}

struct Search<'a> {
    by: &'a Chooser<'a>,
    class: ProductClass,
    t: &'a ExpertShape,
    bench: &'a Bench<'a>,
    /// What was measured, and its microseconds.
    tried: Vec<(Grouping, Product, f64)>,
}

impl Search<'_> {
    fn time(&mut self, g: Grouping, product: Product) -> Result<f64, Error> {
        if let Some(known) = self.tried.iter().find(|t| (t.0, t.1) == (g, product)) {
            return Ok(known.2);
        }
        let timing = self.bench.time((g, product), REPEATS, self.t.warm_up)?;
        let us = timing.median_us + timing.convert_us + timing.pack_us / self.t.classes.len() as f64;
        self.tried.push((g, product, us));
        Ok(us)
    }

    /// The fastest product of slots that are grouped so; none where there is none.
    fn best(&mut self, g: &Grouping) -> Option<(Product, f64)> {
        let mut best: Option<(Product, f64)> = None;
        if self.by.precision == Precision::Fast {
            self.dots(g, &mut best);
            let tiles = gemm::expert_tiles(self.by, &self.class, g);
            let ways: Vec<_> = tiles.into_iter().map(|tile| (*g, Product::Gemm(tile))).collect();
            self.bench.prepare(&ways);
            ways.into_iter().for_each(|way| _ = self.offer(way.0, way.1, &mut best));
        }
        if best.is_none() {
            self.columns(g, &mut best);
        }
        best
    }

    /// Measures a product; whether it is the fastest so far. What the device has no room for is no candidate.
    fn offer(&mut self, g: Grouping, product: Product, best: &mut Option<(Product, f64)>) -> bool {
        if !fits(self.by, &self.class, &g, &product) {
            return false;
        }
        let Ok(us) = self.time(g, product) else { return false };
        let faster = best.is_none_or(|b| us < b.1);
        if faster {
            *best = Some((product, us));
        }
        faster
    }

    /// Integer dots: subgroups, then rows, then loads ahead.
    fn dots(&mut self, g: &Grouping, best: &mut Option<(Product, f64)>) {
        let (policy, class) = (self.by.policy, self.class);
        let Ok(own) = dot::select_experts(self.by.caps, policy, &class, g) else { return };
        self.offer(*g, Product::Dot(own), best);
        let mut shape = *policy.dot.shape(g.columns());
        for property in 0..3 {
            let others = match property {
                0 => [4, 8, 16]
                    .map(|n| crate::DotShape {
                        subgroups: n,
                        long_subgroups: n,
                        long_gated: [shape.long_gated[0], n],
                        ..shape
                    })
                    .to_vec(),
                1 => [1, 2, 4].map(|rows| crate::DotShape { rows, ..shape }).to_vec(),
                _ => vec![crate::DotShape { ahead: !shape.ahead, ..shape }],
            };
            for other in others {
                let tile = dot::shaped_experts(policy, &other, &class, g);
                if self.offer(*g, Product::Dot(tile), best) {
                    shape = other;
                }
            }
        }
    }

    /// The exact kernel: subgroups, then rows, then what is staged.
    fn columns(&mut self, g: &Grouping, best: &mut Option<(Product, f64)>) {
        let (policy, class) = (self.by.policy, self.class);
        let mut shape = *policy.gemv.shape(g.columns(), class.gated);
        for property in 0..3 {
            let others = match property {
                0 => [2, 4, 8].map(|subgroups| GemvShape { subgroups, ..shape }).to_vec(),
                1 => [1, 2, 4].map(|rows| GemvShape { rows, ..shape }).to_vec(),
                _ => [0, 17 << 10].map(|stage_bytes| GemvShape { stage_bytes, ..shape }).to_vec(),
            };
            for other in std::iter::once(shape).chain(others) {
                let Ok(tile) = gemv::shaped_experts(policy, &other, &class, g) else { continue };
                if self.offer(*g, Product::Columns(tile), best) {
                    shape = other;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemv::Tuned;
    use std::sync::Arc;
    use zinc_quant::by_name;

    #[test]
    fn what_was_measured_is_taken_for_about_as_many_rows() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let format = by_name("Q8_0").expect("a format of the list");
        let class = |m, k, gated| ProductClass { format, m, k, gated };
        let classes = vec![class(16, 64, true), class(64, 32, false)];
        for (precision, rows) in [(Precision::Exact, 1), (Precision::Fast, 1)] {
            let warm_up = Duration::from_millis(1);
            let t = ExpertShape { classes: classes.clone(), experts: 8, top_k: 2, rows, precision, warm_up };
            let found = tune_experts(&kernels, &t).unwrap();
            let (us, policy_us) = found.iter().fold((0.0, 0.0), |sum, r| (sum.0 + r.us, sum.1 + r.policy_us));
            assert!(us <= policy_us && found.iter().all(|r| r.tried > 2), "{found:?}");
            assert_eq!(found[0].tile.slots, found[1].tile.slots);

            let mut tuned = Tuned::default();
            for r in &found {
                let of = ExpertClass { class: r.class, experts: 8, top_k: 2 };
                tuned.experts.insert(of, precision, vec![r.tile]);
            }
            let (caps, policy, cut) = (kernels.caps(), kernels.policy(), Cut::Tuned(Arc::new(tuned)));
            let by = Chooser { caps, policy, precision, cut: &cut };
            let g = group(&by, &classes, 8, 2, rows).unwrap();
            assert_eq!(g.columns(), found[0].tile.slots);
            for r in &found {
                assert_eq!(select_experts(&by, &r.class, &g), Ok(r.tile.product));
            }
            let Cut::Tuned(tuned) = &cut else { return };
            let other = Grouping::of(policy, 8, 2, 2 * rows + 1).unwrap();
            assert_eq!(tuned.experts.grouping(&by, &classes, &other), None, "other rows");
            // What gives other results is not taken.
            if let Product::Columns(tile) = found[0].tile.product {
                let wrong = Product::Columns(gemv::Tile { lanes: tile.lanes / 2, ..tile });
                assert!(!fits(&by, &classes[0], &g, &wrong));
            }
            let exact = Chooser { precision: Precision::Exact, ..by };
            let fast = !matches!(found[0].tile.product, Product::Columns(_));
            assert!(!(fast && fits(&exact, &classes[0], &g, &found[0].tile.product)));
        }
    }

    #[test]
    fn groups_are_as_wide_as_all_products_of_a_choice_were_measured() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let (caps, policy) = (kernels.caps(), kernels.policy());
        let format = by_name("Q8_0").expect("a format of the list");
        let classes =
            [(16, 64, true), (64, 32, false)].map(|(m, k, gated)| ProductClass { format, m, k, gated });
        let slots = |second: u32| {
            let mut tuned = Tuned::default();
            for (class, slots) in classes.into_iter().zip([8, second]) {
                let g = Grouping::tiled(slots, 8, 2, 6).unwrap();
                let shape = policy.gemv.shape(slots, class.gated);
                let product = Product::Columns(gemv::shaped_experts(policy, shape, &class, &g).unwrap());
                let tile = ExpertTile { rows: 6, slots, product };
                tuned.experts.insert(
                    ExpertClass { class, experts: 8, top_k: 2 },
                    Precision::Exact,
                    vec![tile],
                );
            }
            let cut = Cut::Tuned(Arc::new(tuned));
            let by = Chooser { caps, policy, precision: Precision::Exact, cut: &cut };
            [3, 4, 6, 7].map(|rows| group(&by, &classes, 8, 2, rows).unwrap().columns())
        };
        let own = [3, 4, 6, 7].map(|rows| Grouping::of(policy, 8, 2, rows).unwrap().columns());
        assert_eq!(slots(8), [own[0], 8, 8, own[3]]);
        assert_eq!(slots(4), own, "they do not agree");
    }
}
