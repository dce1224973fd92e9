//! Measured tiles and widths of steps on disk: one file for each device, driver and build of the shaders, beside the pipeline cache.

use crate::{Error, LoadOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use zinc_kernels::gemv::{ProductClass, Tuned};
use zinc_kernels::{GemvShape, Precision, shaders};
use zinc_model::Model;
use zinc_quant::by_name;
use zinc_vulkan::{CacheLocation, Capabilities};

/// The version of the file: of another one nothing is read.
const VERSION: u32 = 2;

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
    path: PathBuf,
    key: Key,
}

/// What measurements belong to; on anything else they are not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    device: String,
    vendor_id: u32,
    device_id: u32,
    driver: String,
    driver_version: String,
    /// Hash of the shaders of products.
    shaders: String,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    key: Key,
    classes: Vec<Class>,
    chunks: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
struct Class {
    format: String,
    rows: u32,
    inner: u32,
    gated: bool,
    shapes: Vec<Shape>,
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
        let key = Key {
            device: caps.name.clone(),
            vendor_id: caps.vendor_id,
            device_id: caps.device_id,
            driver: caps.driver.clone(),
            driver_version: caps.driver_version.clone(),
            shaders: format!("{shaders:016x}"),
        };
        let name = format!("tiles-{:04x}-{:04x}-{:016x}.json", key.vendor_id, key.device_id, key.hash());
        Some(TunedFile { path: location.folder()?.join(name), key })
    }

    /// Where it lies, whether or not it exists.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// What it holds; `None` where there is none.
    ///
    /// # Errors
    /// Why it is not used: it cannot be read, is of another version or device, or holds what no tile or width can be.
    pub fn read(&self) -> Result<Option<Measured>, String> {
        let ignored = |why: &dyn std::fmt::Display| {
            format!("measured tiles in `{}` are not used: {why}", self.path.display())
        };
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(ignored(&e)),
        };
        let contents: Contents = serde_json::from_str(&text).map_err(|e| ignored(&e))?;
        if contents.version != VERSION {
            return Err(ignored(&format!("version {} is not {VERSION}", contents.version)));
        }
        if contents.key != self.key {
            return Err(ignored(&"they belong to another device, driver or build"));
        }
        let chunks = contents.chunks;
        if let Some((model, rows)) = chunks.iter().find(|c| !(1..=LoadOptions::MAX_CHUNK).contains(c.1)) {
            return Err(ignored(&format!("no step of `{model}` has {rows} rows")));
        }
        let mut tiles = Tuned::default();
        for class in contents.classes {
            let Some(format) = by_name(&class.format) else {
                return Err(ignored(&format!("there is no format `{}`", class.format)));
            };
            let Class { rows: m, inner: k, gated, shapes, .. } = class;
            let class = ProductClass { format, m, k, gated };
            tiles.insert(class, shapes.into_iter().map(Shape::into).collect()).map_err(|e| ignored(&e))?;
        }
        Ok(Some(Measured { tiles, chunks }))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&self, measured: &Measured) -> Result<(), Error> {
        let classes = measured.tiles.classes().map(|(c, shapes)| Class {
            format: c.format.name.into(),
            rows: c.m,
            inner: c.k,
            gated: c.gated,
            shapes: shapes.iter().map(Shape::from).collect(),
        });
        let contents = Contents {
            version: VERSION,
            key: self.key.clone(),
            classes: classes.collect(),
            chunks: measured.chunks.clone(),
        };
        let refused = |e: &dyn std::fmt::Display| {
            Error::Option(format!(
                "`{}` cannot be written: {e}\nhint: `ZINC_CACHE_DIR` names another folder",
                self.path.display()
            ))
        };
        let text = serde_json::to_string_pretty(&contents).map_err(|e| refused(&e))?;
        let temporary = self.path.with_extension(format!("tmp{}", std::process::id()));
        let folder = self.path.parent().unwrap_or(std::path::Path::new("."));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&temporary, text))
            .and_then(|()| std::fs::rename(&temporary, &self.path));
        written.map_err(|e| refused(&e))
    }

    /// Removes it; whether there was one.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove(&self) -> Result<bool, Error> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::Option(format!(
                "`{}` cannot be removed: {e}\nhint: check the permissions of its folder",
                self.path.display()
            ))),
        }
    }
}

impl Key {
    fn hash(&self) -> u64 {
        let text =
            [&self.device, &self.driver, &self.driver_version, &self.shaders].map(String::as_bytes).join(&0);
        fnv(text.into_iter())
    }
}

/// A hash of the shaders that multiply.
fn shaders_hash() -> u64 {
    let words = shaders().iter().filter(|s| s.stem == "gemv").flat_map(|s| s.spirv());
    fnv(words.flat_map(|w| w.to_le_bytes()))
}

/// FNV-1a, 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
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
        let path =
            |caps: Capabilities, shaders| TunedFile::with_shaders(&caps, &place, shaders).unwrap().path;
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
        let good = std::fs::read_to_string(&file.path).unwrap();
        for (bad, why) in [
            (good[..good.len() / 2].to_string(), "EOF"),
            ("nonsense".into(), "expected"),
            (good.replace("\"version\": 2", "\"version\": 3"), "version 3"),
            (good.replace("a driver", "another"), "another device"),
            (good.replace("\"Q8_0\"", "\"Q9\""), "Q9"),
            (good.replace("\"columns\": 8", "\"columns\": 800"), "no tile"),
            (good.replace("\"a model\": 256", "\"a model\": 0"), "no step"),
        ] {
            std::fs::write(&file.path, bad).unwrap();
            let said = file.read().unwrap_err();
            assert!(said.contains(why) && said.contains("not used"), "{said}");
        }
    }
}
