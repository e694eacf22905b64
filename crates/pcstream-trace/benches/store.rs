//! Speed of writing and reading traces, in events per second, and their size, in bytes per event.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pcstream_trace::generators::{Common, Random, generate};
use pcstream_trace::*;

const EVENTS: u64 = 2_000_000;

/// What a capture of a key-value store looks like: files written from their beginning in runs of
/// mostly 32 pages, a few contexts, journal commits and barriers between them, discards of whole
/// files, and arrival times in bursts.
fn store_like() -> (Meta, Vec<Batch>) {
    let mut rng = Random::new(1);
    let device_pages = 4 << 20;
    let mut events = Vec::with_capacity(EVENTS as usize);
    let (mut time_ns, mut files) = (0, 1u32);
    // Two writers at a time: a log and a table file.
    let mut open = [(1u32, 0u64, 0u64), (2, 0, 0)];
    while events.len() < EVENTS as usize {
        time_ns += if rng.below(40) == 0 { rng.below(4_000_000) } else { 2_000 + rng.below(30_000) };
        let choice = rng.below(100);
        let mut event = Event { time_ns, ..Event::write(0, 32) };
        match choice {
            0..10 => {
                event.pages = 1 + rng.below(8) as u32;
                event.lba = Lba(1000 + rng.below(30_000));
                event.kind = Kind::Journal;
            }
            10..12 => (event.op, event.pages) = (Op::Flush, 0),
            _ => {
                let which = usize::from(choice > 30);
                let (file, page, start) = &mut open[which];
                if *page == 0 {
                    files += 1;
                    *file = files;
                    *start = 100_000 + rng.below((device_pages - 200_000) / 512) * 512;
                }
                event.pages = if which == 0 { 1 + rng.below(4) as u32 } else { 32 };
                event.context = ContextId(1 + which as u32 + rng.below(2) as u32);
                (event.file, event.file_page, event.lba) = (FileId(*file), *page, Lba(*start + *page));
                *page += u64::from(event.pages);
                if *page >= 512 - 32 {
                    *page = 0;
                    if rng.below(2) == 0 {
                        events.push(event);
                        (event.op, event.pages, event.lba) = (Op::Discard, 512, Lba(*start));
                        (event.context, event.file) = (ContextId::NONE, FileId::NONE);
                        event.file_page = 0;
                    }
                }
            }
        }
        events.push(event);
    }
    events.truncate(EVENTS as usize);
    let contexts = (1..=3).map(|id| Context::label(ContextId(id), &id.to_string())).collect();
    let file =
        |id| File { id: FileId(id), inode: u64::from(id), generation: 1, path: format!("/db/{id:06}.sst") };
    let first = Batch { contexts, files: (1..=files).map(file).collect(), events: Vec::new() };
    let rest = events.chunks(8192).map(|e| Batch { events: e.to_vec(), ..Batch::default() });
    (Meta::new("bench", device_pages), std::iter::once(first).chain(rest).collect())
}

fn generated(name: &str) -> (Meta, Vec<Batch>) {
    let generator =
        generate(name, Common { pages: 2 << 20, writes: EVENTS, seed: 1 }, &BTreeMap::new()).unwrap();
    (generator.meta().clone(), generator.collect())
}

fn write(path: &Path, meta: &Meta, batches: &[Batch]) -> Summary {
    let mut writer = TraceWriter::create(path, meta.clone(), true).unwrap();
    batches.iter().for_each(|batch| writer.write_batch(batch).unwrap());
    writer.finish(None).unwrap()
}

fn store(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut group = c.benchmark_group("store");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    let inputs =
        [("store-like", store_like()), ("uniform", generated("uniform")), ("zipf", generated("zipf"))];
    for (name, (meta, batches)) in &inputs {
        let summary = write(&path, meta, batches);
        println!("{name}: {:.2} bytes per event", summary.bytes as f64 / EVENTS as f64);
        let reader = TraceReader::open(&path).unwrap();
        group.bench_function(format!("read/{name}"), |b| {
            b.iter(|| {
                let pages = |batch: Batch| batch.events.iter().map(|e| u64::from(e.pages)).sum::<u64>();
                reader.batches().map(|batch| pages(black_box(batch.unwrap()))).sum::<u64>()
            })
        });
        group.bench_function(format!("write/{name}"), |b| {
            b.iter_batched(|| (), |()| write(&path, meta, batches), BatchSize::PerIteration)
        });
    }
    group.finish();
    let mut group = c.benchmark_group("generate");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    for name in ["uniform", "hotcold", "zipf"] {
        let common = Common { pages: 2 << 20, writes: EVENTS, seed: 1 };
        group.bench_function(name, |b| {
            b.iter(|| {
                generate(name, common, &BTreeMap::new())
                    .unwrap()
                    .map(|batch| batch.events.len())
                    .sum::<usize>()
            })
        });
    }
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
