//! The harness of the suites: memory for a case, one submission, results compared and named.
//!
//! ```ignore
//! pub fn suite(kernels: &Kernels) -> Vec<CaseResult> {
//!     let mut suite = Suite::new(kernels, "scale");
//!     for width in shape_classes(64) {
//!         suite.case(format!("width {width}"), |s| {
//!             let x = Host::random(&mut s.rng(), 3, width, 1.0);
//!             let (device_x, out) = (s.upload(&x)?, s.output(3, width)?);
//!             s.run(|rec| record(kernels, rec, "scale", &Args { x: device_x.mat(), out: out.mat(), .. }))?;
//!             s.compare(&out, &reference::scale(&x), |want, _, _| 1e-6 * want.abs())
//!         });
//!     }
//!     suite.finish()
//! }
//! ```

use crate::{Error, Kernels, Mat};
use std::cell::RefCell;
use zinc_testkit::Rng;
use zinc_vulkan::{MemoryKind, Recorder, RecorderOptions, Slice};

/// What one case gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// `family: case`.
    pub name: String,
    /// Whether it agreed with the reference.
    pub ok: bool,
    /// What differed, why the device has no such case, or empty.
    pub detail: String,
    /// The device cannot run it; `detail` says why.
    pub skipped: bool,
}

/// Why a case failed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure(e.to_string())
    }
}

impl From<crate::Unsupported> for Failure {
    fn from(e: crate::Unsupported) -> Self {
        Failure(e.to_string())
    }
}

impl From<zinc_vulkan::Error> for Failure {
    fn from(e: zinc_vulkan::Error) -> Self {
        Failure(e.to_string())
    }
}

impl From<String> for Failure {
    fn from(e: String) -> Self {
        Failure(e)
    }
}

/// Bits of the NaN that fills memory before a kernel runs, so that an element not written is seen.
const POISON: u32 = 0x7fc0_dead;
/// Elements of poison after the last row that must still be there afterwards.
const CANARY: usize = 64;

/// Runs the cases of a family.
pub struct Suite<'k> {
    kernels: &'k Kernels,
    family: &'static str,
    rng: RefCell<Rng>,
    results: Vec<CaseResult>,
}

/// An f32 matrix on the host: `rows · width` elements, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Elements of a row.
    pub width: usize,
    /// The elements.
    pub data: Vec<f32>,
}

impl Host {
    /// About normal values with the given deviation.
    pub fn random(rng: &mut Rng, rows: usize, width: usize, deviation: f32) -> Host {
        Host { width, data: rng.normals(rows * width, deviation) }
    }

    /// Its rows.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.width)
    }
}

/// A matrix on the device, as columns of a wider buffer.
#[derive(Debug, Clone)]
pub struct Placed {
    slice: Slice,
    rows: usize,
    width: usize,
    offset: usize,
    stride: usize,
}

impl Placed {
    /// The columns, for a kernel's arguments.
    pub fn mat(&self) -> Mat<'_> {
        let [offset, stride, width] = [self.offset, self.stride, self.width].map(|n| n as u32);
        Mat { slice: &self.slice, offset, stride, width }
    }
}

/// How a matrix lies in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Rows without gaps.
    Dense,
    /// Columns of a wider buffer, every row at a multiple of 16 bytes: as the executor lays activations out.
    Columns,
    /// As `Columns`, the rows at any element.
    Unaligned,
}

