//! The sink behind `kfunc`, `fdp-server`, `program`, and `none` where programs ask: it fills the BPF program's table of
//! streams. The sinks differ in who reads the table.
//!
//! Idea: the kernel knows contexts by keys of its own, and looks their streams up in the table. Each key has two versions of
//! its stream, and one number says which version counts. A clustering writes the version that does not count, then
//! switches: all contexts change at once, and no request ever waits for user space.
//!
//! Units: write streams as devices number them, from 1. Stream 1 is where writes without a stream go, so S0 is none (0), and
//! Sn is stream n + 1.
//!
//! Invariants: a key's two versions differ between the first write of a clustering and its switch only. What is not in
//! the table gets no stream.

use pcstream_placement::Stream;
use pcstream_trace::ContextId;
use pcstream_ublk::IT_TAKES;
use rustc_hash::FxHashMap;

use crate::contexts::{Changes, Decisions};
use crate::device::Device;
use crate::sink::{STREAMS_MAX, Sink, SinkFact, StreamTable, StreamUse};

/// The write streams of a device, if it has several.
pub fn several(device: &Device) -> Result<u32, String> {
    let (name, streams) = (&device.name, device.write_streams);
    if streams > 1 {
        return Ok(streams);
    }
    Err(format!("{name} has {}; {IT_TAKES}", too_few(streams)))
}

/// How many write streams a device has that has not several.
pub fn too_few(streams: u32) -> &'static str {
    if streams == 0 { "no write streams" } else { "1 write stream" }
}

/// Streams that a scheme has: S0 takes the device's first, where writes without a stream go.
pub fn streams(device: &Device) -> u8 {
    of_scheme(device.write_streams)
}

/// The same of so many write streams.
pub fn of_scheme(write_streams: u32) -> u8 {
    write_streams.clamp(2, STREAMS_MAX.into()) as u8
}

/// Fills the BPF program's table of streams.
pub struct StreamTableSink {
    name: &'static str,
    table: Option<Box<dyn StreamTable>>,
    /// By key: the context, and the stream that counts.
    keys: FxHashMap<u64, (ContextId, u8)>,
    version: u32,
    switches: u64,
    failed: u64,
}

impl StreamTableSink {
    /// The sink of this name that does so.
    pub fn named(name: &'static str) -> StreamTableSink {
        StreamTableSink { name, table: None, keys: FxHashMap::default(), version: 0, switches: 0, failed: 0 }
    }

    fn put(&mut self, key: u64, versions: [u8; 2]) {
        if let Some(table) = &mut self.table
            && table.put(key, versions).is_err()
        {
            self.failed += 1;
        }
    }

    /// The two versions of a key's stream, of which the one that does not count is `next`.
    fn versions(&self, now: u8, next: u8) -> [u8; 2] {
        if self.version == 0 { [now, next] } else { [next, now] }
    }

    /// Keys whose stream is another: key, stream before, stream now.
    fn changed(&mut self, decisions: &Decisions) -> Vec<(u64, u8, u8)> {
        let mut changed = Vec::new();
        for (&key, (context, stream)) in &mut self.keys {
            let before = std::mem::replace(stream, number(decisions.of(*context).stream));
            if before != *stream {
                changed.push((key, before, *stream));
            }
        }
        changed
    }

    /// All that changed takes effect at once.
    fn switch(&mut self, changed: &[(u64, u8, u8)]) {
        for &(key, before, now) in changed {
            self.put(key, self.versions(before, now));
        }
        let next = 1 - self.version;
        if let Some(table) = &mut self.table
            && table.switch(next).is_err()
        {
            self.failed += 1;
        } else {
            self.version = next;
            self.switches += 1;
        }
        changed.iter().for_each(|&(key, _, now)| self.put(key, [now, now]));
    }
}

impl Sink for StreamTableSink {
    fn name(&self) -> &'static str {
        self.name
    }

    fn connect(&mut self, table: Box<dyn StreamTable>) {
        self.table = Some(table);
        let known: Vec<_> = self.keys.iter().map(|(&key, &(_, stream))| (key, stream)).collect();
        known.into_iter().for_each(|(key, stream)| self.put(key, [stream, stream]));
        // The kernel begins with version 0.
        if self.version != 0
            && let Some(table) = &mut self.table
            && table.switch(self.version).is_err()
        {
            self.failed += 1;
        }
    }

    fn keys(&mut self, keys: &[(u64, ContextId)], decisions: &Decisions) {
        for &(key, context) in keys {
            let stream = number(decisions.of(context).stream);
            self.keys.insert(key, (context, stream));
            self.put(key, [stream, stream]);
        }
    }

    fn contexts(&mut self, changes: &Changes, decisions: &Decisions) {
        let changed = self.changed(decisions);
        if changed.is_empty() {
            return;
        }
        if changes.clustered {
            self.switch(&changed);
        } else {
            changed.iter().for_each(|&(key, _, now)| self.put(key, [now, now]));
        }
    }

    fn uses(&self) -> Vec<StreamUse> {
        self.table.as_ref().and_then(|table| table.uses().ok()).unwrap_or_default()
    }

    fn facts(&self) -> Vec<SinkFact> {
        let uses = self.uses();
        let sum = |of: fn(&StreamUse) -> u64| uses.iter().map(of).sum::<u64>();
        let with = |stream: &StreamUse| if stream.write_stream > 0 { stream.pages } else { 0 };
        vec![
            ("stream_switches", self.switches),
            ("pages_with_stream", sum(with)),
            ("pages_of_minorities", sum(|stream| stream.minority_pages)),
            ("pages_with_streams_of_programs", sum(|stream| stream.pages_of_programs)),
        ]
    }

    fn losses(&self) -> Vec<SinkFact> {
        let refused = self.uses().iter().map(|stream| stream.refused_pages).sum();
        let uncounted = self.table.as_ref().is_some_and(|table| table.uses().is_err());
        vec![
            ("streams_not_entered", self.failed),
            ("pages_whose_stream_was_refused", refused),
            ("stream_counts_unreadable", uncounted.into()),
        ]
    }
}

