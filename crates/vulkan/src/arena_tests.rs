use super::*;

#[test]
fn placements_are_aligned_inside_one_chunk_and_do_not_overlap() {
    let mut plan = ArenaPlan::new("weights", 10_000);
    let sizes = [1, 4000, 4096, 7000, 256, 10_000, 3, 0, 999, 2048];
    let placed: Vec<Placement> = sizes.iter().map(|&bytes| plan.add(bytes, 512).unwrap()).collect();
    for (i, a) in placed.iter().enumerate() {
        assert_eq!((a.len, a.offset % 512), (sizes[i], 0));
        assert!(a.offset + a.len <= plan.chunks()[a.chunk], "{a:?} ends behind its chunk");
        for b in &placed[..i] {
            let apart = a.chunk != b.chunk || a.offset + a.len <= b.offset || b.offset + b.len <= a.offset;
            assert!(apart, "{a:?} and {b:?} overlap");
        }
    }
    assert!(plan.chunks().iter().all(|&bytes| bytes <= 10_000));
    assert_eq!(plan.total(), plan.chunks().iter().sum::<u64>());
    assert!(plan.chunks().len() <= 5, "small pieces fill the gaps of earlier chunks: {:?}", plan.chunks());
}

#[test]
fn what_exceeds_a_chunk_and_odd_alignments_are_refused() {
    let mut plan = ArenaPlan::new("weights", 10_000);
    let error = plan.add(10_001, 256).unwrap_err();
    assert_eq!(error, Error::TooLarge { label: "weights".into(), bytes: 10_001, limit: 10_000 });
    for align in [0, 3, 768, 1 << 17, u64::MAX] {
        assert!(matches!(plan.add(1, align), Err(Error::Range { .. })), "align {align}");
    }
    assert_eq!(plan.total(), 0);
    let mut huge = ArenaPlan::new("huge", u64::MAX);
    huge.add(u64::MAX, 1).unwrap();
    assert_eq!(huge.add(1, 1).unwrap().chunk, 1);
    assert_eq!(huge.total(), u64::MAX);
}
