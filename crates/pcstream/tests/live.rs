//! A trace read from disk gives the numbers that the same events gave while they happened.

use std::sync::Arc;

use pcstream_replay::{LaneSpec, Replay, StreamResult};
use pcstream_ssd::{DeviceSettings, GcDestination, Spare};
use pcstream_trace::{
    Batch, Context, ContextId, Event, File, FileId, Kind, Lba, Meta, Op, Signature, TraceReader, TraceWriter,
};
use proptest::prelude::*;

const PAGES: u64 = 1024;

fn lanes() -> Vec<LaneSpec> {
    let online = pcstream_placement::schemes().iter().filter(|s| !s.needs_future());
    let device = DeviceSettings {
        logical_pages: PAGES,
        spare: Spare::SpareFactor(0.5),
        superblock_pages: 16,
        gc_destination: GcDestination::Internal,
        ..DeviceSettings::default()
    };
    online.map(|s| LaneSpec::new(Arc::new(s.configure()), device.clone())).collect()
}

/// Batches as a capture makes them: new contexts and files now and then, a few events each.
fn batches(seeds: &[(u8, u16, u8, bool)]) -> Vec<Batch> {
    let (mut contexts, mut files) = (0, 0);
    let mut time_ns = 0;
    let batch = |chunk: &[(u8, u16, u8, bool)]| {
        let mut batch = Batch::default();
        for &(choice, place, length, new) in chunk {
            if new {
                contexts += 1;
                files += 1;
                batch.contexts.push(Context {
                    id: ContextId(contexts),
                    signature: Signature(u64::from(contexts)),
                    executable: format!("/bin/{}", contexts % 4),
                    ..Context::default()
                });
                let path = format!("/{files}.{}", ["log", "sst"][files as usize % 2]);
                batch.files.push(File { id: FileId(files), inode: u64::from(files), generation: 0, path });
            }
            time_ns += u64::from(length);
            let pages = u32::from(length % 20) + 1;
            batch.events.push(Event {
                time_ns,
                lba: Lba(u64::from(place) % (PAGES - u64::from(pages))),
                pages,
                context: ContextId(u32::from(choice) % (contexts + 1)),
                file: FileId(u32::from(place) % (files + 1)),
                file_page: 0,
                op: if choice % 8 == 0 { Op::Discard } else { Op::Write },
                kind: if choice % 5 == 0 { Kind::Journal } else { Kind::Data },
                hint: Default::default(),
            });
        }
        batch
    };
    seeds.chunks(7).map(batch).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn live_and_from_disk_are_the_same(seeds in prop::collection::vec(any::<(u8, u16, u8, bool)>(), 1..600)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.pctrace");
        let mut writer = TraceWriter::create(&path, Meta::new("test", PAGES), false).unwrap();
        let mut live = Replay::new(&lanes(), &[]).unwrap();
        for batch in batches(&seeds) {
            live.feed(&batch).unwrap();
            writer.write_batch(&batch).unwrap();
        }
        let summary = writer.finish(None).unwrap();
        prop_assert_eq!(&summary.meta.totals.host_pages, &live.writers().totals().host_pages);

        let mut disk = Replay::new(&lanes(), &[]).unwrap();
        for batch in TraceReader::open(&path).unwrap().batches() {
            disk.feed(&batch.unwrap()).unwrap();
        }
        prop_assert_eq!(live.tables(), disk.tables());
        for (live, disk) in live.results().iter().zip(disk.results()) {
            prop_assert_eq!(&live.counters, &disk.counters, "{}", live.scheme);
            prop_assert_eq!(live.waf().map(f64::to_bits), disk.waf().map(f64::to_bits));
            prop_assert_eq!(live.steady_waf().map(f64::to_bits), disk.steady_waf().map(f64::to_bits));
            prop_assert_eq!(&live.facts, &disk.facts);
            prop_assert_eq!(&live.stream_of_context, &disk.stream_of_context);
            for (live, disk) in live.streams.iter().zip(&disk.streams) {
                prop_assert_eq!(live.host_pages, disk.host_pages);
                let quartiles = |stream: &StreamResult| stream.lifetimes.as_ref().expect("kept").quartiles();
                prop_assert_eq!(quartiles(live), quartiles(disk));
            }
        }
    }
}
