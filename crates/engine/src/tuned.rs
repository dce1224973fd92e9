//! Measured tiles and widths of steps on disk: one file for each device, driver and build of the shaders, beside the pipeline cache.

use crate::keyed::{KeyedFile, fnv};
use crate::{Error, LoadOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zinc_kernels::gemv::{ProductClass, Tuned};
use zinc_kernels::product::{ExpertClass, ExpertTile, Product};
use zinc_kernels::{GemvShape, Precision, dot, gemm, gemv, shaders, slices};
use zinc_model::Model;
use zinc_quant::by_name;
use zinc_vulkan::{CacheLocation, Capabilities};

/// The version of the file: of another one nothing is read.
const VERSION: u32 = 5;

/// What was measured on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// How products are cut.
    pub tiles: Tuned,
    /// Rows of a prefill step, by [`model_class`].
    pub chunks: BTreeMap<String, u32>,
}

/// What models have in common whose steps do the same work: architecture and arithmetic in words, and a hash of all matrices' formats
/// and sizes.
pub fn model_class(model: &Model, precision: Precision) -> String {
    let matrix = |w: &zinc_plan::Weight| format!("{} {} {} {};", w.format.name, w.m, w.k, w.experts);
    let hash = fnv(model.plan.weights.iter().flat_map(|w| matrix(w).into_bytes()));
    format!("{} {} {hash:016x}", model.spec.architecture, precision.name())
}

/// Where what was measured on a device is kept.
#[derive(Debug, Clone)]
pub struct TunedFile {
    file: KeyedFile,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    classes: Vec<Class>,
    experts: Vec<Experts>,
    chunks: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
struct Class {
    format: String,
    rows: u32,
    inner: u32,
    gated: bool,
    shapes: Vec<Shape>,
    fast: Vec<Fast>,
}

/// A kernel and its tile under the fast policy.
#[derive(Serialize, Deserialize)]
struct Fast {
    up_to: u32,
    #[serde(flatten)]
    tile: Tile,
}

/// A product of experts.
#[derive(Serialize, Deserialize)]
struct Experts {
    format: String,
    rows: u32,
    inner: u32,
    gated: bool,
    experts: u32,
    used: u32,
    fast: bool,
    tiles: Vec<OfRows>,
}

/// What takes it in steps of so many rows.
#[derive(Serialize, Deserialize)]
struct OfRows {
    rows: u32,
    slots: u32,
    #[serde(flatten)]
    tile: Tile,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Tile {
    /// Lanes, parts, 1 where a part has a subgroup, rows, columns, subgroups, stage.
    Columns([u32; 7]),
    /// Lanes, bytes, rows, columns, subgroups, stage, batches, and 1 where codes are loaded ahead.
    Dot([u32; 8]),
    /// Matrices of rows, workgroups.
    Slices([u32; 2]),
    /// The matrices' three sizes (0 where there are none, 1 where lanes decode), then rows, columns, step, rows and columns of a subgroup, buffers, parts,
    /// subgroups that split steps.
    Gemm([u32; 11]),
}

#[derive(Serialize, Deserialize)]
struct Shape {
    up_to: u32,
    rows: u32,
    columns: u32,
    spread: bool,
    subgroups: u32,
    stage_bytes: u32,
}

impl TunedFile {
    /// The file of a device; `None` where nothing is cached.
    pub fn of(caps: &Capabilities, location: &CacheLocation) -> Option<TunedFile> {
        TunedFile::with_shaders(caps, location, shaders_hash())
    }

    fn with_shaders(caps: &Capabilities, location: &CacheLocation, shaders: u64) -> Option<TunedFile> {
        let file = KeyedFile::of("tiles", VERSION, caps, &format!("{shaders:016x}"), location)?;
        Some(TunedFile { file })
    }