impl<'k> Suite<'k> {
    /// A suite with fresh random numbers (`ZINC_TEST_SEED` repeats them).
    pub fn new(kernels: &'k Kernels, family: &'static str) -> Suite<'k> {
        Suite { kernels, family, rng: RefCell::new(Rng::fresh()), results: Vec::new() }
    }

    /// Runs a case and notes its result. With `ZINC_TEST_CASES` set, only cases whose name contains it run.
    pub fn case(&mut self, name: impl Into<String>, body: impl FnOnce(&Self) -> Result<(), Failure>) {
        let name = name.into();
        if std::env::var("ZINC_TEST_CASES").is_ok_and(|part| !name.contains(&part)) {
            return;
        }
        let (ok, detail) = match body(self) {
            Ok(()) => (true, String::new()),
            Err(Failure(what)) => (false, what),
        };
        let name = format!("{}: {name}", self.family);
        self.results.push(CaseResult { name, ok, detail, skipped: false });
    }

    /// Notes cases that the device cannot run, and why.
    pub fn skip(&mut self, reason: impl Into<String>) {
        let (name, detail) = (self.family.to_string(), reason.into());
        self.results.push(CaseResult { name, ok: true, detail, skipped: true });
    }

    /// The results.
    pub fn finish(self) -> Vec<CaseResult> {
        self.results
    }

    /// A generator of its own for a case.
    pub fn rng(&self) -> Rng {
        Rng::new(self.rng.borrow_mut().next_u64())
    }

    /// The kernels under test.
    pub fn kernels(&self) -> &'k Kernels {
        self.kernels
    }

    /// Plain bytes in device memory.
    pub fn bytes(&self, bytes: &[u8]) -> Result<Slice, Failure> {
        let device = self.kernels.device();
        let slice = device.alloc(MemoryKind::Device, bytes.len().max(16) as u64, self.family)?.all();
        device.upload(&slice.slice(0, bytes.len() as u64)?, bytes)?;
        Ok(slice)
    }

    /// Values in device memory, without gaps.
    pub fn values<T: bytemuck::Pod>(&self, values: &[T]) -> Result<Slice, Failure> {
        self.bytes(bytemuck::cast_slice(values))
    }

    /// A matrix in device memory, as columns of a wider buffer (as the executor's activations lie); the rest is NaN.
    pub fn upload(&self, host: &Host) -> Result<Placed, Failure> {
        self.upload_as(host, Layout::Columns)
    }

    /// A matrix in device memory.
    pub fn upload_as(&self, host: &Host, layout: Layout) -> Result<Placed, Failure> {
        self.place(host.data.len() / host.width.max(1), host.width, layout, Some(host))
    }

    /// Room for a result of `rows` rows, filled with NaN and followed by a canary.
    pub fn output(&self, rows: usize, width: usize) -> Result<Placed, Failure> {
        self.output_as(rows, width, Layout::Columns)
    }

    /// As [`Suite::output`], laid out as wished.
    pub fn output_as(&self, rows: usize, width: usize, layout: Layout) -> Result<Placed, Failure> {
        self.place(rows, width, layout, None)
    }

    fn place(
        &self,
        rows: usize,
        width: usize,
        layout: Layout,
        host: Option<&Host>,
    ) -> Result<Placed, Failure> {
        let (offset, stride) = match layout {
            Layout::Dense => (0, width),
            Layout::Columns => (8, width.next_multiple_of(4) + 12),
            Layout::Unaligned => (3, width + 5 + width % 2),
        };
        let mut bits = vec![POISON; offset + rows * stride + CANARY];
        for (r, row) in host.iter().flat_map(|h| h.rows()).enumerate() {
            for (to, from) in bits[offset + r * stride..].iter_mut().zip(row) {
                *to = from.to_bits();
            }
        }
        Ok(Placed { slice: self.values(&bits)?, rows, width, offset, stride })
    }

    /// Records with `record`, submits and waits.
    pub fn run(&self, record: impl FnOnce(&mut Recorder) -> Result<(), Error>) -> Result<(), Failure> {
        let device = self.kernels.device();
        let options = RecorderOptions { label: self.family.into(), ..Default::default() };
        let mut recorder = device.recorder(&options)?;
        record(&mut recorder)?;
        let commands = recorder.finish()?;
        device.submit(&[&commands])?.wait()?;
        Ok(())
    }

    /// The rows of a result.
    ///
    /// # Errors
    /// Where a byte beside its columns or behind its last row was written.
    pub fn read(&self, placed: &Placed) -> Result<Host, Failure> {
        let bits: Vec<u32> = self.kernels.device().download_as(&placed.slice)?;
        let mut data = Vec::with_capacity(placed.rows * placed.width);
        for (i, &bits) in bits.iter().enumerate() {
            let place =
                i.checked_sub(placed.offset).map(|i| (i / placed.stride.max(1), i % placed.stride.max(1)));
            match place {
                Some((row, column)) if row < placed.rows && column < placed.width => {
                    data.push(f32::from_bits(bits));
                }
                _ if bits != POISON => {
                    return Err(format!("element {i} outside the result was written").into());
                }
                _ => {}
            }
        }
        Ok(Host { width: placed.width, data })
    }

    /// Compares a result with `want`, element by element; `allowed(want, row, column)` is the largest difference. NaN never agrees.
    pub fn compare(
        &self,
        placed: &Placed,
        want: &Host,
        allowed: impl Fn(f32, usize, usize) -> f32,
    ) -> Result<(), Failure> {
        let got = self.read(placed)?;
        compare(&got, want, allowed)
    }

    /// Reads values back from a plain slice.
    pub fn read_values<T: bytemuck::Pod>(&self, slice: &Slice) -> Result<Vec<T>, Failure> {
        Ok(self.kernels.device().download_as(slice)?)
    }
}

/// Compares two matrices element by element; `allowed(want, row, column)` is the largest difference. NaN never agrees.
pub fn compare(got: &Host, want: &Host, allowed: impl Fn(f32, usize, usize) -> f32) -> Result<(), Failure> {
    if (got.width, got.data.len()) != (want.width, want.data.len()) {
        return Err(format!("{} elements, {} expected", got.data.len(), want.data.len()).into());
    }
    let mut wrong = 0;
    let mut first = String::new();
    for (i, (&g, &w)) in got.data.iter().zip(&want.data).enumerate() {
        let (row, column) = (i / want.width, i % want.width);
        let limit = allowed(w, row, column);
        let agrees = g == w || (g - w).abs() <= limit;
        if !agrees {
            wrong += 1;
            if first.is_empty() {
                first = format!("row {row}, column {column}: {g:e} for {w:e}, allowed {limit:e}");
            }
        }
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} of {} elements differ, the first at {first}", want.data.len()).into()),
    }
}

/// For a family's test: runs the suite on the test device, fails on any case that is not ok, and on an empty suite.
///
/// # Panics
/// When a case fails.
pub fn assert_suite(suite: crate::Suite) {
    let kernels = Kernels::new(&zinc_vulkan::testing::device());
    let results = suite(&kernels);
    let bad: Vec<String> =
        results.iter().filter(|r| !r.ok).map(|r| format!("{}: {}", r.name, r.detail)).collect();
    let (skipped, run): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.skipped);
    assert!(!results.is_empty(), "the suite has no cases");
    eprintln!("{} cases", run.len());
    skipped.iter().for_each(|r| eprintln!("skipped: {}: {}", r.name, r.detail));
    let shown = bad.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(bad.is_empty(), "{} of {} cases fail:\n{shown}", bad.len(), results.len());
    zinc_vulkan::testing::assert_valid();
}
