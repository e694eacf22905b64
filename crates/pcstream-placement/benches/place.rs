//! Cost of placing one 4 KiB write, per scheme, in the steady state. A lap is a million events over
//! 8 GiB of address space, so that tables are of a realistic size; the number is for all of it.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pcstream_placement::{Ahead, Environment, Future, schemes};
use pcstream_trace::{Context, ContextId, Event, File, FileId, Signature, Tables};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SEED: u64 = 1;
const EVENTS: usize = 1 << 20;
const PAGES: u64 = 2 << 20;
const CONTEXTS: u32 = 30;
const FILES: u32 = 1000;

fn tables() -> Tables {
    let mut tables = Tables::default();
    for id in 1..=CONTEXTS {
        tables.push_context(Context {
            id: ContextId(id),
            signature: Signature(u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            executable: format!("/usr/bin/program{}", id % 5),
            ..Context::default()
        });
    }
    for id in 1..=FILES {
        let extension = ["sst", "log", "o", "db"][id as usize % 4];
        tables.push_file(File { id: FileId(id), path: format!("/d/{id}.{extension}"), ..File::default() });
    }
    tables
}

/// Single pages: four fifths to a fifth of the space. Each context keeps to its own region, as each
/// file does, so that contexts differ in lifetime.
fn events() -> Vec<Event> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    (0..EVENTS)
        .map(|i| {
            let hot = random.random_range(0..5) > 0;
            let lba =
                if hot { random.random_range(0..PAGES / 5) } else { random.random_range(PAGES / 5..PAGES) };
            Event {
                time_ns: i as u64 * 10_000,
                context: ContextId(1 + (lba * u64::from(CONTEXTS) / PAGES) as u32),
                file: FileId(1 + (lba * u64::from(FILES) / PAGES) as u32),
                file_page: lba,
                ..Event::write(lba, 1)
            }
        })
        .collect()
}

fn place(c: &mut Criterion) {
    let (tables, events) = (tables(), events());
    let mut params = Environment::new(9).expect("9 streams");
    // Laps go on in logical time; schemes that know the future know one of them.
    params.future = Some(Arc::new(Future::from_events(&events).expect("a million pages")));
    let mut group = c.benchmark_group("place");
    group.throughput(Throughput::Elements(EVENTS as u64)).sample_size(10);
    for info in schemes() {
        let mut scheme = info.build(&params).expect(info.name);
        let (mut now, mut out) = (0, Vec::new());
        group.bench_function(info.name, |b| {
            b.iter(|| {
                if info.needs_future() {
                    now = 0;
                }
                for (at, event) in events.iter().enumerate() {
                    // As a replay does.
                    for (ahead, by) in [(Ahead::Far, 12), (Ahead::Near, 5)] {
                        if let Some(later) = events.get(at + by) {
                            scheme.prefetch(later, ahead);
                        }
                    }
                    out.clear();
                    scheme.place(event, now, &tables, &mut out);
                    now += 1;
                    black_box(&out);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, place);
criterion_main!(benches);