    /// Where it lies, whether or not it exists.
    pub fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// What it holds; `None` where there is none.
    ///
    /// # Errors
    /// Why it is not used: it cannot be read, is of another version or device, or holds what no tile or width can be.
    pub fn read(&self) -> Result<Option<Measured>, String> {
        let ignored = |why: &dyn std::fmt::Display| self.file.ignored(why);
        let Some(contents) = self.file.read::<Contents>()? else { return Ok(None) };
        let chunks = contents.chunks;
        if let Some((model, rows)) = chunks.iter().find(|c| !(1..=LoadOptions::MAX_CHUNK).contains(c.1)) {
            return Err(ignored(&format!("no step of `{model}` has {rows} rows")));
        }
        let mut tiles = Tuned::default();
        for class in contents.classes {
            let Some(format) = by_name(&class.format) else {
                return Err(ignored(&format!("there is no format `{}`", class.format)));
            };
            let Class { rows: m, inner: k, gated, shapes, fast, .. } = class;
            let class = ProductClass { format, m, k, gated };
            tiles.insert(class, shapes.into_iter().map(Shape::into).collect()).map_err(|e| ignored(&e))?;
            tiles.fast.insert(class, fast.into_iter().map(|f| (f.up_to, f.tile.into())).collect());
        }
        for class in contents.experts {
            let Some(format) = by_name(&class.format) else {
                return Err(ignored(&format!("there is no format `{}`", class.format)));
            };
            let Experts { rows: m, inner: k, gated, experts, used: top_k, fast, tiles: of_rows, .. } = class;
            let class = ExpertClass { class: ProductClass { format, m, k, gated }, experts, top_k };
            let precision = if fast { Precision::Fast } else { Precision::Exact };
            tiles.experts.insert(class, precision, of_rows.into_iter().map(OfRows::into).collect());
        }
        Ok(Some(Measured { tiles, chunks }))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&self, measured: &Measured) -> Result<(), Error> {
        let tiles = &measured.tiles;
        let class = |c: &ProductClass| Class {
            format: c.format.name.into(),
            rows: c.m,
            inner: c.k,
            gated: c.gated,
            shapes: tiles.shapes(c).iter().map(Shape::from).collect(),
            fast: tiles.fast.products(c).iter().map(|&(up_to, p)| Fast { up_to, tile: p.into() }).collect(),
        };
        let classes = tiles.measured().into_iter().map(class).collect();
        let experts = tiles.experts.iter().map(|(c, precision, of_rows)| Experts {
            format: c.class.format.name.into(),
            rows: c.class.m,
            inner: c.class.k,
            gated: c.class.gated,
            experts: c.experts,
            used: c.top_k,
            fast: precision == Precision::Fast,
            tiles: of_rows.iter().map(OfRows::from).collect(),
        });
        let contents = Contents { classes, experts: experts.collect(), chunks: measured.chunks.clone() };
        self.file.write(&contents)
    }

