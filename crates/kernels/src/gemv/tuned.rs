//! Shapes that were measured on a device, in place of its policy's.

use super::ProductClass;
use super::tile::{MOST_SUMS, STAGES, select_shaped};
use crate::policy::GemvShape;
use crate::product::{BenchShape, ExpertTiles, FastTiles, Product, bench};
use crate::{Error, Kernels};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Shapes by class of product and number of columns. Lanes and parts, which decide the bits of results, are never part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuned {
    classes: BTreeMap<ProductClass, Vec<GemvShape>>,
    /// Those of fast products.
    pub fast: FastTiles,
    /// Those of experts.
    pub experts: ExpertTiles,
}

impl Tuned {
    /// Sets the shapes of a class.
    ///
    /// # Errors
    /// Numbers that no tile has.
    pub fn insert(&mut self, class: ProductClass, mut shapes: Vec<GemvShape>) -> Result<(), String> {
        let sane = |s: &GemvShape| {
            (1..=16).contains(&s.rows)
                && (1..=64).contains(&s.columns)
                && s.rows * s.columns <= 4 * MOST_SUMS
                && (1..=16).contains(&s.subgroups)
                && s.stage_bytes <= STAGES[STAGES.len() - 1]
        };
        if let Some(bad) = shapes.iter().find(|s| !sane(s)) {
            return Err(format!("no tile is like {bad:?}"));
        }
        shapes.sort_by_key(|s| s.up_to);
        if !shapes.is_empty() {
            self.classes.insert(class, shapes);
        }
        Ok(())
    }

    /// The shape of a product of so many columns: of the first entry that is for as many, else of the last.
    pub fn shape(&self, class: &ProductClass, columns: u32) -> Option<&GemvShape> {
        let shapes = self.classes.get(class)?;
        shapes.iter().find(|s| columns <= s.up_to).or(shapes.last())
    }

    /// Every class that was measured, under either policy, but for those of experts.
    pub fn measured(&self) -> BTreeSet<&ProductClass> {
        self.classes.keys().chain(self.fast.classes()).collect()
    }

    /// How many products were measured.
    pub fn products(&self) -> usize {
        let experts: BTreeSet<_> = self.experts.iter().map(|e| e.0).collect();
        self.measured().len() + experts.len()
    }

    /// The shapes of a class, none where it was not measured.
    pub fn shapes(&self, class: &ProductClass) -> &[GemvShape] {
        self.classes.get(class).map_or(&[], Vec::as_slice)
    }
}

/// What to find a shape for.
#[derive(Debug, Clone, Copy)]
pub struct TuneShape {
    /// The product.
    pub class: ProductClass,
    /// Its columns.
    pub columns: u32,
    /// As in [`BenchShape`](crate::product::BenchShape).
    pub rotate_bytes: u64,
    /// Work before a measurement counts.
    pub warm_up: Duration,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuneResult {
    /// The fastest shape, for these columns; the policy's own where no other is clearly faster.
    pub shape: GemvShape,
    /// Its microseconds.
    pub us: f64,
    /// Those of the policy's own.
    pub policy_us: f64,
    /// How many shapes were measured.
    pub tried: usize,
}

/// Another shape than the policy's must take less than this part of its time.
const CLEARLY: f64 = 0.97;

/// Looks for a faster shape than the policy's: one property after the other, each at its best before the next.
///
/// # Errors
/// As [`bench`], of the policy's own shape. Others that do not fit the device are left out.
pub fn tune(kernels: &Kernels, t: &TuneShape) -> Result<TuneResult, Error> {
    let own = GemvShape { up_to: t.columns, ..*kernels.policy().gemv.shape(t.columns, t.class.gated) };
    let mut measured: Vec<(GemvShape, f64)> = Vec::new();
    let policy_us = time(kernels, t, &own)?;
    measured.push((own, policy_us));
    let mut best = (own, policy_us);
    for property in 0..5 {
        for shape in others(&best.0, property, t.columns) {
            if measured.iter().any(|(s, _)| *s == shape) {
                continue;
            }
            // A shape that the device has no room for is no candidate.
            let Ok(us) = time(kernels, t, &shape) else { continue };
            measured.push((shape, us));
            if us < best.1 {
                best = (shape, us);
            }
        }
    }
    if best.1 > CLEARLY * policy_us {
        best = (own, policy_us);
    }
    Ok(TuneResult { shape: best.0, us: best.1, policy_us, tried: measured.len() })
}

/// The shape with one property changed.
fn others(shape: &GemvShape, property: usize, columns: u32) -> Vec<GemvShape> {
    let powers = |most: u32| (0..).map(|i| 1 << i).take_while(move |&n| n <= most);
    let all: Vec<GemvShape> = match property {
        0 => powers(64.min(columns.next_power_of_two()))
            .map(|columns| GemvShape { columns, ..*shape })
            .collect(),
        1 => powers(8).map(|rows| GemvShape { rows, ..*shape }).collect(),
        2 => STAGES.iter().map(|&stage_bytes| GemvShape { stage_bytes, ..*shape }).collect(),
        3 => powers(8).map(|subgroups| GemvShape { subgroups, ..*shape }).collect(),
        _ => vec![GemvShape { spread: !shape.spread, ..*shape }],
    };
    all.into_iter().filter(|s| s.rows * s.columns <= MOST_SUMS).collect()
}

fn time(kernels: &Kernels, t: &TuneShape, shape: &GemvShape) -> Result<f64, Error> {
    let &TuneShape { class, columns, rotate_bytes, warm_up } = t;
    let product = Product::Columns(select_shaped(kernels.policy(), shape, &class, columns)?);
    Ok(bench(kernels, &BenchShape { class, columns, product, rotate_bytes, repeats: 3, warm_up })?.alone_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_quant::by_name;

    fn shape(up_to: u32, rows: u32) -> GemvShape {
        GemvShape { up_to, rows, columns: 8, spread: false, subgroups: 4, stage_bytes: 0 }
    }

    #[test]
    fn a_class_has_shapes_by_columns() {
        let mut tuned = Tuned::default();
        let format = by_name("Q8_0").expect("a format of the list");
        let class = ProductClass { format, m: 64, k: 256, gated: false };
        tuned.insert(class, vec![shape(64, 4), shape(4, 1)]).unwrap();
        let rows = |columns| tuned.shape(&class, columns).map(|s| s.rows);
        assert_eq!([1, 4, 5, 64, 500].map(rows), [1, 1, 4, 4, 4].map(Some));
        assert_eq!(tuned.shape(&ProductClass { gated: true, ..class }, 1), None);
        for bad in [
            shape(1, 0),
            shape(1, 17),
            GemvShape { columns: 65, ..shape(1, 1) },
            GemvShape { subgroups: 0, ..shape(1, 1) },
        ] {
            assert!(tuned.insert(class, vec![bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_tuning_finds_is_no_slower_than_the_policy_and_keeps_its_bits() {
        let kernels = Kernels::new(&zinc_vulkan::testing::device());
        let format = by_name("Q8_0").expect("a format of the list");
        let warm_up = Duration::from_millis(1);
        for gated in [false, true] {
            let class = ProductClass { format, m: 32, k: 256, gated };
            let t = TuneShape { class, columns: 4, rotate_bytes: 9000, warm_up };
            let found = tune(&kernels, &t).unwrap();
            assert!(found.tried > 8 && found.us <= found.policy_us, "{found:?}");
            assert_eq!(found.shape.up_to, 4);
        }
    }
}
