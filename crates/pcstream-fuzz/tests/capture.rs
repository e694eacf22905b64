//! Everything of a capture that reads what traced programs made, without a kernel: records, programs and libraries, rules of
//! write buffers. A value or an error, never a panic.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pcstream_capture::buffers::{self, rules};
use pcstream_capture::call_frames::CallFrames;
use pcstream_capture::join::Joiner;
use pcstream_capture::modules::reading_limits::Allowance;
use pcstream_capture::signature::Order;
use pcstream_capture::symbols::function_names::names_at;
use pcstream_capture::unwind::Limits;
use pcstream_capture::wire::{
    ContextRecord, IoRecord, PathRecord, ProcessRecord, Record, RuntimeRecord, StackRecord,
};
use pcstream_fs::layout::{Layout, PageRange, StaticRange};
use pcstream_fs::scratch::FsKind;
use pcstream_fuzz::fuzz;
use pcstream_trace::{Batch, Kind, Lba};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Bytes of each type of record, by its number.
const SIZES: [usize; 9] = [
    0,
    size_of::<IoRecord>(),
    size_of::<ContextRecord>(),
    size_of::<PathRecord>(),
    size_of::<PathRecord>(),
    size_of::<StackRecord>(),
    size_of::<RuntimeRecord>(),
    size_of::<StackRecord>(),
    size_of::<ProcessRecord>(),
];

/// Splits an input into records: a type, the number of bytes that follow (two bytes), and these; the rest of a record is 0.
/// Otherwise hardly any input would hold a record, for each type has one size.
fn records(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(([kind, low, high], rest)) = input.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, after) = rest.split_at(length);
        input = after;
        let mut record = vec![0; SIZES[usize::from(*kind) % SIZES.len()]];
        if record.is_empty() {
            // As it is: of no type, or of a wrong size.
            found.push(body.to_vec());
            continue;
        }
        let length = body.len().min(record.len() - 4);
        record[4..4 + length].copy_from_slice(&body[..length]);
        record[0] = *kind % SIZES.len() as u8;
        found.push(record);
    }
    found
}

fn framed(kind: u8, words: &[u64]) -> Vec<u8> {
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // The first word of a record holds its type.
    body.drain(..4);
    let mut framed = vec![kind];
    framed.extend((body.len() as u16).to_le_bytes());
    framed.extend(body);
    framed
}

