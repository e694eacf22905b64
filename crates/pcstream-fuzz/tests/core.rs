//! Everything of the crates without capture that reads what others wrote: a value or an error, never a panic.

use std::io;
use std::path::{Path, PathBuf};

use pcstream_fs::layout::{Layout, ext4, f2fs, xfs};
use pcstream_fs::scratch::FsKind;
use pcstream_fuzz::fuzz;
use pcstream_placement::pcstream::averaging::Averaging;
use pcstream_placement::pcstream::key::KeySource;
use pcstream_placement::pcstream::lifetime::Died;
use pcstream_placement::pcstream::table::{AttributeTable, EntryIndex, Lifetime};
use pcstream_placement::{Rules, SavedTable};
use pcstream_ssd::{DeviceSettings, Geometry, Profile};
use pcstream_trace::import::{FORMATS, Format, Importer, Settings};
use pcstream_trace::{
    Batch, Context, ContextId, Event, File, FileId, Meta, Signature, TraceReader, TraceWriter,
};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// A finished trace whose tables are read whatever their checksums, as after editing.
fn trace(dir: &Path) -> PathBuf {
    let path = dir.join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("device", 1000), false).expect("it can be made");
    let event = |i: u64| Event {
        time_ns: i * 10,
        context: ContextId(i as u32 % 2),
        file: FileId(i as u32 % 2),
        file_page: i,
        ..Event::write(i * 7 % 900, 1 + i as u32 % 3)
    };
    let batch = Batch {
        contexts: vec![Context::label(ContextId(1), "a class")],
        files: vec![File { id: FileId(1), inode: 11, generation: 1, path: "/f".into() }],
        events: (0..200).map(event).collect(),
    };
    writer.write_batch(&batch).expect("it can be written");
    let path = writer.finish(None).expect("it can be finished").path;
    let meta = std::fs::read_to_string(path.join("meta.json")).expect("it was written");
    let mut meta: serde_json::Value = serde_json::from_str(&meta).expect("it is JSON");
    meta.as_object_mut().expect("an object").remove("checksums");
    std::fs::write(path.join("meta.json"), meta.to_string()).expect("it can be written");
    path
}

/// One file of a trace is replaced; the rest of it is whole.
fn trace_file(name: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = trace(dir.path());
    assert!(TraceReader::open(&path).is_ok_and(|reader| reader.batches().all(|batch| batch.is_ok())));
    let whole = std::fs::read(path.join(name)).expect("it was written");
    fuzz(&corpus(&format!("trace-{name}")), vec![whole], |bytes| {
        std::fs::write(path.join(name), bytes).expect("it can be written");
        if let Ok(reader) = TraceReader::open(&path) {
            reader.batches().take_while(Result::is_ok).for_each(drop);
        }
    });
}

#[test]
fn trace_meta() {
    trace_file("meta.json");
}

#[test]
fn trace_events() {
    trace_file("events.parquet");
}

#[test]
fn trace_contexts() {
    trace_file("contexts.parquet");
}

#[test]
fn trace_files() {
    trace_file("files.parquet");
}

/// Every format reads every seed, its own ones and those of the others.
#[test]
fn importers() {
    fuzz(&corpus("importers"), Vec::new(), |bytes| {
        let mut importers: Vec<(&Format, Importer)> = Vec::new();
        // The first line may be the text of an option.
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        for format in FORMATS {
            importers.push((format, Importer::new(Settings::new(format)).expect("defaults are legal")));
            for option in format.options.iter().filter(|option| option.text.is_some()) {
                let text = String::from_utf8_lossy(first).into_owned();
                let settings =
                    Settings { options: [(option.name.to_owned(), text)].into(), ..Settings::new(format) };
                importers.extend(Importer::new(settings).ok().map(|importer| (format, importer)));
            }
        }
        for (format, mut importer) in importers {
            for line in bytes.split(|byte| *byte == b'\n') {
                _ = importer.survey(line, false);
                // A bad line is an error of its own; the next one is read all the same.
                drop(importer.line(line));
            }
            let end = |event: &Event| event.lba.0.checked_add(u64::from(event.pages));
            assert!(importer.take_batch().events.iter().all(|event| end(event).is_some()), "{}", format.name);
            importer.complete(&mut importer.meta());
        }
    });
}

/// Mutations lie near the seeds, so a format needs one that it reads a request from.
#[test]
fn every_format_has_a_seed() {
    for format in FORMATS {
        let seed = corpus("importers").join(format.name);
        let text = std::fs::read(&seed).unwrap_or_else(|error| panic!("{}: {error}", seed.display()));
        let mut importer = Importer::new(Settings::new(format)).expect("defaults are legal");
        text.split(|byte| *byte == b'\n').for_each(|line| drop(importer.line(line)));
        assert!(importer.counts().requests() > 0, "{} holds no request", seed.display());
    }
}

