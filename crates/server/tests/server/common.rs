//! A server on a free port and a small HTTP client, for the server's tests.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zinc_engine::{BackendWish, Engine, LoadOptions};
use zinc_server::{Config, Error, Server, Stopper};

/// A server that runs until this is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The tiny model of a family.
pub fn fixture(name: &str) -> PathBuf {
    zinc_testkit::fixtures(name).into_iter().next().expect("a fixture").model
}

/// A server over a model on the CPU executor, ready to answer.
pub fn serve(model: &Path, change: impl FnOnce(&mut Config, &mut LoadOptions)) -> TestServer {
    let mut options = LoadOptions::new(model);
    (options.backend, options.context, options.sequences) = (BackendWish::Cpu, Some(320), 4);
    let mut config = Config::new("tiny");
    config.address.set_port(0);
    change(&mut config, &mut options);
    serve_engine(config, move || Engine::load(&options, &mut |_| ()))
}

/// A server over what `load` gives, ready to answer.
pub fn serve_engine<F>(config: Config, load: F) -> TestServer
where
    F: FnOnce() -> Result<Engine, zinc_engine::Error> + Send + 'static,
{
    let server = Server::bind(config).expect("a free port");
    let (address, stopper) = (server.address(), server.stopper());
    let thread = Some(std::thread::spawn(move || server.run(load)));
    let server = TestServer { address, stopper, thread };
    let began = Instant::now();
    while server.get("/health").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(300), "the model does not load");
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stopper.stop();
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic").expect("a clean end");
            }
        }
    }
}

impl TestServer {
    /// Tells it to stop and waits for the end.
    pub fn stop(mut self) -> Result<(), Error> {
        self.stopper.stop();
        self.thread.take().expect("a thread").join().expect("no panic")
    }

    pub fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, &[], body.to_string().as_bytes())
    }

    /// A body that must be answered with 200.
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
        reply.json()
    }

    /// The events of a stream.
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        events(&reply.text())
    }

    /// Sends a request on a connection of its own.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let own = if headers.iter().any(|h| h.0 == "host") { "" } else { "host: localhost\r\n" };
        let mut head = format!("{method} {path} HTTP/1.1\r\n{own}connection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        // A server that refuses a body may close before all of it was sent.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        read_reply(&mut BufReader::new(self.send(method, path, headers, body)))
    }
}

/// Reads an answer to its end.
pub fn read_reply(stream: &mut impl BufRead) -> Reply {
    let (status, headers) = read_head(stream);
    let mut body = Vec::new();
    if headers.iter().any(|h| h.0 == "transfer-encoding" && h.1 == "chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("a chunk");
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            if size == 0 {
                break;
            }
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).expect("a whole chunk");
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        stream.read_to_end(&mut body).expect("a body");
    }
    Reply { status, headers, body }
}

/// Reads status and headers.
pub fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a header");
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
            None => return (status, headers),
        }
    }
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.0 == name).map(|h| h.1.as_str())
    }
}

/// The data of server-sent events; `[DONE]` is a string.
pub fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|l| l.strip_prefix("data: "));
    data.map(|d| serde_json::from_str(d).unwrap_or_else(|_| Value::String(d.into()))).collect()
}

/// The value of a metric without labels.
pub fn metric(server: &TestServer, name: &str) -> f64 {
    let text = server.get("/metrics").text();
    let line = text.lines().find(|l| l.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no metric {name} in {text}"));
    line.rsplit(' ').next().and_then(|v| v.parse().ok()).expect("a number")
}

/// Waits until something is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
