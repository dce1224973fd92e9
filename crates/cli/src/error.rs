//! What a command fails with: words for people, a hint, an exit code.

use std::io;
use std::path::Path;
use zinc_engine::ValidationReport;

/// Exit code of an error.
pub const ERROR: u8 = 1;
/// Exit code of a wrong command line.
pub const USAGE: u8 = 2;
/// Exit code of a run whose output was found to be wrong.
pub const INVALID: u8 = 3;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// Something to tell: message, a newline, `hint: …`.
    Message {
        /// All lines, the hint last.
        text: String,
        /// Exit code.
        code: u8,
    },
    /// Validate mode found that paths differ.
    Invalid(Box<ValidationReport>),
    /// Whoever read our output went away; nothing to tell.
    BrokenPipe,
}

impl Failure {
    /// What to tell and the exit code; `None` where there is nothing to tell.
    pub fn told(&self) -> Option<(String, u8)> {
        match self {
            Failure::Message { text, code } => Some((text.clone(), *code)),
            Failure::Invalid(report) => {
                let hint = "`zinc check --ops` tests the kernels on this device, `--prefill per-token` goes round batched prefill; please report this";
                let text = format!("validation failed: {}\n{report}hint: {hint}", report.headline());
                Some((text, INVALID))
            }
            Failure::BrokenPipe => None,
        }
    }
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// An error with its hint.
pub fn error(message: impl std::fmt::Display, hint: impl std::fmt::Display) -> Failure {
    Failure::Message { text: with_hint(message.to_string(), &hint.to_string()), code: ERROR }
}

/// A command line that makes no sense though its options are known.
pub fn usage(message: impl std::fmt::Display, hint: impl std::fmt::Display) -> Failure {
    Failure::Message { text: with_hint(message.to_string(), &hint.to_string()), code: USAGE }
}

/// An output that was found to be wrong.
pub fn invalid(message: impl std::fmt::Display, hint: impl std::fmt::Display) -> Failure {
    Failure::Message { text: with_hint(message.to_string(), &hint.to_string()), code: INVALID }
}

/// A file that could not be read or written.
pub fn file(path: &Path, what: &str, e: &io::Error) -> Failure {
    error(
        format!("`{}` cannot be {what}: {}", path.display(), os_reason(e)),
        "check the path and its permissions",
    )
}

/// Words of the operating system without its error number, lower case.
pub fn os_reason(e: &io::Error) -> String {
    let text = e.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// The crates' own errors bring their hint; where one has none, this one ends it.
fn with_hint(message: String, hint: &str) -> String {
    if message.contains("\nhint:") { message } else { format!("{message}\nhint: {hint}") }
}

impl From<io::Error> for Failure {
    /// For writes to standard output: nothing else is converted without a path.
    fn from(e: io::Error) -> Failure {
        if e.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        error(
            format!("writing the output failed: {}", os_reason(&e)),
            "check the disk or what reads the output",
        )
    }
}

impl From<zinc_vulkan::Error> for Failure {
    fn from(e: zinc_vulkan::Error) -> Failure {
        error(e, "`zinc devices` lists the devices, `--backend cpu` runs without one")
    }
}

impl From<zinc_gguf::Error> for Failure {
    fn from(e: zinc_gguf::Error) -> Failure {
        error(e, "check the path, or download or convert the file again")
    }
}

impl From<zinc_text::Error> for Failure {
    fn from(e: zinc_text::Error) -> Failure {
        error(e, "`zinc inspect` shows the file's metadata")
    }
}
