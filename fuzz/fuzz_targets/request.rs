//! Any body of any route is answered, or refused for what the client did.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../desk.rs"]
mod desk;

fuzz_target!(|input: &[u8]| desk::DESK.with(|desk| zinc_server::fuzz::request(desk, input)));
