//! Mapping a file: the one place here that needs `unsafe`.

use crate::error::Error;
use memmap2::Mmap;
use std::path::Path;

/// Maps a file for reading.
#[allow(unsafe_code)]
pub fn map(path: &Path) -> Result<Mmap, Error> {
    let io = |source| Error::Io { file: path.display().to_string(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    // SAFETY: the map is only read. Rust asks that nobody changes the file while it is mapped, which no program can enforce;
    // as with every program that maps its data, who overwrites a model in use changes what is read, and who cuts it off
    // ends the process with SIGBUS. All bounds are checked against the mapped length, not against the file.
    unsafe { Mmap::map(&file) }.map_err(io)
}