    /// Removes it; whether there was one.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove(&self) -> Result<bool, Error> {
        self.file.remove()
    }
}

/// A hash of the shaders that multiply.
fn shaders_hash() -> u64 {
    let multiply =
        |s: &&zinc_kernels::Shader| ["gemv", "dot", "gemm", "gemm_lanes", "slices"].contains(&s.stem);
    let words = shaders().iter().filter(multiply).flat_map(|s| s.spirv());
    fnv(words.flat_map(|w| w.to_le_bytes()))
}

impl From<Product> for Tile {
    fn from(product: Product) -> Tile {
        match product {
            Product::Columns(t) => {
                let gemv::Tile { lanes, parts, spread, rows, columns, subgroups, stage } = t;
                Tile::Columns([lanes, parts, u32::from(spread), rows, columns, subgroups, stage])
            }
            Product::Dot(t) => {
                let dot::Tile { lanes, bytes, rows, columns, subgroups, stage, batches, ahead } = t;
                Tile::Dot([lanes, bytes, rows, columns, subgroups, stage, batches, u32::from(ahead)])
            }
            Product::Slices(slices::Tile { tiles, groups }) => Tile::Slices([tiles, groups]),
            Product::Gemm(t) => {
                let gemm::Tile { matrix, rows, columns, step, sub_rows, sub_columns, buffers, parts, apart } =
                    t;
                let [m, n, k] = match matrix {
                    gemm::Matrix::Portable => [0; 3],
                    gemm::Matrix::Khr { m, n, k } => [m, n, k],
                    gemm::Matrix::Lanes => [1; 3],
                };
                Tile::Gemm([m, n, k, rows, columns, step, sub_rows, sub_columns, buffers, parts, apart])
            }
        }
    }
}

impl From<&ExpertTile> for OfRows {
    fn from(&ExpertTile { rows, slots, product }: &ExpertTile) -> OfRows {
        OfRows { rows, slots, tile: product.into() }
    }
}

impl From<OfRows> for ExpertTile {
    fn from(OfRows { rows, slots, tile }: OfRows) -> ExpertTile {
        ExpertTile { rows, slots, product: tile.into() }
    }
}

impl From<Tile> for Product {
    fn from(tile: Tile) -> Product {
        match tile {
            Tile::Columns([lanes, parts, spread, rows, columns, subgroups, stage]) => {
                let spread = spread == 1;
                Product::Columns(gemv::Tile { lanes, parts, spread, rows, columns, subgroups, stage })
            }
            Tile::Dot([lanes, bytes, rows, columns, subgroups, stage, batches, ahead]) => {
                let ahead = ahead == 1;
                Product::Dot(dot::Tile { lanes, bytes, rows, columns, subgroups, stage, batches, ahead })
            }
            Tile::Slices([tiles, groups]) => Product::Slices(slices::Tile { tiles, groups }),
            Tile::Gemm([m, n, k, rows, columns, step, sub_rows, sub_columns, buffers, parts, apart]) => {
                let matrix = match m {
                    0 => gemm::Matrix::Portable,
                    1 => gemm::Matrix::Lanes,
                    _ => gemm::Matrix::Khr { m, n, k },
                };
                Product::Gemm(gemm::Tile {
                    matrix,
                    rows,
                    columns,
                    step,
                    sub_rows,
                    sub_columns,
                    buffers,
                    parts,
                    apart,
                })
            }
        }
    }
}

impl From<&GemvShape> for Shape {
    fn from(s: &GemvShape) -> Shape {
        let &GemvShape { up_to, rows, columns, spread, subgroups, stage_bytes } = s;
        Shape { up_to, rows, columns, spread, subgroups, stage_bytes }
    }
}

impl From<Shape> for GemvShape {
    fn from(s: Shape) -> GemvShape {
        let Shape { up_to, rows, columns, spread, subgroups, stage_bytes } = s;
        GemvShape { up_to, rows, columns, spread, subgroups, stage_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Capabilities {
        Capabilities {
            name: "a card".into(),
            driver: "a driver".into(),
            driver_version: "1.2".into(),
            vendor_id: 0x10de,
            device_id: 7,
            ..Capabilities::default()
        }
    }

    fn folder(name: &str) -> CacheLocation {
        let folder = std::env::temp_dir().join(format!("zinc-tuned-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        CacheLocation::Folder(folder)
    }

    fn tuned() -> Measured {
        let format = by_name("Q8_0").unwrap();
        let mut tuned = Tuned::default();
        let shape = |up_to| GemvShape {
            up_to,
            rows: 2,
            columns: 8,
            spread: true,
            subgroups: 4,
            stage_bytes: 17 << 10,
        };
        tuned.insert(ProductClass { format, m: 64, k: 256, gated: true }, vec![shape(4), shape(64)]).unwrap();
        let dot = Tile::Dot([8, 2, 1, 4, 2, 9, 1, 1]).into();
        let matrices = Tile::Gemm([16, 16, 16, 64, 32, 128, 16, 32, 1, 4, 1]).into();
        let plain = Tile::Gemm([0, 0, 0, 64, 64, 64, 4, 4, 1, 1, 1]).into();
        let class = ProductClass { format, m: 128, k: 512, gated: false };
        tuned.fast.insert(class, vec![(4, dot), (16, matrices), (64, plain)]);
        let of_experts = ExpertClass { class, experts: 8, top_k: 2 };
        let columns = Tile::Columns([8, 2, 1, 4, 16, 4, 1]).into();
        for (precision, rows, product) in [(Precision::Exact, 4, columns), (Precision::Fast, 256, plain)] {
            tuned.experts.insert(of_experts, precision, vec![ExpertTile { rows, slots: 16, product }]);
        }
        Measured { tiles: tuned, chunks: [("a model".to_owned(), 256)].into() }
    }

    #[test]
    fn what_is_written_is_read_and_can_be_removed() {
        let file = TunedFile::of(&caps(), &folder("round")).unwrap();
        assert_eq!(file.read(), Ok(None));
        file.write(&tuned()).unwrap();
        assert_eq!(file.read(), Ok(Some(tuned())));
        assert!(file.remove().unwrap() && !file.remove().unwrap());
        assert_eq!(file.read(), Ok(None));
        assert!(TunedFile::of(&caps(), &CacheLocation::Off).is_none());
    }

    #[test]
    fn every_part_of_the_key_changes_the_file() {
        let place = folder("key");
        let path = |caps: Capabilities, shaders| {
            TunedFile::with_shaders(&caps, &place, shaders).unwrap().path().to_owned()
        };
        let mut paths = vec![
            path(caps(), 1),
            path(caps(), 2),
            path(Capabilities { name: "another".into(), ..caps() }, 1),
            path(Capabilities { driver: "another".into(), ..caps() }, 1),
            path(Capabilities { driver_version: "1.3".into(), ..caps() }, 1),
            path(Capabilities { vendor_id: 0x1002, ..caps() }, 1),
            path(Capabilities { device_id: 8, ..caps() }, 1),
        ];
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 7);
    }

    #[test]
    fn foreign_and_corrupt_files_are_ignored_with_a_reason() {
        let place = folder("foreign");
        let file = TunedFile::of(&caps(), &place).unwrap();
        file.write(&tuned()).unwrap();
        let good = std::fs::read_to_string(file.path()).unwrap();
        for (bad, why) in [
            (good[..good.len() / 2].to_string(), "EOF"),
            ("nonsense".into(), "expected"),
            (good.replace("\"version\": 5", "\"version\": 6"), "version 6"),
            (good.replace("a driver", "another"), "another device"),
            (good.replace("\"Q8_0\"", "\"Q9\""), "Q9"),
            (good.replace("\"columns\": 8", "\"columns\": 800"), "no tile"),
            (good.replace("\"a model\": 256", "\"a model\": 0"), "no step"),
        ] {
            std::fs::write(file.path(), bad).unwrap();
            let said = file.read().unwrap_err();
            assert!(said.contains(why) && said.contains("not used"), "{said}");
        }
    }
}