fn word(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Batches are what a trace can hold: ids are dense, times do not decrease, pages lie on a device.
fn check(batch: &Batch, contexts: &mut u32, files: &mut u32, last_ns: &mut u64) {
    for context in &batch.contexts {
        *contexts += 1;
        assert_eq!(context.id.0, *contexts);
    }
    for file in &batch.files {
        *files += 1;
        assert_eq!(file.id.0, *files);
    }
    for event in &batch.events {
        assert!(event.context.0 <= *contexts && event.file.0 <= *files, "{event:?}");
        assert!(event.time_ns >= *last_ns, "{event:?}");
        assert!(event.lba.0.checked_add(u64::from(event.pages)).is_some(), "{event:?}");
        *last_ns = event.time_ns;
    }
}

#[test]
fn kernel_records() {
    let io = framed(1, &[word(0, 1), 2_000, 800, 11, 42, word(7, 1), 3, word(8192, 0), 0, 0, 0, 0]);
    let context = framed(2, &[word(0, 9), 42, 77, word(1, 3), word(2, 0), 0, 0, 100, 0x1234, 1, 0x77]);
    let names = u64::from_le_bytes(*b"\x03\x04\0\0\0\0\0\0");
    let file = framed(4, &[word(0, 9), 5, 11, word(7, 1 << 20), word(2, 0), names, 0, 0]);
    let module = framed(3, &[word(0, 9), 100, 11, word(7, 1 << 20), word(2, 0), names, 0, 0]);
    let its_context = [&[word(0, 9), 43, 77, word(18, 0), word(1, 0)][..], &[0; 36]].concat();
    let stack = framed(5, &[&its_context[..], &[0x40_1000, 0x7000, 0x7100, word(65536, 1)]].concat());
    let runtime = framed(6, &[word(0, 20), 99, u64::from_le_bytes(*b"a.b:c:1\n"), 0, 0]);
    let process = framed(8, &[word(0, 9), 1_000, 77, 0]);
    let ended = framed(8, &[word(0, 9), 3_000, 77, 1]);
    let all = [&file, &module, &process, &context, &io, &runtime, &stack, &io, &ended].map(Vec::as_slice);
    fuzz(&corpus("records"), vec![all.concat(), context, stack, io], |bytes| {
        drop(Record::parse(bytes));
        let limits = Limits { depth: 12, scan_depth: 5, fall_back: true };
        let mut joiner = Joiner::new(1_000, limits, Order::Hash);
        let journal = StaticRange { start: Lba(100), pages: 50, kind: Kind::Journal };
        let used = PageRange { start: Lba(0), pages: 200 };
        joiner.begin(Layout::new(FsKind::Ext4, vec![journal], vec![used]).expect("nothing overlaps"));
        let (mut contexts, mut files, mut last_ns) = (0, 0, 0);
        for record in records(bytes) {
            let Ok(record) = Record::parse(&record) else { continue };
            joiner.take(record);
            joiner.take_rules();
            check(&joiner.drain(), &mut contexts, &mut files, &mut last_ns);
        }
        assert_eq!(joiner.context_count() as u32, contexts);
    });
}

/// A file whose contents change.
fn written(file: &File, bytes: &[u8]) {
    file.set_len(bytes.len() as u64).expect("it can be cut");
    file.write_all_at(bytes, 0).expect("it can be written");
}

/// Programs and libraries: symbol tables, Go's tables, call frames.
#[test]
fn modules() {
    let file = tempfile::tempfile().expect("a temporary file");
    fuzz(&corpus("modules"), Vec::new(), |bytes| {
        written(&file, bytes);
        let step = (bytes.len() as u64 / 50).max(1);
        let offsets: Vec<u64> = (0..50).map(|n| n * step).chain([u64::MAX, 1 << 63]).collect();
        let names = names_at(&file, Path::new("/nowhere/module"), &offsets, &Allowance::default());
        assert_eq!(names.len(), offsets.len());
        if let Some(frames) = CallFrames::read(&file) {
            for offset in offsets {
                frames.rule_at(offset);
            }
        }
    });
}

/// The corpus is worth something: each part of it is reached.
#[test]
fn the_seeds_of_modules_have_names_and_rules() {
    let seed = |name: &str| File::open(corpus("modules").join(name)).expect("it is saved");
    let names = |file: &File| {
        let bytes = file.metadata().expect("it is there").len();
        let offsets: Vec<u64> = (0..bytes).collect();
        let names = names_at(file, Path::new("/nowhere"), &offsets, &Allowance::default());
        names.into_iter().flatten().collect::<std::collections::BTreeSet<_>>()
    };
    let library = seed("library");
    assert!(names(&library).contains("write_page") && names(&library).contains("shop::Till::close(int)"));
    let frames = CallFrames::read(&library).expect("it has call frames");
    let bytes = library.metadata().expect("it is there").len();
    let rules = (0..bytes).map(|at| frames.rule_at(at)).filter(|rule| rule.kind <= 2).count();
    assert!(rules > 50, "{rules}");
    // The second one's table is among other data, and only a relocation says where its code begins.
    for (name, method) in [("go", 0x7a), ("go-anywhere", 0x184)] {
        let program = seed(name);
        assert!(names(&program).contains("main.(*Store).write"), "{name}: {:?}", names(&program));
        let frames = CallFrames::read(&program).expect("it has Go's table");
        let rules: Vec<_> = (0..4).map(|into| frames.rule_at(method + into)).collect();
        assert!(rules.iter().zip(0..).all(|(rule, into)| rule.into_function == into), "{name}: {rules:?}");
        assert_eq!(rules.iter().map(|rule| rule.cfa_offset).collect::<Vec<_>>(), [8, 16, 32, 8], "{name}");
    }
}

/// A library whose `symbols` functions all have one name and cover all of it. The first counts as none.
fn covered(symbols: u64, name: &str) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let name = format!("\0{name}\0").into_bytes();
    let symtab = HEADERS + name.len() as u64;
    let sections = symtab + 24 * symbols;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    elf.extend(words(&[0, 64, sections]));
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 3, 0, 2, 0]);
    // The only segment: all of the file, executable.
    elf.extend(words(&[word(1, 5), 0, 0, 0, sections, sections, 4096]));
    elf.extend(&name);
    for _ in 0..symbols {
        // A global function in the second section.
        elf.extend(words(&[word(1, 0x0002_0012), 0, sections]));
    }
    elf.extend(words(&[0; 8]));
    elf.extend(words(&[word(0, 2), 0, 0, symtab, 24 * symbols, word(2, 0), 8, 24]));
    elf.extend(words(&[word(0, 3), 0, 0, HEADERS, name.len() as u64, 0, 1, 0]));
    elf
}

