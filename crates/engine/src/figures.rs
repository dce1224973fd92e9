//! What a device can do at most, as `zinc bench device` measured it: kept beside the pipeline cache, the denominators of percentages.

use crate::Error;
use crate::keyed::KeyedFile;
use serde::{Deserialize, Serialize};
use std::path::Path;
use zinc_vulkan::{CacheLocation, Capabilities};

/// The version of the file: of another one nothing is read.
const VERSION: u32 = 1;

/// Figures of a device; formulas and shaders are in `zinc_kernels::device`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// Bytes of the buffer that was read and copied.
    pub buffer_bytes: u64,
    /// GB/s of reading.
    pub read_gb_per_s: f64,
    /// GB/s of copying, bytes read and written together.
    pub copy_gb_per_s: f64,
    /// Microseconds of a dispatch after a barrier, in commands that are submitted again.
    pub dispatch_replayed_us: f64,
    /// Microseconds of a dispatch without a barrier, in commands that are submitted again.
    pub dispatch_unordered_us: f64,
    /// Microseconds of a dispatch after a barrier, in commands that are recorded for one submission.
    pub dispatch_recorded_us: f64,
    /// Microseconds of submitting one dispatch and waiting for it.
    pub submit_us: f64,
    /// Rates of cooperative matrices.
    pub matrices: Vec<MatrixFigure>,
}

/// The rate of one cooperative matrix product, in registers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixFigure {
    /// `subgroup` or `workgroup`.
    pub scope: String,
    /// Types of the factors and of the sums: `f16_f32`.
    pub types: String,
    /// Rows of the result.
    pub m: u32,
    /// Its columns.
    pub n: u32,
    /// Elements of a sum.
    pub k: u32,
    /// Invocations of the workgroup.
    pub threads: u32,
    /// 10¹² multiplications and additions a second.
    pub tera_per_s: f64,
}

impl DeviceFigures {
    /// What was measured on a device; `None` where nothing was, or where it cannot be read.
    pub fn read(caps: &Capabilities, location: &CacheLocation) -> Option<DeviceFigures> {
        file(caps, location)?.read().ok().flatten()
    }

    /// Keeps it; where, unless nothing is cached.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&self, caps: &Capabilities, location: &CacheLocation) -> Result<Option<Box<Path>>, Error> {
        let Some(file) = file(caps, location) else { return Ok(None) };
        file.write(self)?;
        Ok(Some(file.path().into()))
    }

    /// The highest rate of products of 16-bit floats that are added in f32, 10¹² a second.
    pub fn float_matrix_rate(&self) -> Option<f64> {
        let rates = self.matrices.iter().filter(|m| ["f16_f32", "bf16_f32"].contains(&m.types.as_str()));
        rates.map(|m| m.tera_per_s).reduce(f64::max)
    }
}

fn file(caps: &Capabilities, location: &CacheLocation) -> Option<KeyedFile> {
    KeyedFile::of("device", VERSION, caps, "", location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_kept_for_one_device() {
        let folder = std::env::temp_dir().join(format!("zinc-figures-{}", std::process::id()));
        let place = CacheLocation::Folder(folder.clone());
        let caps = Capabilities { name: "a card".into(), ..Default::default() };
        assert_eq!(DeviceFigures::read(&caps, &place), None);
        let matrix = |types: &str, tera_per_s| MatrixFigure {
            scope: "subgroup".into(),
            types: types.into(),
            m: 16,
            n: 16,
            k: 16,
            threads: 256,
            tera_per_s,
        };
        let figures = DeviceFigures {
            buffer_bytes: 1 << 30,
            read_gb_per_s: 4000.5,
            copy_gb_per_s: 3900.0,
            dispatch_replayed_us: 2.5,
            dispatch_unordered_us: 0.5,
            dispatch_recorded_us: 3.0,
            submit_us: 20.0,
            matrices: vec![matrix("f16_f32", 600.0), matrix("f16_f16", 700.0), matrix("f16_f32", 500.0)],
        };
        assert!(figures.write(&caps, &place).unwrap().unwrap().exists());
        assert_eq!(DeviceFigures::read(&caps, &place), Some(figures.clone()));
        let other = Capabilities { name: "another".into(), ..Default::default() };
        assert_eq!(DeviceFigures::read(&other, &place), None);
        assert_eq!(figures.float_matrix_rate(), Some(600.0));
        assert_eq!(figures.write(&caps, &CacheLocation::Off).unwrap(), None);
        let _ = std::fs::remove_dir_all(folder);
    }
}
