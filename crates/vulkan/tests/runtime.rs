//! Recording, dispatching and submitting on the shared test device, with the validation layer listening.

mod common;
use common::*;
use zinc_vulkan::testing::{assert_valid, device};
use zinc_vulkan::*;

#[test]
fn copy_fill_and_dispatch_arrive_in_order() {
    let device = device();
    let n = 1000;
    let x = device_words(&device, n, |i| i);
    let y = device_words(&device, n, |_| u32::MAX);
    let z = device_words(&device, n, |_| u32::MAX);
    let result = device.alloc(MemoryKind::Readback, u64::from(n) * 4, "result").unwrap().all();
    let pipeline = affine(&device, 7);
    let mut recorder = recorder(&device, "round trip");
    recorder.fill(&z.slice(0, 400).unwrap(), 0x01020304).unwrap();
    recorder
        .dispatch(&Dispatch {
            pipeline: &pipeline,
            bindings: &[Binding::read(&x), Binding::write(&y)],
            params: &params(&[n, 3]),
            groups: [n.div_ceil(64), 1, 1],
            label: "affine",
        })
        .unwrap();
    recorder.copy(&y.slice(400, 3600).unwrap(), &z.slice(400, 3600).unwrap()).unwrap();
    recorder.copy(&z, &result).unwrap();
    let commands = recorder.finish().unwrap();
    device.submit(&[&commands]).unwrap().wait().unwrap();
    let got: Vec<u32> = result.read_as().unwrap();
    let expected: Vec<u32> = (0..n).map(|i| if i < 100 { 0x01020304 } else { i * 3 + 7 }).collect();
    assert_eq!(got, expected);
    assert_eq!(commands.stats(), Stats { dispatches: 1, transfers: 3, barriers: 2, parts: 1 });
    assert_valid();
}

#[test]
fn specialization_constants_reach_the_shader() {
    let device = device();
    let x = device_words(&device, 64, |i| i);
    for add in [0, 5, u32::MAX] {
        let y = device_words(&device, 64, |_| 0);
        run(&device, &affine(&device, add), &x, &y, &[64, 1], 1);
        let got: Vec<u32> = device.download_as(&y).unwrap();
        assert!(got.iter().enumerate().all(|(i, &v)| v == (i as u32).wrapping_add(add)), "add {add}");
    }
    let reflection = affine(&device, 0).reflection().clone();
    assert_eq!((reflection.workgroup_size, reflection.specialization_ids), ([64, 1, 1], vec![0, 1]));
    assert_eq!((reflection.push_constant_bytes, reflection.push_constant_addresses), (24, 2));
    assert_valid();
}

fn run(device: &Device, pipeline: &Pipeline, x: &Slice, y: &Slice, values: &[u32], groups: u32) {
    let mut recorder = recorder(device, "run");
    let bindings = [Binding::read(x), Binding::write(y)];
    let (params, groups, label) = (&params(values)[..], [groups, 1, 1], "run");
    recorder.dispatch(&Dispatch { pipeline, bindings: &bindings, params, groups, label }).unwrap();
    device.submit(&[&recorder.finish().unwrap()]).unwrap().wait().unwrap();
}

#[test]
fn the_required_subgroup_size_is_what_the_shader_sees() {
    let device = device();
    let subgroup = device.capabilities().subgroup;
    let spirv = subgroup_words();
    let specialization = [(0, 64)];
    let make = |size| {
        let desc =
            PipelineDesc { name: "subgroup", spirv: &spirv, specialization: &specialization, ..desc(1, 0) };
        device.pipeline(&PipelineDesc { subgroup_size: Some(size), ..desc })
    };
    let mut size = 1;
    while size <= 128 {
        match make(size) {
            Ok(pipeline) => {
                assert!((subgroup.min_size..=subgroup.max_size).contains(&size));
                let y = device.alloc(MemoryKind::Device, 64 * 8, "y").unwrap().all();
                let mut recorder = recorder(&device, "subgroup");
                let bindings = [Binding::write(&y)];
                let (groups, label) = ([1, 1, 1], "subgroup");
                let op = Dispatch { pipeline: &pipeline, bindings: &bindings, params: &[], groups, label };
                recorder.dispatch(&op).unwrap();
                device.submit(&[&recorder.finish().unwrap()]).unwrap().wait().unwrap();
                let got: Vec<[u32; 2]> = device.download_as(&y).unwrap();
                assert_eq!(got, vec![[size, size * (size - 1) / 2]; 64]);
            }
            Err(e) => {
                assert!(!device.capabilities().supports_subgroup_size(size), "{e}");
                assert!(e.to_string().contains(&format!("a subgroup size of {size} is required")), "{e}");
            }
        }
        size *= 2;
    }
    assert!(make(subgroup.size).is_ok());
    assert_valid();
}

