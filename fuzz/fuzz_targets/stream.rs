//! Streams of whatever a model says, cut anywhere: what a client puts together is the answer that is not streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../desk.rs"]
mod desk;

fuzz_target!(|input: &[u8]| desk::DESK.with(|desk| zinc_server::fuzz::stream(desk, input)));
