use super::*;
use proptest::prelude::*;

fn shared_shader() -> Vec<u32> {
    let bytes = include_bytes!("../tests/shaders/shared.spv");
    bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
}

#[test]
fn sizes_follow_specialisation() {
    let default = reflect(&shared_shader(), "main", &[]).unwrap();
    assert_eq!((default.workgroup_size, default.shared_bytes), ([64, 1, 1], 256));
    assert_eq!((default.push_constant_bytes, default.push_constant_addresses), (8, 1));
    assert_eq!(default.specialization_ids, [0]);
    assert_eq!(reflect(&shared_shader(), "main", &[(0, 5)]).unwrap().shared_bytes, 1280);
    assert_eq!(reflect(&shared_shader(), "main", &[(0, u32::MAX)]).unwrap().specialization_ids, [0]);
}

proptest! {
    #[test]
    fn damaged_modules_give_an_answer_or_an_error(at in 0usize..400, word: u32, keep in 0usize..500) {
        let mut module = shared_shader();
        let at = at % module.len();
        module[at] = word;
        module.truncate(keep.max(at + 1));
        let _ = reflect(&module, "main", &[(0, word)]);
    }
}