/// A stream as the device numbers it; 0: none.
fn number(stream: Stream) -> u8 {
    if stream == Stream::DEFAULT { 0 } else { stream.0 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::testing::decided;
    use crate::testing::are_documented;
    use pcstream_fs::extents::DeviceNumber;
    use pcstream_fs::scratch::FsKind;
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::{Arc, Mutex, MutexGuard};

    /// What the BPF program would see, after every step.
    #[derive(Default)]
    struct Seen {
        table: BTreeMap<u64, [u8; 2]>,
        version: usize,
        /// The streams that count, after each step.
        history: Vec<BTreeMap<u64, u8>>,
        full: bool,
    }

    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<Seen>>);

    impl Fake {
        fn seen(&self) -> MutexGuard<'_, Seen> {
            self.0.lock().expect("nobody panicked")
        }

        fn step(&self, change: impl FnOnce(&mut Seen)) {
            let mut seen = self.seen();
            change(&mut seen);
            let now = seen.table.iter().map(|(&key, versions)| (key, versions[seen.version])).collect();
            seen.history.push(now);
        }
    }

    impl StreamTable for Fake {
        fn put(&mut self, key: u64, versions: [u8; 2]) -> io::Result<()> {
            if self.seen().full {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.step(|seen| _ = seen.table.insert(key, versions));
            Ok(())
        }

        fn switch(&mut self, version: u32) -> io::Result<()> {
            self.step(|seen| seen.version = version as usize);
            Ok(())
        }

        fn uses(&self) -> io::Result<Vec<StreamUse>> {
            let of = |write_stream, pages, refused_pages| StreamUse {
                write_stream,
                pages,
                refused_pages,
                ..StreamUse::default()
            };
            Ok(vec![of(0, 3, 0), of(2, 5, 1), of(3, 7, 0)])
        }
    }

    fn clustered(contexts: &[u32]) -> Changes {
        Changes { contexts: contexts.iter().map(|&id| ContextId(id)).collect(), clustered: true }
    }

    #[test]
    fn the_document_names_every_count() {
        let sink = StreamTableSink::named("kfunc");
        are_documented("Statistics of place", sink.facts().into_iter().map(|(name, _)| name));
        are_documented("Losses of place", sink.losses().into_iter().map(|(name, _)| name));
    }

    #[test]
    fn a_clustering_changes_all_contexts_at_once() {
        let fake = Fake::default();
        let mut sink = StreamTableSink::named("kfunc");
        sink.connect(Box::new(fake.clone()));
        sink.keys(&[(71, ContextId(1)), (72, ContextId(1)), (73, ContextId(2))], &decided(&[1, 2]));
        for (round, streams) in [[2, 1], [1, 2], [0, 3]].into_iter().enumerate() {
            let before = std::mem::take(&mut fake.seen().history).pop().expect("some");
            sink.contexts(&clustered(&[1, 2]), &decided(&streams));
            let [one, two] = streams.map(|stream| if stream == 0 { 0 } else { stream + 1 });
            let after = BTreeMap::from([(71, one), (72, one), (73, two)]);
            let seen = fake.seen();
            assert!(seen.history.iter().all(|now| *now == before || *now == after), "round {round}");
            assert_eq!(seen.history.last(), Some(&after), "round {round}");
            assert!(seen.table.values().all(|versions| versions[0] == versions[1]), "round {round}");
        }
        assert_eq!(sink.facts()[..2], [("stream_switches", 3), ("pages_with_stream", 12)]);
        assert_eq!(sink.losses()[..2], [("streams_not_entered", 0), ("pages_whose_stream_was_refused", 1)]);
    }

    #[test]
    fn what_becomes_known_is_entered_without_a_switch() {
        let fake = Fake::default();
        let mut sink = StreamTableSink::named("kfunc");
        // Known before the kernel's table was there.
        sink.keys(&[(71, ContextId(1)), (72, ContextId(2))], &decided(&[0, 1]));
        sink.connect(Box::new(fake.clone()));
        let changes = Changes { contexts: vec![ContextId(1)], clustered: false };
        sink.contexts(&changes, &decided(&[3, 1]));
        sink.keys(&[(74, ContextId(1))], &decided(&[3, 1]));
        {
            let seen = fake.seen();
            assert_eq!([71, 72, 74].map(|key| seen.table[&key]), [[4, 4], [2, 2], [4, 4]]);
            assert_eq!(seen.version, 0);
        }
        fake.seen().full = true;
        sink.keys(&[(75, ContextId(1))], &decided(&[3, 1]));
        assert_eq!(sink.losses()[0], ("streams_not_entered", 1));
    }

    #[test]
    fn the_device_says_how_many_streams_there_are() {
        let device = |write_streams| Device {
            number: DeviceNumber { major: 259, minor: 0 },
            name: "nvme0n1".into(),
            write_streams,
            kernel_can_choose: true,
            file_system: Some(FsKind::Ext4),
            ..Device::default()
        };
        assert_eq!([2, 8, 16, 128].map(|count| streams(&device(count))), [2, 8, 16, 16]);
    }
}
