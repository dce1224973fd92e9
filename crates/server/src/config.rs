//! What a server is told.

use std::net::SocketAddr;
use std::time::Duration;

/// How to serve.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Keys of which a request must carry one; with none all may ask.
    pub api_keys: Vec<String>,
    /// What the model is called.
    pub model_name: String,
    /// Answer 404 to requests for a model of another name.
    pub strict_model: bool,
    /// Choices that may wait for a sequence; more are refused with 429.
    pub queue: usize,
    /// Bytes of a request at most.
    pub body_limit: usize,
    /// Web origins that may ask; `*` for all.
    pub origins: Vec<String>,
    /// Names that requests may ask for, beside `localhost` and its addresses; `*` for all. None: on an address of this machine alone
    /// only those, on others any.
    pub allowed_hosts: Vec<String>,
    /// How often a silent stream gets a comment, so that no proxy takes it for dead.
    pub keep_alive: Duration,
    /// How long requests may go on after the server was told to stop.
    pub drain: Duration,
}

impl Config {
    /// The defaults: a server on this machine alone.
    pub fn new(model_name: impl Into<String>) -> Config {
        Config {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            api_keys: Vec::new(),
            model_name: model_name.into(),
            strict_model: false,
            queue: 128,
            body_limit: 16 << 20,
            origins: Vec::new(),
            allowed_hosts: Vec::new(),
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(30),
        }
    }
}
