//! What a wrong lifetime costs: traces on which a scheme by chunks of 1 MiB learns the wrong writer's lifetimes, and one
//! by pages does not.

use std::sync::Arc;

use pcstream_placement::configure;
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::pcstream::lifetime::Chunk;
use pcstream_replay::{LaneSpec, Replay};
use pcstream_ssd::{DeviceSettings, GcDestination, Spare};
use pcstream_trace::{Batch, Context, ContextId, Event, Op, Signature};

const PAGES: u64 = 32 * 1024;
/// Pages of an object and of a temporary file.
const OBJECT: u32 = 8;
/// Objects of a MiB, the temporary file left out.
const OBJECTS: u64 = 31;
const CLASSES: u64 = 4;

fn event(op: Op, context: u64, lba: u64) -> Event {
    Event { context: ContextId(context as u32), op, ..Event::write(lba, OBJECT) }
}

/// A compiler, from afar: four kinds of objects, each replaced four times as often as the next. Each time a temporary
/// file in the same MiB is written before, and deleted after. Contexts 1 to 4 write the objects, 5 to 8 the temporaries.
fn compiler() -> Batch {
    let contexts = (1..=2 * CLASSES as u32)
        .map(|id| Context {
            id: ContextId(id),
            signature: Signature(u64::from(id)),
            executable: format!("class{id}"),
            ..Context::default()
        })
        .collect();
    let (mut state, mut events) = (1u64, Vec::new());
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut replace = |object: u64, class: u64| {
        let (mib, place) = (object / OBJECTS * 256, object % OBJECTS);
        events.push(event(Op::Write, 1 + CLASSES + class, mib));
        events.push(event(Op::Write, 1 + class, mib + (1 + place) * u64::from(OBJECT)));
        events.push(event(Op::Discard, 1 + CLASSES + class, mib));
    };
    let objects = PAGES / 256 * OBJECTS;
    (0..objects).for_each(|object| replace(object, object % CLASSES));
    for _ in 0..10 * objects {
        let class = match random(85) {
            0..64 => 0,
            64..80 => 1,
            80..84 => 2,
            _ => 3,
        };
        replace(random(objects / CLASSES) * CLASSES + class, class);
    }
    Batch { events, contexts, files: Vec::new() }
}

fn waf(scheme: &str, chunk: Chunk, batch: &Batch) -> f64 {
    let device = DeviceSettings {
        logical_pages: PAGES,
        spare: Spare::SpareFactor(0.15),
        superblock_pages: 256,
        streams: 9,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    };
    let mut scheme = configure(scheme).expect("known");
    if let Some(params) = scheme.params_mut::<PcStreamParams>() {
        params.lifetime.chunk = chunk;
    }
    let lane = LaneSpec::new(Arc::new(scheme), device);
    let mut replay = Replay::new(&[lane], &[]).expect("a good device");
    replay.feed(batch).expect("legal events");
    replay.results()[0].waf().expect("it wrote")
}

#[test]
fn a_discard_of_one_file_ends_no_lifetime_of_its_neighbours() {
    let batch = compiler();
    let baseline = waf("baseline", Chunk::Page, &batch);
    let chunks = waf("pcstream-paper", Chunk::Pages(256), &batch);
    let exact = waf("pcstream", Chunk::Page, &batch);
    assert!(chunks > 0.95 * baseline, "chunks of 1 MiB: {chunks}, baseline {baseline}");
    assert!(exact < 0.7 * baseline, "pages: {exact}, baseline {baseline}");
}
