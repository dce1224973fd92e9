//! The request log: lines of text or of JSON on standard error.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Starts the log. One that runs already stays.
pub fn start(format: LogFormat, level: LevelFilter, colour: bool) {
    let builder =
        fmt().with_max_level(level).with_target(false).with_writer(std::io::stderr).with_ansi(colour);
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
