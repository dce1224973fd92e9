//! Small files, right and wrong, shared by the tests and written out as the fuzzer's seeds.

use zinc_gguf::Problem;

/// Bytes under construction, as the format has them.
#[derive(Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Magic, version 3 and the two counts: 24 bytes.
    pub fn header(tensors: u64, pairs: u64) -> Raw {
        Raw::default().bytes(b"GGUF").u32(3).u64(tensors).u64(pairs)
    }

    pub fn bytes(mut self, v: &[u8]) -> Raw {
        self.0.extend(v);
        self
    }

    pub fn u32(self, v: u32) -> Raw {
        self.bytes(&v.to_le_bytes())
    }

    pub fn u64(self, v: u64) -> Raw {
        self.bytes(&v.to_le_bytes())
    }

    pub fn string(self, v: &str) -> Raw {
        self.u64(v.len() as u64).bytes(v.as_bytes())
    }

    /// A u32 entry.
    pub fn pair(self, key: &str, value: u32) -> Raw {
        self.string(key).u32(4).u32(value)
    }

    /// A row of the table of tensors.
    pub fn tensor(self, name: &str, dims: &[u64], ggml_type: u32, offset: u64) -> Raw {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &d| raw.u64(d)).u32(ggml_type).u64(offset)
    }

    /// Padding to 32 bytes and `n` bytes of data.
    pub fn data(mut self, n: usize) -> Raw {
        self.0.resize(self.0.len().next_multiple_of(32) + n, 7);
        self
    }
}

/// A malformed file, and the error it must give.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub offset: u64,
    pub problem: Problem,
}

/// Valid files.
pub fn valid() -> Vec<(&'static str, Vec<u8>)> {
    let v3 = Raw::header(1, 1).pair("a", 1).tensor("t", &[4, 2], 0, 0).data(32).0;
    let mut v2 = v3.clone();
    v2[4] = 2;
    let aligned = Raw::header(1, 1).pair("general.alignment", 8).tensor("t", &[2], 0, 8);
    vec![
        ("valid-v3", v3),
        ("valid-v2", v2),
        ("valid-empty", Raw::header(0, 0).0),
        ("valid-alignment-8", aligned.data(40).0),
        ("valid-every-type", every_type()),
    ]
}

/// One entry of each value type and of arrays, nested ones too.
fn every_type() -> Vec<u8> {
    let widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
    let mut raw = Raw::header(0, 24);
    for (id, width) in widths.into_iter().enumerate().filter(|(_, w)| *w > 0) {
        raw = raw.string(&format!("one{id}")).u32(id as u32).bytes(&vec![1; width]);
        raw = raw.string(&format!("many{id}")).u32(9).u32(id as u32).u64(3).bytes(&vec![1; 3 * width]);
    }
    raw = raw.string("text").u32(8).string("text");
    raw.string("nested").u32(9).u32(9).u64(2).u32(8).u64(2).string("é").string("").u32(5).u64(0).0
}

/// Every malformation, with the offset of the field that is wrong.
pub fn malformed() -> Vec<Case> {
    let mut cases = header_cases();
    cases.extend(metadata_cases());
    cases.extend(tensor_cases());
    cases
}

fn case(name: &'static str, raw: Raw, offset: u64, problem: Problem) -> Case {
    Case { name, bytes: raw.0, offset, problem }
}

fn truncated(what: &'static str, needed: u64, left: u64) -> Problem {
    Problem::Truncated { what, needed, left }
}

fn count(what: &'static str, found: u64, most: u64) -> Problem {
    Problem::Count { what, found, most }
}

fn header_cases() -> Vec<Case> {
    let start = |version: u32| Raw::default().bytes(b"GGUF").u32(version);
    vec![
        case("empty", Raw::default(), 0, truncated("the magic bytes `GGUF`", 4, 0)),
        case("magic", Raw::default().bytes(b"gg\x1bt"), 0, Problem::NotGguf { found: "gg\\x1bt".into() }),
        case("version-cut", Raw::default().bytes(b"GGUF\x03\0"), 4, truncated("the version", 4, 2)),
        case("big-endian", start(3u32.swap_bytes()), 4, Problem::BigEndian),
        case("version-1", start(1), 4, Problem::Version { found: 1 }),
        case("version-4", start(4), 4, Problem::Version { found: 4 }),
        case("counts-cut", start(3).u64(0), 16, truncated("metadata entries", 8, 0)),
        case("tensors-too-many", Raw::header(1 << 60, 0), 8, count("tensors", 1 << 60, 0)),
        case("entries-too-many", Raw::header(0, u64::MAX), 16, count("metadata entries", u64::MAX, 0)),
    ]
}

