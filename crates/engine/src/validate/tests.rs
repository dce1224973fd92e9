//! A reference that is another model: what only the comparison with the CPU can show.

use super::*;
use crate::LoadOptions;
use std::sync::Arc;
use zinc_gguf::Gguf;

/// The fixture with every element of a tensor of f32 times 1.5.
fn changed(tensor: &str) -> Arc<Gguf> {
    let path = &zinc_testkit::fixtures("qwen3")[0].model;
    let mut bytes = std::fs::read(path).unwrap();
    let gguf = Gguf::open(path).unwrap();
    let tensor = gguf.tensor(tensor).unwrap();
    for value in bytes[tensor.offset as usize..][..tensor.bytes as usize].as_chunks_mut::<4>().0 {
        *value = (f32::from_le_bytes(*value) * 1.5).to_le_bytes();
    }
    Arc::new(Gguf::from_bytes(bytes, "changed.gguf").unwrap())
}

#[test]
fn the_reference_names_the_first_operation_too() {
    let mut load = LoadOptions::new("");
    (load.context, load.chunk) = (Some(64), Some(4));
    let gguf = Arc::new(Gguf::open(&zinc_testkit::fixtures("qwen3")[0].model).unwrap());
    let device = zinc_vulkan::testing::device();
    let mut engine = Engine::on_device(gguf, device, &load, &mut |_| ()).unwrap();
    let options = ValidateOptions { reference: true, ..Default::default() };
    for (tensor, layer, op) in
        [("blk.1.ffn_norm.weight", Some(1), "ffn_norm"), ("output_norm.weight", None, "final_norm")]
    {
        let reference = Reference::new(changed(tensor), &engine.model.plan, 64).unwrap();
        engine.reference = Some(Box::new(reference));
        let mut sequence = engine.sequence().unwrap();
        engine.forward(&mut sequence, &[1, 2, 3], Want::None).unwrap();
        let report = engine.validate(&mut sequence, &[4, 5, 6, 7, 8, 9], &options).unwrap();
        let [single, reference] = &report.comparisons[..] else { panic!("two comparisons") };
        assert!(single.ok && !reference.ok && !report.ok, "{report}");
        let first = report.first.as_ref().unwrap_or_else(|| panic!("{tensor}: {report}"));
        assert_eq!((first.layer, first.op.as_str()), (layer, op), "{}", report.headline());
        assert_eq!(first.against, Against::CpuReference);
        // The head has the last row alone; a layer's first row is in the first step.
        assert_eq!((first.row, first.position), if layer.is_some() { (0, 3) } else { (5, 8) });
        assert!(report.headline().contains("the CPU reference"), "{}", report.headline());
        assert_eq!(sequence.len(), 3);
    }
}
