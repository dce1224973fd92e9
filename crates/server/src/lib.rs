//! An HTTP server over a model: OpenAI's and Anthropic's APIs, many clients at once.
//!
//! Handlers run on a small tokio runtime, the engine on a thread of its own (the scheduler in the private `worker` module); requests go in by
//! one channel, and each has a channel for its events.
//!
//! ```no_run
//! use zinc_engine::{Engine, LoadOptions};
//! use zinc_server::{Config, Server};
//! # fn main() -> Result<(), zinc_server::Error> {
//! let server = Server::bind(Config::new("model"))?;
//! println!("http://{}", server.address());
//! server.run(|| Engine::load(&LoadOptions::new("model.gguf"), &mut |_| ()))?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod access;
mod api;
mod app;
mod calls;
mod config;
mod constrain;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod id;
mod loaded;
mod log;
mod metrics;
mod page;
mod server;
mod worker;

pub use config::Config;
pub use log::{LogFormat, start as start_log};
pub use server::{Error, Server, Stopper};
pub use tracing::level_filters::LevelFilter;