/// Looking up names is bounded by work, and who reaches the bound is known by it.
#[test]
fn a_module_that_takes_too_much_work_has_no_names() {
    let file = tempfile::tempfile().expect("a temporary file");
    let offsets: Vec<u64> = (0..2_000).collect();
    for (symbols, short) in [(1_000, false), (100_000, true)] {
        written(&file, &covered(symbols, "a_function"));
        let allowance = Allowance::default();
        let names = names_at(&file, Path::new("/nowhere"), &offsets, &allowance);
        assert_eq!(allowance.fell_short(), short, "{symbols} symbols");
        let expected = (!short).then_some("a_function");
        assert!(names.iter().all(|name| name.as_deref() == expected), "{:?}", names[0]);
    }
}

/// Only so much of a name is read, and a longer one is known to be left out.
#[test]
fn names_that_are_too_long_are_counted() {
    let file = tempfile::tempfile().expect("a temporary file");
    for (bytes, short) in [(4000, false), (5000, true)] {
        let name = "n".repeat(bytes);
        written(&file, &covered(2, &name));
        let allowance = Allowance::default();
        let names = names_at(&file, Path::new("/nowhere"), &[10], &allowance);
        assert_eq!((allowance.fell_short(), &names[0]), (short, &(!short).then_some(name)));
    }
}

#[test]
fn write_buffer_rules() {
    let presets = buffers::PRESETS.map(|(_, text)| text.as_bytes().to_vec()).to_vec();
    fuzz(&corpus("buffer-rules"), presets, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(rules) = rules::parse(text) {
            assert!(!rules.dirty.is_empty() && !rules.program.is_empty());
        }
    });
}

/// A program that rules are for, and one that brings its own.
#[test]
fn write_buffer_programs() {
    let dir = tempfile::tempdir().expect("a directory");
    let (program, rules) = (dir.path().join("program"), dir.path().join("rules.toml"));
    let text = format!(
        "program = {program:?}\npage_bytes = 4096\n[[dirty]]\nfunction = 'write_page'\n\
         page = {{ number = 1, pool = 'pool' }}\ncounts = {{ variable = 'pages_dirtied' }}\n\
         [[dirty]]\nprobe = 'pcstream:page_dirty'\npage = {{ address = 1 }}\noptional = true\n"
    );
    File::create(&rules).and_then(|mut file| file.write_all(text.as_bytes())).expect("it can be written");
    let names = [&rules, &program].map(|path| path.to_str().expect("a plain path").to_owned());
    let library = std::fs::read(corpus("modules").join("library")).expect("it is saved");
    std::fs::write(&program, &library).expect("it can be written");
    for name in &names {
        let probes = buffers::probes(std::slice::from_ref(name)).unwrap_or_else(|error| panic!("{error}"));
        assert!(!probes.is_empty(), "{name}");
    }
    fuzz(&corpus("buffer-programs"), vec![library], |bytes| {
        std::fs::write(&program, bytes).expect("it can be written");
        for name in &names {
            drop(buffers::probes(std::slice::from_ref(name)));
        }
    });
}
