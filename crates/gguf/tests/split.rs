//! Files on disk, whole and split over parts.

use std::path::{Path, PathBuf};
use zinc_gguf::{Error, GgmlType, Gguf, Problem, Writer};

/// Writes part `number` of `count`, counted from 1, with one tensor, and keys as given.
fn part(dir: &Path, number: u32, count: u32, tensor: &str, keys: &[(&str, u32)]) -> PathBuf {
    let mut writer = Writer::new();
    writer.metadata("part", number);
    keys.iter().for_each(|(key, value)| {
        writer.metadata(key, *value);
    });
    writer.tensor(tensor, &[3], GgmlType::F32);
    let path = dir.join(format!("model-{number:05}-of-{count:05}.gguf"));
    writer.save(&path, |t| Ok(vec![number as u8; t.bytes as usize].into())).expect("write a part");
    path
}

/// A good model of three parts.
fn three(dir: &Path) -> Vec<PathBuf> {
    (1..=3)
        .map(|n| {
            let keys = [("split.no", n - 1), ("split.count", 3), ("split.tensors.count", 3)];
            part(dir, n, 3, &format!("t{n}"), &keys)
        })
        .collect()
}

fn problem(path: &Path) -> Problem {
    match Gguf::open(path) {
        Err(Error::Malformed { problem, .. }) => *problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_part_opens_the_whole_model() {
    let dir = tempfile::tempdir().unwrap();
    for path in three(dir.path()) {
        let model = Gguf::open(&path).unwrap();
        assert_eq!(model.parts().len(), 3);
        assert_eq!(model.metadata().u32("part").unwrap(), 1);
        for (i, tensor) in model.tensors().iter().enumerate() {
            assert_eq!((tensor.part, tensor.name.as_str()), (i, format!("t{}", i + 1).as_str()));
            assert_eq!(model.data(tensor), [i as u8 + 1; 12]);
        }
    }
}

#[test]
fn a_missing_part_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let paths = three(dir.path());
    std::fs::remove_file(&paths[1]).unwrap();
    match Gguf::open(&paths[0]) {
        Err(Error::MissingPart { missing, count: 3, .. }) => {
            assert_eq!(missing, paths[1].display().to_string())
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(Gguf::open(&paths[1]), Err(Error::Io { .. })));
}

#[test]
fn parts_must_agree_with_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let paths = three(dir.path());
    std::fs::copy(&paths[0], &paths[2]).unwrap();
    assert!(matches!(problem(&paths[0]), Problem::DuplicateTensor { .. }));

    part(dir.path(), 3, 3, "t3", &[("split.no", 1), ("split.count", 3)]);
    assert_eq!(problem(&paths[0]), Problem::Split { key: "split.no", expected: 2, found: "1".into() });

    part(dir.path(), 3, 3, "t3", &[("split.no", 2), ("split.count", 4)]);
    assert_eq!(problem(&paths[0]), Problem::Split { key: "split.count", expected: 3, found: "4".into() });

    part(dir.path(), 3, 3, "t3", &[]);
    assert_eq!(
        problem(&paths[0]),
        Problem::Split { key: "split.count", expected: 3, found: "no such key".into() }
    );
}

#[test]
fn the_number_of_tensors_must_agree() {
    let dir = tempfile::tempdir().unwrap();
    let paths = three(dir.path());
    part(dir.path(), 1, 3, "t1", &[("split.no", 0), ("split.count", 3), ("split.tensors.count", 4)]);
    assert_eq!(problem(&paths[2]), Problem::SplitTensors { expected: 4, found: 3 });
}

#[test]
fn a_part_under_another_name_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let renamed = dir.path().join("model.gguf");
    std::fs::rename(&three(dir.path())[1], &renamed).unwrap();
    assert_eq!(problem(&renamed), Problem::Split { key: "split.count", expected: 1, found: "3".into() });
}

#[test]
fn one_part_of_one_is_an_ordinary_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = part(dir.path(), 1, 1, "t", &[]);
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 1);
}

#[test]
fn a_file_that_is_not_there_or_empty_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.gguf");
    assert!(Gguf::open(&path).unwrap_err().to_string().contains("none.gguf"));
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(problem(&path), Problem::Truncated { .. }));
    assert!(matches!(Gguf::open(dir.path()), Err(Error::Io { .. })));
}
