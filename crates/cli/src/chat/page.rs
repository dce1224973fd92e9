//! `zinc chat --ui`: the server's chat page in a browser.

use super::Args;
use crate::error::Outcome;
use crate::load::tell;
use crate::serve;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use zinc_server::{Config, Error, LevelFilter, LogFormat, Server, start_log};

/// The port to try first, "zinc" on a telephone's keys: a browser keeps conversations by address and port.
const PORT: u16 = 9462;

/// One conversation that is answered, and room for the tokens of another.
const SEQUENCES: u32 = 2;

/// Serves the page on this machine alone until interrupted.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut options = args.engine.options(&args.model.model)?;
    options.sequences = SEQUENCES;
    start_log(LogFormat::Text, LevelFilter::ERROR, crate::output::colour_on_stderr());
    let server = bind(Config::new(serve::name_of(&args.model.model)))?;
    let address = format!("http://{}", server.address());
    writeln!(out, "{address}")?;
    out.flush()?;
    if !args.quiet {
        tell(&["the page answers once the model is loaded; Ctrl-C ends it".into()]);
    }
    // The browser may be one that ends only when it is closed.
    std::thread::spawn(move || {
        if !open(&address) {
            tell(&["note: no browser could be started; open the address above in one".into()]);
        }
    });
    serve::answer(server, options)
}

/// Listens on the page's own port, else on a free one.
fn bind(mut config: Config) -> Result<Server, Error> {
    config.address = (Ipv4Addr::LOCALHOST, PORT).into();
    match Server::bind(config.clone()) {
        Err(Error::Bind { .. }) => {
            config.address.set_port(0);
            Server::bind(config)
        }
        bound => bound,
    }
}

/// Whether the desktop's browser took an address.
fn open(address: &str) -> bool {
    let (program, first): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/c", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(first).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
