//! Files of measurements beside the pipeline cache, each for one device and driver.

use crate::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use zinc_vulkan::{CacheLocation, Capabilities};

/// A file that holds what was measured on a device.
#[derive(Debug, Clone)]
pub struct KeyedFile {
    path: PathBuf,
    version: u32,
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
    /// Hash of the shaders that were measured; empty where their own code does not matter.
    shaders: String,
}

#[derive(Serialize, Deserialize)]
struct Keyed<T> {
    version: u32,
    key: Key,
    #[serde(flatten)]
    contents: T,
}

/// What is looked at before the contents.
#[derive(Deserialize)]
struct Head {
    version: u32,
    key: Key,
}

impl KeyedFile {
    /// The file of this name for a device; `None` where nothing is cached.
    pub fn of(
        name: &str,
        version: u32,
        caps: &Capabilities,
        shaders: &str,
        location: &CacheLocation,
    ) -> Option<KeyedFile> {
        let key = Key {
            device: caps.name.clone(),
            vendor_id: caps.vendor_id,
            device_id: caps.device_id,
            driver: caps.driver.clone(),
            driver_version: caps.driver_version.clone(),
            shaders: shaders.into(),
        };
        let name = format!("{name}-{:04x}-{:04x}-{:016x}.json", key.vendor_id, key.device_id, key.hash());
        Some(KeyedFile { path: location.folder()?.join(name), version, key })
    }

    /// Where it lies, whether or not it exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// That the file is not used, and why.
    pub fn ignored(&self, why: &dyn Display) -> String {
        format!("measurements in `{}` are not used: {why}", self.path.display())
    }

    /// What it holds; `None` where there is none.
    ///
    /// # Errors
    /// Why it is not used: it cannot be read, or is of another version or device.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.ignored(&e)),
        };
        let head: Head = serde_json::from_str(&text).map_err(|e| self.ignored(&e))?;
        if head.version != self.version {
            return Err(self.ignored(&format!("version {} is not {}", head.version, self.version)));
        }
        if head.key != self.key {
            return Err(self.ignored(&"they belong to another device, driver or build"));
        }
        let keyed: Keyed<T> = serde_json::from_str(&text).map_err(|e| self.ignored(&e))?;
        Ok(Some(keyed.contents))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write<T: Serialize>(&self, contents: &T) -> Result<(), Error> {
        let refused = |e: &dyn Display| {
            Error::Option(format!(
                "`{}` cannot be written: {e}\nhint: `ZINC_CACHE_DIR` names another folder",
                self.path.display()
            ))
        };
        let keyed = Keyed { version: self.version, key: self.key.clone(), contents };
        let text = serde_json::to_string_pretty(&keyed).map_err(|e| refused(&e))?;
        let temporary = self.path.with_extension(format!("tmp{}", std::process::id()));
        let folder = self.path.parent().unwrap_or(Path::new("."));
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

/// FNV-1a, 64 bits.
pub fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