#[test]
fn chains_of_dependent_dispatches_are_ordered_by_derived_barriers() {
    let device = device();
    let n = 64 * 1024;
    let a = device_words(&device, n, |i| i);
    let b = device_words(&device, n, |_| 0);
    let other = device_words(&device, n, |_| 0);
    let pipeline = shift(&device);
    let mut recorder = recorder(&device, "chain");
    let mut step = |x: &Slice, y: &Slice| {
        let bindings = [Binding::read(x), Binding::write(y)];
        let (params, groups, label) = (&params(&[n, n / 2 + 1])[..], [n / 64, 1, 1], "shift");
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label })
            .unwrap();
    };
    step(&a, &b); // nothing before it
    step(&a, &other); // reads the same, writes elsewhere: no barrier
    step(&b, &a); // RAW on b, WAR on a: one barrier
    step(&a, &b); // RAW on a
    let commands = recorder.finish().unwrap();
    assert_eq!(commands.stats().barriers, 2);
    device.submit(&[&commands]).unwrap().wait().unwrap();
    let got: Vec<u32> = device.download_as(&b).unwrap();
    let expected: Vec<u32> = (0..n).map(|i| (i + 3 * (n / 2 + 1)) % n + 3).collect();
    assert!(got == expected);
    assert_valid();
}

#[test]
fn commands_are_replayed_with_other_contents() {
    let device = device();
    let x = device.alloc(MemoryKind::Upload, 256, "x").unwrap().all();
    let y = device.alloc(MemoryKind::Readback, 256, "y").unwrap().all();
    let pipeline = affine(&device, 1);
    let mut recorder = recorder(&device, "replay");
    let bindings = [Binding::read(&x), Binding::write(&y)];
    let (params, groups, label) = (&params(&[64, 2])[..], [1, 1, 1], "affine");
    recorder.dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label }).unwrap();
    let commands = recorder.finish().unwrap();
    for round in 0..5u32 {
        x.write_as(&[round; 64]).unwrap();
        let ticket = device.submit(&[&commands]).unwrap();
        ticket.wait().unwrap();
        assert!(ticket.done().unwrap());
        assert_eq!(y.read_as::<u32>().unwrap(), vec![round * 2 + 1; 64]);
    }
    assert_valid();
}

#[test]
fn submissions_in_a_row_see_each_others_results() {
    let device = device();
    let x = device_words(&device, 64, |_| 1);
    let pipeline = affine(&device, 0);
    let record = |simultaneous| {
        let options = RecorderOptions { label: "double".into(), simultaneous, ..Default::default() };
        let mut recorder = device.recorder(&options).unwrap();
        let bindings = [Binding::read_write(&x), Binding::read_write(&x)];
        let (params, groups, label) = (&params(&[64, 2])[..], [1, 1, 1], "double");
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label })
            .unwrap();
        recorder.finish().unwrap()
    };
    let many = record(true);
    let mut last = device.submit(&[&many, &many]).unwrap();
    for _ in 0..8 {
        last = device.submit(&[&many]).unwrap();
    }
    last.wait().unwrap();
    assert_eq!(device.download_as::<u32>(&x).unwrap(), vec![1 << 10; 64]);
    let once = record(false);
    assert_eq!(
        device.submit(&[&once, &once]).unwrap_err(),
        Error::InFlight { label: "double".into() },
        "one command buffer twice in one submission"
    );
    assert_valid();
}

