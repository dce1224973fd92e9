//! Tiles and widths that were measured: used at load, without a change of a single bit.

mod common;

use common::{bits, tokens};
use std::sync::Arc;
use zinc_engine::{Cut, Engine, KvType, Measured, Precision, Product, TunedFile, Want, model_class};
use zinc_gguf::Gguf;
use zinc_kernels::GemvShape;
use zinc_kernels::gemv::Tuned;
use zinc_testkit::fixtures;
use zinc_vulkan::CacheLocation;

#[test]
fn a_stored_table_is_used_and_changes_no_bits() {
    let fixture = fixtures("qwen3").remove(0);
    let folder = std::env::temp_dir().join(format!("zinc-tuned-test-{}", std::process::id()));
    let device = zinc_vulkan::testing::device();
    let file = TunedFile::of(device.capabilities(), &CacheLocation::Folder(folder.clone())).unwrap();
    let load = || {
        let mut options = common::options(KvType::F16);
        options.cache = CacheLocation::Folder(folder.clone());
        let gguf = Arc::new(Gguf::open(&fixture.model).unwrap());
        Engine::on_device(gguf, device.clone(), &options, &mut |_| ()).unwrap()
    };
    let text = &tokens(&fixture.load_reference(), "tokens_17");
    let read = |engine: &mut Engine| {
        let mut sequence = engine.sequence().unwrap();
        let all = engine.forward(&mut sequence, &text[..8], Want::All).unwrap();
        (bits(&all), bits(&engine.forward(&mut sequence, &text[8..9], Want::Last).unwrap()))
    };

    let mut plain = load();
    assert_eq!(
        (plain.summary().tiles, plain.summary().steps, plain.cut()),
        ("policy", "default", Cut::Policy)
    );
    let expected = read(&mut plain);
    let products = plain.products(8).unwrap();
    let mut tuned = Tuned::default();
    for p in &products {
        let shape = |up_to, columns| GemvShape {
            up_to,
            rows: 3,
            columns,
            spread: false,
            subgroups: 2,
            stage_bytes: 0,
        };
        tuned.insert(p.class, vec![shape(1, 1), shape(64, 2)]).unwrap();
    }
    let chunks = [(model_class(plain.model(), Precision::Exact), 3)].into();
    file.write(&Measured { tiles: tuned, chunks }).unwrap();

    let mut engine = load();
    assert_eq!((engine.summary().tiles, engine.summary().steps), ("tuned", "tuned"));
    assert_eq!(engine.prefill_path().chunk, 3);
    let cut = engine.products(3).unwrap();
    assert!(
        cut.iter()
            .filter(|p| p.columns > 1)
            .all(|p| matches!(p.product, Product::Columns(tile) if tile.columns <= 2 && tile.subgroups == 2)),
        "{cut:?}"
    );
    assert!(read(&mut engine) == expected, "tuned tiles and steps changed bits");

    std::fs::write(file.path(), "nonsense").unwrap();
    let engine = load();
    assert_eq!(engine.summary().tiles, "policy");
    assert!(
        engine.summary().notes.iter().any(|n| n.contains("are not used")),
        "{:?}",
        engine.summary().notes
    );
    let _ = std::fs::remove_dir_all(&folder);
}
