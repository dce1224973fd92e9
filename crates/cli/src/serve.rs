//! `zinc serve`: a model for many clients.

use crate::args::{ModelArg, byte_size};
use crate::error::{Failure, Outcome, error, usage};
use crate::load::{EngineArgs, tell};
use crate::output;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zinc_engine::{Engine, LoadOptions};
use zinc_server::{Config, LevelFilter, LogFormat, Server, start_log};

/// Answers many clients by OpenAI's and Anthropic's APIs, with a chat page at `/`.
///
/// It listens on this machine alone unless `--host` says otherwise. SIGINT and SIGTERM let requests finish; a second one ends at once.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Form of the request log on standard error.
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    log_format: FormatArg,
    /// What is logged.
    #[arg(long, value_enum, default_value_t = LevelArg::Info)]
    log_level: LevelArg,
}

/// Who may ask, and where.
#[derive(clap::Args)]
#[command(next_help_heading = "Who may ask")]
struct ListenArgs {
    /// Address or name to listen on; `0.0.0.0` is every interface.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// A key that requests must carry; may be repeated. Better kept in the environment or a file: other users see command lines.
    #[arg(long, value_name = "KEY", env = "ZINC_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// A file with a key a line.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// A web origin whose pages may ask, such as `https://example.org`, or `*`; may be repeated. Pages of this machine always may.
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
    /// A name by which requests may address the server, or `*`; may be repeated [default: localhost on this machine alone, else any].
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// What the model is called [default: the file's name without its ending].
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Answer 404 to requests for another model's name.
    #[arg(long)]
    strict_model: bool,
}

/// How much at once.
#[derive(clap::Args)]
#[command(next_help_heading = "How much at once")]
struct LimitArgs {
    /// Requests computed at the same time; each has room for a whole context.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    parallel: u32,
    /// Tokens of known prefixes to have room for beside what runs, on Vulkan; prefixes use free room in any case.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    kept_tokens: u32,
    /// Device memory for the recurrent states that known prefixes go on from, for models that have such states.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = byte_size)]
    kept_states: u64,
    /// Requests that may wait; more are refused with 429.
    #[arg(long, value_name = "N", default_value_t = 128)]
    queue: usize,
    /// Size of a request at most.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = byte_size)]
    max_body: u64,
    /// Seconds that requests get to finish when the server is told to stop.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
    /// Seconds after which a silent stream gets a comment, so that no proxy takes it for dead.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    keep_alive: u64,
}

/// The values of `--log-format`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FormatArg {
    /// Lines for people
    Text,
    /// A JSON object a line
    Json,
}

/// The values of `--log-level`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LevelArg {
    /// Nothing
    Off,
    /// What went wrong
    Error,
    /// Every request
    Info,
    /// Everything
    Debug,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut options = args.engine.options(&args.model.model)?;
    (options.sequences, options.kept_tokens) = (args.limits.parallel, args.limits.kept_tokens);
    options.checkpoint_bytes = args.limits.kept_states;
    let format = match args.log_format {
        FormatArg::Text => LogFormat::Text,
        FormatArg::Json => LogFormat::Json,
    };
    let level = match args.log_level {
        LevelArg::Off => LevelFilter::OFF,
        LevelArg::Error => LevelFilter::ERROR,
        LevelArg::Info => LevelFilter::INFO,
        LevelArg::Debug => LevelFilter::DEBUG,
    };
    start_log(format, level, output::colour_on_stderr());
    let server = Server::bind(config(args)?)?;
    writeln!(out, "http://{}", server.address())?;
    out.flush()?;
    if !server.address().ip().is_loopback()
        && args.listen.api_key.is_empty()
        && args.listen.api_key_file.is_none()
    {
        tell(&[
            "note: anyone who reaches this address can use the model; `--api-key-file` asks for a key".into()
        ]);
    }
    answer(server, options)
}

/// Loads the model and answers until the server is stopped.
pub fn answer(server: Server, options: LoadOptions) -> Outcome {
    Ok(server.run(move || Engine::load(&options, &mut |_| ()))?)
}

fn config(args: &Args) -> Outcome<Config> {
    let ListenArgs { host, port, .. } = &args.listen;
    let name = args.listen.model_name.clone().unwrap_or_else(|| name_of(&args.model.model));
    Ok(Config {
        address: address(host, *port)?,
        api_keys: keys(&args.listen)?,
        strict_model: args.listen.strict_model,
        queue: args.limits.queue,
        body_limit: usize::try_from(args.limits.max_body).unwrap_or(usize::MAX),
        origins: args.listen.cors_origin.clone(),
        allowed_hosts: args.listen.allowed_host.clone(),
        keep_alive: Duration::from_secs(args.limits.keep_alive),
        drain: Duration::from_secs(args.limits.drain),
        ..Config::new(name)
    })
}

fn address(host: &str, port: u16) -> Outcome<SocketAddr> {
    let found = (host, port).to_socket_addrs().ok().and_then(|mut a| a.next());
    found.ok_or_else(|| {
        usage(format!("`{host}` is no address of this machine"), "`--host 127.0.0.1` is the default")
    })
}

/// The file's name without ending and without the number of a part.
pub fn name_of(model: &Path) -> String {
    let stem = model.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    match stem.find("-00001-of-") {
        Some(at) => stem[..at].to_owned(),
        None => stem,
    }
}

fn keys(args: &ListenArgs) -> Outcome<Vec<String>> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        let text = std::fs::read_to_string(path).map_err(|e| crate::error::file(path, "read", &e))?;
        keys.extend(text.lines().map(|l| l.trim().to_owned()));
        keys.retain(|k| !k.is_empty());
        if keys.is_empty() {
            return Err(error(format!("`{}` holds no key", path.display()), "write a key a line into it"));
        }
    }
    match keys.iter().any(|k| k.trim().is_empty()) {
        true => Err(usage("an API key is empty", "leave out `--api-key` and `ZINC_API_KEY` to ask for none")),
        false => Ok(keys),
    }
}

impl From<zinc_server::Error> for Failure {
    fn from(e: zinc_server::Error) -> Failure {
        match e {
            zinc_server::Error::Engine(e) => e.into(),
            e => error(e, "`zinc serve --help` shows the options"),
        }
    }
}
