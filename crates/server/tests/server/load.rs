//! Many clients at once, some of them unfriendly; nothing leaks and nobody gets another's answer.
//!
//! The long runs are `cargo test -p zinc-server --test server -- --ignored`.

use crate::common::{TestServer, eventually, fixture, metric, serve};
use serde_json::{Value, json};
use std::time::Duration;
use zinc_testkit::Rng;

const PATH: &str = "/v1/completions";

/// One of twenty requests whose answers are known; half of them begin alike.
fn question(i: usize) -> Value {
    let tokens: Vec<usize> = (0..12 + i * 3)
        .map(|p| if i.is_multiple_of(2) { 40 + p * 7 } else { 30 + (p * (i + 2)) % 450 })
        .collect();
    json!({"prompt": tokens, "max_tokens": 6, "temperature": 0, "ignore_eos": true})
}

fn text(answer: &Value) -> String {
    answer["choices"][0]["text"].as_str().expect("a text").to_owned()
}

fn answers(server: &TestServer) -> Vec<String> {
    (0..20).map(|i| text(&server.ok(PATH, &question(i)))).collect()
}

/// Requests of one client: friendly ones are checked.
fn client(server: &TestServer, number: u64, requests: u64, known: &[String]) {
    let mut dice = Rng::new(number);
    for _ in 0..requests {
        let i = dice.below(20);
        let mut body = question(i);
        match dice.below(8) {
            0 => {
                // Leaves in the middle.
                (body["stream"], body["max_tokens"]) = (true.into(), 100.into());
                let connection = server.send("POST", PATH, &[], body.to_string().as_bytes());
                std::thread::sleep(Duration::from_millis(dice.below(30) as u64));
                drop(connection);
            }
            1 => assert_eq!(server.request("POST", PATH, &[], b"{\"prompt\": [1, ").status, 400),
            2 => {
                let large = vec![b' '; 70_000];
                assert_eq!(server.request("POST", PATH, &[], &large).status, 413);
            }
            3 => {
                body["stream"] = true.into();
                let events = server.stream(PATH, &body);
                let said: String = events.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
                assert_eq!(said, known[i]);
            }
            _ => assert_eq!(text(&server.ok(PATH, &body)), known[i]),
        }
    }
}

fn clients(server: &TestServer, n: u64, requests: u64, known: &[String]) {
    std::thread::scope(|scope| {
        for number in 0..n {
            scope.spawn(move || client(server, number, requests, known));
        }
    });
    eventually("nothing runs or waits", || {
        let zero = |name| metric(server, name) == 0.0;
        zero("zinc_requests_running") && zero("zinc_requests_waiting") && zero("zinc_kv_pages_used")
    });
    assert_eq!(&answers(server), known);
}

fn server() -> TestServer {
    serve(&fixture("qwen3"), |config, options| {
        options.sequences = 8;
        (config.body_limit, config.queue) = (60_000, 64);
    })
}

#[test]
fn thirty_two_clients() {
    let server = server();
    let known = answers(&server);
    clients(&server, 32, 10, &known);
}

/// Pairs of requests at the same time; each gets its own answer.
fn pairs(n: u64) {
    let server = server();
    let known = answers(&server);
    std::thread::scope(|scope| {
        for side in 0..2 {
            let (server, known) = (&server, &known);
            scope.spawn(move || {
                let mut dice = Rng::new(side + 77);
                for _ in 0..n {
                    let i = dice.below(20);
                    assert_eq!(text(&server.ok(PATH, &question(i))), known[i]);
                }
            });
        }
    });
}

#[test]
fn a_hundred_pairs_are_kept_apart() {
    pairs(100);
}

#[test]
#[ignore = "a long run"]
fn a_thousand_pairs_are_kept_apart() {
    pairs(1000);
}

/// Kilobytes of memory that this process holds.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

#[test]
#[ignore = "a long run, and alone in its process"]
fn a_thousand_requests_leak_nothing() {
    let server = server();
    let known = answers(&server);
    clients(&server, 16, 30, &known);
    let before = resident();
    clients(&server, 16, 65, &known);
    let after = resident();
    println!("{before} kB before, {after} kB after 1,040 requests");
    assert!(after < before * 1.05, "{before} kB before, {after} kB after 1,040 requests");
}
