//! What is written is read back, and metadata is read as the type that is asked for.

use proptest::prelude::*;
use std::borrow::Cow;
use zinc_gguf::{Array, Error, GgmlType, Gguf, Strings, TensorInfo, Value, WriteError, Writer};

fn no_data(_: &TensorInfo) -> std::io::Result<Cow<'static, [u8]>> {
    Ok(Cow::Borrowed(&[]))
}

/// Bytes that tell the tensors apart.
fn pattern(tensor: &TensorInfo) -> Vec<u8> {
    let seed = tensor.name.bytes().map(u64::from).sum::<u64>();
    (0..tensor.bytes).map(|i| (seed + i) as u8).collect()
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        array().prop_map(Value::from),
    ]
}

fn array() -> impl Strategy<Value = Array> {
    use prop::collection::vec;
    let flat = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Array::U8),
        vec(any::<i8>(), 0..9).prop_map(Array::I8),
        vec(any::<u16>(), 0..9).prop_map(Array::U16),
        vec(any::<i16>(), 0..9).prop_map(Array::I16),
        vec(any::<u32>(), 0..9).prop_map(Array::U32),
        vec(any::<i32>(), 0..9).prop_map(Array::I32),
        vec(any::<f32>(), 0..9).prop_map(Array::F32),
        vec(any::<bool>(), 0..9).prop_map(Array::Bool),
        vec(".{0,6}", 0..9).prop_map(|v| Array::String(v.iter().collect())),
        vec(any::<u64>(), 0..9).prop_map(Array::U64),
        vec(any::<i64>(), 0..9).prop_map(Array::I64),
        vec(any::<f64>(), 0..9).prop_map(Array::F64),
    ];
    flat.prop_recursive(3, 12, 3, |inner| vec(inner, 0..3).prop_map(Array::Nested))
}

fn tensors() -> impl Strategy<Value = Vec<(Vec<u64>, GgmlType)>> {
    let types: Vec<GgmlType> = GgmlType::known().collect();
    let tensor =
        (prop::collection::vec(1u64..5, 1..5), prop::sample::select(types)).prop_map(|(mut dims, t)| {
            dims[0] *= t.block_elems();
            (dims, t)
        });
    prop::collection::vec(tensor, 0..6)
}

proptest! {
    #[test]
    fn files_round_trip(
        metadata in prop::collection::btree_map("[a-z.]{1,20}", value(), 0..8),
        tensors in tensors(),
        alignment in prop::sample::select(vec![1u32, 8, 32, 64, 4096]),
    ) {
        let mut writer = Writer::new();
        writer.metadata("general.alignment", alignment);
        for (key, value) in &metadata {
            // NaN is not equal to itself; its bits are another test's matter.
            prop_assume!(value == value && !key.starts_with("split."));
            writer.metadata(key, value.clone());
        }
        for (i, (dims, ggml_type)) in tensors.iter().enumerate() {
            writer.tensor(&format!("t{i}"), dims, *ggml_type);
        }
        let bytes = writer.to_bytes(|t| Ok(pattern(t).into())).unwrap();
        let file = Gguf::from_bytes(bytes, "file.gguf").unwrap();

        prop_assert_eq!(file.parts()[0].alignment, u64::from(alignment));
        let read: Vec<(&str, &Value)> = file.metadata().iter().skip(1).collect();
        let written: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
        prop_assert_eq!(read, written);
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (tensor, (dims, ggml_type)) in file.tensors().iter().zip(&tensors) {
            prop_assert_eq!((&tensor.dims, tensor.ggml_type), (dims, *ggml_type));
            prop_assert!(tensor.offset.is_multiple_of(u64::from(alignment)));
            prop_assert_eq!(file.data(tensor), &pattern(tensor)[..]);
        }
    }
}

#[test]
fn integers_of_any_width_convert_where_they_fit() {
    let mut writer = Writer::new();
    writer.metadata("u8", 200u8).metadata("i64", 7i64).metadata("neg", -1i32).metadata("big", u64::MAX);
    writer.metadata("f64", 0.5f64).metadata("u16s", vec![1u16, 2]).metadata("negs", vec![1i32, -2]);
    let file = Gguf::from_bytes(writer.to_bytes(no_data).unwrap(), "x.gguf").unwrap();
    let m = file.metadata();
    assert_eq!((m.u32("u8").unwrap(), m.u64("i64").unwrap(), m.u64("big").unwrap()), (200, 7, u64::MAX));
    assert_eq!(m.required::<i64>("neg").unwrap(), -1);
    assert_eq!(m.f32("f64").unwrap(), 0.5);
    assert_eq!(m.required::<Vec<u32>>("u16s").unwrap(), [1, 2]);
    assert_eq!(m.required::<Vec<i32>>("negs").unwrap(), [1, -2]);
    for key in ["neg", "big", "f64", "u16s"] {
        assert!(matches!(m.u32(key), Err(Error::WrongType { .. })), "{key}");
    }
    assert!(m.required::<Vec<u32>>("negs").is_err());
}

#[test]
fn a_wrong_or_missing_key_is_named() {
    let mut writer = Writer::new();
    writer.metadata("size", "large").metadata("names", ["a", "b"].iter().collect::<Strings>());
    let file = Gguf::from_bytes(writer.to_bytes(no_data).unwrap(), "x.gguf").unwrap();
    let m = file.metadata();
    let message = |e: Result<u32, Error>| e.unwrap_err().to_string();
    assert_eq!(
        message(m.u32("size")),
        "`x.gguf`, byte 24: metadata key `size` should be an unsigned 32-bit integer, found string `large`"
    );
    assert!(message(m.u32("names")).ends_with("found an array of 2 string"));
    assert_eq!(message(m.u32("width")), "`x.gguf`: metadata key `width` is missing");
    assert_eq!(m.optional::<u32>("width").unwrap(), None);
    assert!(m.optional::<u32>("size").is_err());
    let names = m.strings("names").unwrap();
    assert_eq!((names.len(), names.get(1), names.get(2)), (2, Some("b"), None));
    assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let write = |build: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::new();
        build(&mut writer);
        writer.to_bytes(no_data).unwrap_err()
    };
    let q4_k = GgmlType::from_id(12).unwrap();
    for dims in [&[][..], &[0], &[100], &[256, 0], &[256; 5], &[1 << 63, 4]] {
        assert!(
            matches!(
                write(&|w| {
                    w.tensor("t", dims, q4_k);
                }),
                WriteError::Dims { .. }
            ),
            "{dims:?}"
        );
    }
    assert!(matches!(
        write(&|w| {
            w.metadata("a", 1u8).metadata("a", 2u8);
        }),
        WriteError::Duplicate { .. }
    ));
    assert!(matches!(
        write(&|w| {
            w.metadata("general.alignment", 3u32);
        }),
        WriteError::Alignment { .. }
    ));
    let short = write(&|w| {
        w.tensor("t", &[8], GgmlType::F32);
    });
    assert_eq!(short.to_string(), "tensor `t` should have 32 bytes, got 0");
}