#[test]
fn workgroup_counts_written_by_a_dispatch_are_read_by_the_next() {
    let device = device();
    let pipeline = affine(&device, 1);
    let zeros = device_words(&device, 3, |i| [3, 0, 0][i as usize]);
    let counts = device_words(&device, 3, |_| 99);
    let x = device_words(&device, 64 * 8, |i| i);
    let y = device_words(&device, 64 * 8, |_| 0);
    let mut recorder = recorder(&device, "indirect");
    let write_counts = [Binding::read(&zeros), Binding::write(&counts)];
    let (params3, label) = (&params(&[3, 1])[..], "counts"); // [4, 1, 1]
    let op =
        Dispatch { pipeline: &pipeline, bindings: &write_counts, params: params3, groups: [1, 1, 1], label };
    recorder.dispatch(&op).unwrap();
    let bindings = [Binding::read(&x), Binding::write(&y)];
    let (all, label) = (&params(&[64 * 8, 1])[..], "indirect");
    let op =
        DispatchIndirect { pipeline: &pipeline, bindings: &bindings, params: all, groups: &counts, label };
    recorder.dispatch_indirect(&op).unwrap();
    recorder.dispatch_indirect(&op).unwrap(); // WAW on y
    recorder.fill(&counts, 0).unwrap(); // WAR on the counts
    let commands = recorder.finish().unwrap();
    assert_eq!(commands.stats().barriers, 3);
    device.submit(&[&commands]).unwrap().wait().unwrap();
    let got: Vec<u32> = device.download_as(&y).unwrap();
    assert!((0..64 * 8).all(|i| got[i as usize] == if i < 64 * 4 { i + 1 } else { 0 }), "{got:?}");
    assert_valid();
}

#[test]
fn work_split_by_cost_gives_the_same_result_in_several_submissions() {
    let device = device();
    let x = device_words(&device, 64, |_| 1);
    let pipeline = affine(&device, 1);
    let options =
        RecorderOptions { label: "split".into(), max_cost: Some(10), timestamps: true, ..Default::default() };
    let mut recorder = device.recorder(&options).unwrap();
    for _ in 0..10 {
        let bindings = [Binding::read_write(&x), Binding::read_write(&x)];
        recorder.cost(4).unwrap();
        let (params, groups, label) = (&params(&[64, 2])[..], [1, 1, 1], "double");
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label })
            .unwrap();
    }
    let commands = recorder.finish().unwrap();
    assert_eq!(commands.stats().parts, 5, "two of cost 4 within 10");
    device.submit(&[&commands]).unwrap().wait().unwrap();
    assert_eq!(device.download_as::<u32>(&x).unwrap(), vec![(1 << 11) - 1; 64]);
    assert_eq!(commands.timings().unwrap().len(), 10);
    assert_valid();
}

#[test]
fn every_operation_is_timed() {
    let device = device();
    assert!(device.capabilities().features.timestamps);
    let n = 64 * 4096;
    let x = device_words(&device, n, |i| i);
    let y = device_words(&device, n, |i| i);
    let pipeline = affine(&device, 1);
    let options = RecorderOptions { label: "timed".into(), timestamps: true, ..Default::default() };
    let mut recorder = device.recorder(&options).unwrap();
    let count = 600; // more than a query pool holds
    for i in 0..count {
        let bindings = [Binding::read(&x), Binding::write(&y)];
        let groups = [if i == 0 { n / 64 } else { 1 }, 1, 1];
        let (params, label) = (&params(&[n, 2])[..], format!("op {i}"));
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label: &label })
            .unwrap();
    }
    let commands = recorder.finish().unwrap();
    assert!(matches!(commands.timings(), Err(Error::Record { .. })), "not submitted yet");
    for _ in 0..2 {
        device.submit(&[&commands]).unwrap().wait().unwrap();
        let timings = commands.timings().unwrap();
        assert_eq!(timings.len(), count);
        assert!(timings.iter().enumerate().all(|(i, t)| t.label == format!("op {i}")));
        assert!(timings.iter().all(|t| (0.0..60e9).contains(&t.nanoseconds)));
        assert!(timings[0].nanoseconds > 0.0);
    }
    assert_valid();
}