#[test]
fn placement_rules() {
    let presets = Rules::presets().map(|(_, text)| text.as_bytes().to_vec()).collect();
    fuzz(&corpus("rules"), presets, |bytes| {
        drop(std::str::from_utf8(bytes).map(Rules::parse));
    });
}

/// What a device file holds: a profile, checked as a device of some size.
#[test]
fn device_files() {
    let profile = toml::to_string(&Profile::default()).expect("it can be written");
    fuzz(&corpus("devices"), vec![profile.into_bytes()], |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(profile) = toml::from_str::<Profile>(text) else { return };
        for logical_pages in [0, 1, 1 << 18, 1 << 32, u64::MAX] {
            let device = DeviceSettings { logical_pages, ..profile.device.clone() };
            if let Ok(geometry) = Geometry::new(&device) {
                assert!(geometry.physical_pages() > geometry.logical_pages(), "{geometry:?}");
            }
            drop(profile.resources.check(&profile.timing, profile.device.streams));
        }
    });
}

/// A table that is accepted can be saved, and saved again it is the same.
#[test]
fn saved_tables() {
    let table = || AttributeTable::new(4096, Averaging::Half, 2.0);
    let mut learned = table();
    let mut place = EntryIndex::NOWHERE;
    for signature in 1..20u64 {
        let lifetime = Lifetime::from_pages(signature * 100);
        learned.learn(Signature(signature), Died { lifetime: lifetime.pages(), pages: 1 }, &mut place);
    }
    fuzz(
        &corpus("tables"),
        vec![learned.save("pcstream", KeySource::Context), table().save("pcstream", KeySource::File)],
        |bytes| {
            let mut loaded = table();
            let key = SavedTable::parse(bytes).map_or(KeySource::Context, |table| table.key());
            if loaded.load(bytes, key).is_ok() {
                let saved = loaded.save("pcstream", key);
                let mut again = table();
                again.load(&saved, key).expect("what was saved can be loaded");
                assert_eq!(again.save("pcstream", key), saved);
            }
        },
    );
}

/// An ext4 that is short enough to be mutated as a whole: superblock and descriptors, then the inodes.
fn short_ext4() -> Vec<u8> {
    const BLOCK: usize = 4096;
    const INODES: usize = 37;
    let whole = std::fs::read(corpus("layouts").join("ext4")).expect("it is a seed");
    let mut short = [&whole[..2 * BLOCK], &whole[INODES * BLOCK..]].concat();
    assert_eq!(short[BLOCK + 8], INODES as u8, "block of the inodes");
    short[BLOCK + 8] = 2;
    let read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&short[at as usize..][..into.len()]);
        Ok(())
    };
    let superblock = ext4::Superblock::read(&read).expect("it is one");
    assert!(superblock.journal(&read).is_ok_and(|journal| !journal.is_empty()));
    short
}

/// The kernel's list of the segments of an F2FS.
#[test]
fn segments_of_f2fs() {
    let device = std::fs::read(corpus("layouts").join("f2fs")).expect("it is a seed");
    let read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&device[at as usize..][..into.len()]);
        Ok(())
    };
    let superblock = f2fs::Superblock::read(&read).expect("it is one");
    let mut list = "format: segment_type|valid_blocks|bitmaps|mtime\n".to_owned();
    for segment in 0..superblock.main_segments {
        list += &format!("{segment:<10}3|8  | {}| 5f3\n", ["01"; 64].join(" "));
    }
    let pages =
        |list: &[u8]| superblock.usage(list).map(|ranges| ranges.iter().map(|r| r.pages).sum::<u64>());
    assert_eq!(pages(list.as_bytes()), Ok(superblock.pages()));
    fuzz(&corpus("segments"), vec![list.into_bytes()], |bytes| {
        if let Ok(found) = pages(bytes) {
            assert_eq!(found, superblock.pages());
        }
    });
}

/// The first bytes of a device: the superblock, and from there the journal.
#[test]
fn layouts() {
    fuzz(&corpus("layouts"), vec![vec![0; 4096], short_ext4()], |bytes| {
        let read = |at: u64, into: &mut [u8]| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let from = bytes.get(at..).and_then(|rest| rest.get(..into.len()));
            into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        if let Ok(superblock) = ext4::Superblock::read(&read) {
            let journal = superblock.journal(&read).unwrap_or_default();
            drop(Layout::new(FsKind::Ext4, journal, Vec::new()));
        }
        if let Some(Ok(superblock)) = bytes.first_chunk().map(xfs::Superblock::parse) {
            drop(Layout::new(FsKind::Xfs, superblock.static_ranges(), Vec::new()));
        }
        if let Ok(superblock) = f2fs::Superblock::read(&read) {
            drop(Layout::new(FsKind::F2fs, superblock.static_ranges(), Vec::new()));
        }
        xfs::kind_of_verifier(bytes);
        if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
            for block_bytes in [4096, 16384, 65536] {
                ext4::kind_of_block(head, tail, block_bytes);
            }
            xfs::kind_of_block(head);
        }
    });
}
