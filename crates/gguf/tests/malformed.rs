//! Files that are wrong: each malformation by itself, the fuzzer's seeds, and damage to valid files.

mod common;

use common::{malformed, valid};
use proptest::prelude::*;
use std::path::PathBuf;
use zinc_gguf::{Error, Gguf, Value};

/// Opens a file and touches all of it. A failure must say where, within the file.
fn exercise(bytes: &[u8]) -> Result<(), Error> {
    let file = match Gguf::from_bytes(bytes.to_vec(), "file.gguf") {
        Ok(file) => file,
        Err(error) => {
            match &error {
                Error::Malformed { offset, .. } | Error::WrongType { offset, .. } => {
                    assert!(*offset <= bytes.len() as u64, "{error}");
                }
                other => panic!("an error without an offset: {other}"),
            }
            assert!(error.to_string().starts_with("`file.gguf`, byte "), "{error}");
            return Err(error);
        }
    };
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
    }
    for (key, value) in file.metadata().iter() {
        assert_eq!(file.metadata().get(key).map(Value::type_name), Some(value.type_name()));
    }
    Ok(())
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gguf")
}

#[test]
fn each_malformation_is_named_with_its_offset() {
    for case in malformed() {
        match exercise(&case.bytes) {
            Err(Error::Malformed { offset, problem, .. }) => {
                assert_eq!((*problem, offset), (case.problem, case.offset), "{}", case.name);
            }
            other => panic!("{}: {other:?}", case.name),
        }
    }
}

#[test]
fn valid_files_open() {
    for (name, bytes) in valid() {
        exercise(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// The seeds are the cases above; `ZINC_WRITE_CORPUS=1` writes them after a change.
#[test]
fn seeds_are_the_cases() {
    let cases = malformed().into_iter().map(|c| (c.name, c.bytes));
    for (name, bytes) in valid().into_iter().chain(cases).filter(|(_, bytes)| bytes.len() < 4096) {
        let path = corpus().join(name);
        if std::env::var_os("ZINC_WRITE_CORPUS").is_some() {
            std::fs::write(&path, &bytes).expect("write a seed");
        }
        let seed = std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}\nhint: ZINC_WRITE_CORPUS=1"));
        assert!(seed == bytes, "seed `{name}` differs from its case\nhint: ZINC_WRITE_CORPUS=1");
    }
}

/// Everything in the corpus, also what the fuzzer has found since.
#[test]
fn the_corpus_does_not_panic() {
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus()).expect("fuzz/corpus/gguf") {
        let _ = exercise(&std::fs::read(entry.expect("entry").path()).expect("seed"));
        seen += 1;
    }
    assert!(seen > 30, "only {seen} seeds");
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for (name, bytes) in valid() {
        for len in 0..bytes.len() {
            // Nothing lies behind the last tensor of the file with the alignment of 8 but filling.
            let complete = name == "valid-alignment-8" && len >= bytes.len() - 24;
            assert_eq!(exercise(&bytes[..len]).is_ok(), complete, "{name} cut at {len}");
        }
    }
}

#[test]
fn a_flipped_byte_does_not_panic() {
    for (_, mut bytes) in valid() {
        for at in 0..bytes.len() {
            for flip in [0x01, 0x08, 0x80, 0xff] {
                bytes[at] ^= flip;
                let _ = exercise(&bytes);
                bytes[at] ^= flip;
            }
        }
    }
}

#[test]
fn texts_from_a_file_are_escaped_and_cut() {
    let key = format!("\x1b[31m{}", "x".repeat(500));
    let bytes = common::Raw::header(0, 2).pair(&key, 1).pair(&key, 1).0;
    let message = exercise(&bytes).expect_err("a duplicate key").to_string();
    assert!(message.contains("\\u{1b}[31mxxx") && message.contains("x…`"), "{message}");
    assert!(message.len() < 250 && !message.contains('\x1b'), "{message}");
}

proptest! {
    #[test]
    fn damage_does_not_panic(
        which in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, mut bytes) = valid().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = exercise(&bytes);
        let _ = exercise(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn noise_does_not_panic(tail in prop::collection::vec(any::<u8>(), 0..200), counts in any::<(u8, u8)>()) {
        let bytes = common::Raw::header(counts.0.into(), counts.1.into()).bytes(&tail).0;
        let _ = exercise(&bytes);
    }
}