#[test]
fn uploads_larger_than_the_ring_arrive_whole() {
    let device = device();
    let mut ring = StagingRing::new(&device, 64 * 1024).unwrap();
    let mut expected = Vec::new();
    let mut random = random(1);
    for bytes in [1, 15, 16, 4096, 64 * 1024, 1_000_003, 0, 300_000] {
        let to = device.alloc(MemoryKind::Device, bytes, "target").unwrap().all();
        let data: Vec<u8> = (0..bytes).map(|_| random()).collect();
        ring.upload(&to, &data).unwrap();
        expected.push((to, data));
    }
    let counted = device.alloc(MemoryKind::Device, 200_000, "counted").unwrap().slice(8, 190_000).unwrap();
    ring.upload_with(&counted, |offset, piece| {
        assert!(offset % 16 == 0 && piece.len() <= 16 * 1024);
        piece.iter_mut().enumerate().for_each(|(i, b)| *b = (offset as usize + i) as u8);
    })
    .unwrap();
    ring.flush().unwrap();
    for (to, data) in &expected {
        assert!(device.download(to).unwrap() == *data, "{} bytes", data.len());
    }
    assert!(device.download(&counted).unwrap().iter().enumerate().all(|(i, &b)| b == i as u8));
    assert!(matches!(ring.upload(&counted, &[1, 2]), Err(Error::Range { .. })));
    assert_valid();
}

#[test]
fn an_arena_with_a_low_chunk_limit_holds_what_its_plan_says() {
    let device = device();
    let mut plan = ArenaPlan::new("small", 4096);
    let sizes = [3000u64, 3000, 1000, 4096, 16, 500, 2000];
    let placements: Vec<Placement> = sizes.iter().map(|&bytes| plan.add(bytes, 16).unwrap()).collect();
    assert!(plan.chunks().len() > 2);
    let arena = Arena::new(&device, MemoryKind::Device, &plan).unwrap();
    let slices: Vec<Slice> = placements.iter().map(|&p| arena.slice(p).unwrap()).collect();
    for (i, slice) in slices.iter().enumerate() {
        assert_eq!(slice.address() % 16, 0);
        device.upload(slice, &vec![i as u8; slice.len() as usize]).unwrap();
    }
    for (i, slice) in slices.iter().enumerate() {
        assert!(device.download(slice).unwrap().iter().all(|&b| b == i as u8), "piece {i} was overwritten");
    }
    let mut huge = ArenaPlan::new("huge", device.max_buffer());
    for _ in 0..2000 {
        huge.add(device.max_buffer(), 256).unwrap();
    }
    let error = Arena::new(&device, MemoryKind::Device, &huge).unwrap_err();
    assert!(matches!(&error, Error::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().contains("GiB short"), "{error}");
    assert_valid();
}

#[test]
fn dropping_commands_in_flight_waits_for_them() {
    let device = device();
    let n = 64 * 65535;
    let pipeline = affine(&device, 1);
    let y = device_words(&device, n, |_| 0);
    let ticket = {
        let x = device_words(&device, n, |i| i);
        let mut recorder = recorder(&device, "dropped");
        let bindings = [Binding::read(&x), Binding::write(&y)];
        let (params, groups, label) = (&params(&[n, 1])[..], [n / 64, 1, 1], "affine");
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label })
            .unwrap();
        let commands = recorder.finish().unwrap();
        let ticket = device.submit(&[&commands]).unwrap();
        drop((x, commands, pipeline));
        ticket
    };
    assert!(ticket.done().unwrap());
    let got: Vec<u32> = device.download_as(&y).unwrap();
    assert!(got.iter().enumerate().all(|(i, &v)| v == i as u32 + 1));
    assert_valid();
}

#[test]
fn a_wait_that_runs_out_names_what_was_waited_for() {
    let device = device();
    let n = 64 * 65535;
    let x = device_words(&device, n, |_| 1);
    let pipeline = shift(&device);
    let mut recorder = recorder(&device, "long step");
    for _ in 0..32 {
        let bindings = [Binding::read(&x), Binding::write(&x)];
        let (params, groups, label) = (&params(&[n, 1])[..], [n / 64, 1, 1], "shift");
        recorder
            .dispatch(&Dispatch { pipeline: &pipeline, bindings: &bindings, params, groups, label })
            .unwrap();
    }
    let commands = recorder.finish().unwrap();
    let ticket = device.submit(&[&commands]).unwrap();
    let error = ticket.wait_for(std::time::Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("`long step` did not finish within 0 s"), "{error}");
    assert_eq!(device.submit(&[&commands]).unwrap_err(), Error::InFlight { label: "long step".into() });
    ticket.wait().unwrap();
    assert_valid();
}

#[test]
fn equal_pipelines_are_one() {
    let device = device();
    let (a, b, c) = (affine(&device, 1), affine(&device, 1), affine(&device, 2));
    assert!(std::ptr::eq(a.reflection(), b.reflection()));
    assert!(!std::ptr::eq(a.reflection(), c.reflection()));
}
