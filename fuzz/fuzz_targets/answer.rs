//! Takes an answer apart: any text, cut anywhere, in every family's form.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks.rs"]
#[allow(dead_code)]
mod checks;

fuzz_target!(|input: &[u8]| checks::answer(input));
