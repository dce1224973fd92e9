//! A bounded reader over the bytes of a file that knows where it is.

use crate::error::{Error, Problem};

pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    file: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], file: &'a str) -> Self {
        Cursor { bytes, at: 0, file }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// An error at an offset.
    pub(crate) fn error(&self, offset: u64, problem: Problem) -> Error {
        Error::Malformed { file: self.file.into(), offset, problem: Box::new(problem) }
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], Error> {
        let left = self.left();
        if n > left {
            return Err(self.error(self.offset(), Problem::Truncated { what, needed: n, left }));
        }
        // `n` is at most the length of a slice, so it fits.
        let taken = &self.bytes[self.at..self.at + n as usize];
        self.at += n as usize;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let taken = self.take(N as u64, what)?;
        Ok(taken.try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of things of which each takes at least `min_bytes` of what follows.
    pub(crate) fn count(&mut self, what: &'static str, min_bytes: u64) -> Result<usize, Error> {
        let at = self.offset();
        let found = self.u64(what)?;
        let most = self.left() / min_bytes;
        if found > most {
            return Err(self.error(at, Problem::Count { what, found, most }));
        }
        Ok(found as usize)
    }

    /// A length and that many bytes of UTF-8.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<&'a str, Error> {
        let len = self.u64(what)?;
        let at = self.offset();
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes)
            .map_err(|e| self.error(at + e.valid_up_to() as u64, Problem::NotUtf8 { what }))
    }
}
