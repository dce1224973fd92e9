//! Splits a stream at stop strings: any text, cut anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks.rs"]
#[allow(dead_code)]
mod checks;

fuzz_target!(|input: &[u8]| checks::stops(input));