fn metadata_cases() -> Vec<Case> {
    let one = || Raw::header(0, 1);
    // A key `k`: its type lies at byte 33, its value at 37, an array's count at 41 and elements at 49.
    let k = |type_id: u32| one().string("k").u32(type_id);
    let array = |type_id: u32, count: u64| k(9).u32(type_id).u64(count);
    let deep = (0..4).fold(k(9), |raw, _| raw.u32(9).u64(1)).u32(9).u64(1).bytes(&[0; 12]);
    let alignment = |raw: Raw, found: &str| (raw, Problem::Alignment { found: found.into() });
    let (zero, zero_problem) = alignment(one().pair("general.alignment", 0), "u32 0");
    let (twelve, twelve_problem) = alignment(one().pair("general.alignment", 12), "u32 12");
    let text = one().string("general.alignment").u32(8).string("32");
    let (text, text_problem) = alignment(text, "string `32`");
    let long_key = "k".repeat(65536);
    let bad_utf8 = || one().u64(2).bytes(b"a\xff").u32(4).u32(0);
    let split = one().pair("split.count", 2);
    let split_problem = Problem::Split { key: "split.count", expected: 1, found: "2".into() };
    vec![
        case(
            "key-beyond-file",
            one().u64(1 << 40).bytes(&[0; 8]),
            32,
            truncated("a metadata key", 1 << 40, 8),
        ),
        case("key-empty", one().pair("", 1), 24, Problem::KeyLength { found: 0 }),
        case("key-too-long", one().pair(&long_key, 1), 24, Problem::KeyLength { found: 65536 }),
        case("key-not-utf8", bad_utf8(), 33, Problem::NotUtf8 { what: "a metadata key" }),
        case(
            "key-twice",
            Raw::header(0, 2).pair("k", 1).pair("k", 2),
            41,
            Problem::DuplicateKey { key: "k".into() },
        ),
        case("value-type", k(13).u32(0), 33, Problem::ValueType { key: "k".into(), found: 13 }),
        case("value-cut", k(10).u32(0), 37, truncated("a metadata value", 8, 4)),
        case("bool", k(7).bytes(&[2]), 37, Problem::Bool { found: 2 }),
        case("string-beyond-file", k(8).u64(u64::MAX), 45, truncated("a metadata string", u64::MAX, 0)),
        case(
            "string-not-utf8",
            k(8).u64(1).bytes(&[0xc3]),
            45,
            Problem::NotUtf8 { what: "a metadata string" },
        ),
        case("array-type", array(77, 0), 37, Problem::ValueType { key: "an array".into(), found: 77 }),
        case("array-too-long", array(6, 1 << 62).u64(0), 41, count("array elements", 1 << 62, 2)),
        case("array-of-strings-too-long", array(8, 2).u64(0), 41, count("array elements", 2, 1)),
        case("array-of-arrays-too-long", array(9, 9).u64(0).u64(0), 41, count("array elements", 9, 1)),
        case("array-of-bools", array(7, 3).bytes(&[1, 0, 9]), 51, Problem::Bool { found: 9 }),
        case("array-nested-deep", deep, 37 + 12 * 3, Problem::Nesting { limit: 4 }),
        case("alignment-0", zero, 24, zero_problem),
        case("alignment-12", twelve, 24, twelve_problem),
        case("alignment-text", text, 24, text_problem),
        case("split-without-name", split, 24, split_problem),
    ]
}

fn tensor_cases() -> Vec<Case> {
    // A tensor `t` first in a file without metadata: its dimension count lies at 33, the dimensions at 37.
    let t = |dims: &[u64], ggml_type, offset| Raw::header(1, 0).tensor("t", dims, ggml_type, offset);
    let name = || "t".to_owned();
    let two = |second: &str, offset| {
        Raw::header(2, 0).tensor("t", &[8], 0, 0).tensor(second, &[8], 0, offset).data(64)
    };
    let large = vec![1 << 32, 1 << 31, 2];
    let outside = |start, bytes, file_bytes| Problem::Outside { tensor: name(), start, bytes, file_bytes };
    let rows = Problem::RowLength { tensor: name(), ggml_type: "Q4_K", block: 256, row: 100 };
    let misaligned = Problem::Misaligned { tensor: name(), alignment: 32, found: 4 };
    let beyond = u64::MAX - 31;
    vec![
        case("tensor-no-dims", t(&[], 0, 0).data(64), 33, Problem::Dims { tensor: name(), found: 0 }),
        case("tensor-5-dims", t(&[1; 5], 0, 0).data(64), 33, Problem::Dims { tensor: name(), found: 5 }),
        case("tensor-zero-dim", t(&[4, 0], 0, 0), 37, Problem::ZeroDim { tensor: name(), dims: vec![4, 0] }),
        case("tensor-type", t(&[4], 4, 0), 45, Problem::UnknownType { tensor: name(), found: 4 }),
        case("tensor-row", t(&[100], 12, 0), 37, rows),
        case(
            "tensor-too-large",
            t(&large, 0, 0),
            37,
            Problem::TooLarge { tensor: name(), dims: large.clone() },
        ),
        case("tensor-misaligned", t(&[4], 0, 4).data(64), 49, misaligned),
        case("tensor-outside", t(&[8], 0, 32).data(60), 49, outside(96, 32, 124)),
        case(
            "tensor-far-outside",
            t(&[8], 0, beyond).data(64),
            49,
            outside(64 + u128::from(beyond), 32, 128),
        ),
        case("tensor-without-data", t(&[8], 0, 0), 49, outside(64, 32, 57)),
        case("tensor-twice", two("t", 32), 57, Problem::DuplicateTensor { tensor: name() }),
        case("tensor-overlap", two("u", 0), 82, Problem::Overlap { tensor: "u".into(), other: name() }),
        case(
            "tensor-cut",
            Raw::header(1, 0).tensor("t", &[4, 4], 0, 0).cut(8),
            57,
            truncated("a tensor offset", 8, 0),
        ),
    ]
}

impl Raw {
    fn cut(mut self, n: usize) -> Raw {
        self.0.truncate(self.0.len() - n);
        self
    }
}
