use super::*;
use proptest::prelude::*;

fn touch(buffer: u64, range: Range<u64>, access: Access) -> Touch {
    Touch { buffer, range, access }
}

#[test]
fn raw_war_and_waw_conflict_and_raw_free_pairs_do_not() {
    use Access::*;
    for (first, second, conflict) in [
        (Read, Read, false),
        (Write, Read, true),
        (Read, Write, true),
        (Write, Write, true),
        (ReadWrite, Read, true),
        (Read, ReadWrite, true),
        (ReadWrite, ReadWrite, true),
    ] {
        let mut hazards = Hazards::default();
        hazards.note(&[touch(1, 0..16, first)]);
        assert_eq!(hazards.conflicts(&[touch(1, 8..24, second)]), conflict, "{first:?} then {second:?}");
        assert!(!hazards.conflicts(&[touch(2, 8..24, second)]), "another buffer");
        assert!(!hazards.conflicts(&[touch(1, 16..24, second)]), "adjacent bytes");
        assert!(!hazards.conflicts(&[touch(1, 8..8, second)]), "no bytes");
        hazards.clear();
        assert!(!hazards.conflicts(&[touch(1, 8..24, second)]), "after a barrier");
    }
}

#[test]
fn accesses_of_one_operation_do_not_conflict_with_each_other() {
    let in_place = [touch(1, 0..16, Access::Read), touch(1, 0..16, Access::Write)];
    let mut hazards = Hazards::default();
    assert!(!hazards.conflicts(&in_place));
    hazards.note(&in_place);
    assert!(hazards.conflicts(&in_place));
}

fn any_touch() -> impl Strategy<Value = Touch> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::ReadWrite)];
    (0..3u64, 0..12u64, 0..5u64, access)
        .prop_map(|(buffer, at, len, access)| touch(buffer, at..at + len, access))
}

/// Byte by byte, over every pair of operations: must a barrier lie between them?
fn ordered_pairs_have_a_barrier(ops: &[Vec<Touch>], barrier_before: &[bool]) -> Result<(), String> {
    for later in 0..ops.len() {
        for earlier in 0..later {
            let clash = ops[earlier].iter().any(|a| {
                ops[later].iter().any(|b| {
                    let writes = a.access.writes() || b.access.writes();
                    writes && a.buffer == b.buffer && a.range.clone().any(|byte| b.range.contains(&byte))
                })
            });
            if clash && !barrier_before[earlier + 1..=later].contains(&true) {
                return Err(format!("no barrier between {earlier} and {later}"));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_hazard_has_a_barrier_and_every_barrier_a_hazard(
        ops in prop::collection::vec(prop::collection::vec(any_touch(), 1..4), 1..12)
    ) {
        let mut hazards = Hazards::default();
        let mut barriers = Vec::new();
        for op in &ops {
            let due = hazards.conflicts(op);
            if due {
                hazards.clear();
            }
            hazards.note(op);
            barriers.push(due);
        }
        prop_assert_eq!(ordered_pairs_have_a_barrier(&ops, &barriers), Ok(()));
        for i in 0..ops.len() {
            if barriers[i] {
                let mut fewer = barriers.clone();
                fewer[i] = false;
                // Those after it may hide it from the naive check, so look only as far as this operation.
                prop_assert!(ordered_pairs_have_a_barrier(&ops[..=i], &fewer[..=i]).is_err(), "barrier {} is idle", i);
            }
        }
    }
}
