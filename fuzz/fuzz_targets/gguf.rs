//! Any bytes either open as a model, all of whose tensors can be read, or give an error; nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zinc_gguf::{Error, Gguf};

fuzz_target!(|bytes: &[u8]| {
    match Gguf::from_bytes(bytes.to_vec(), "fuzz.gguf") {
        Ok(model) => {
            for tensor in model.tensors() {
                assert_eq!(model.data(tensor).len() as u64, tensor.bytes);
            }
        }
        Err(Error::Malformed { offset, .. } | Error::WrongType { offset, .. }) => {
            assert!(offset <= bytes.len() as u64);
        }
        Err(other) => panic!("an error without an offset: {other}"),
    }
});
