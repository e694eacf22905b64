//! Contexts against an unwinder of somebody else's (framehop): of one folio in so many, the whole stack is sent along with the
//! context that it got, and the path found offline must be that context's.
//!
//! What is compared: return addresses, as module and file offset, up to the depth kept. And where they lie on the stack is where the
//! restricted scan would look for them. Weakness: 64 KiB of stack are copied; a
//! path that framehop cannot follow to as many frames counts as different.

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment};
use pcstream_capture::modules::Modules;
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use pcstream_capture::unwind::Unwinder;
use pcstream_capture::wire::{ContextRecord, Record, StackRange, StackRecord};
use pcstream_fs::scratch::{FsKind, Scratch, ScratchOptions};
use recording::{DB_BENCH, GCC, bpf, db_bench, gcc, shell, sqlite};

const DEPTH: usize = 12;
/// Of the samples, whose paths must be equal.
const EQUAL: f64 = 0.99;
/// Of return addresses, which must lie where the scan looks.
const SCANNED: f64 = 0.99;

/// How long user space does nothing once the first stack has come: as long as on a machine that is busy with something else.
const LATE: Duration = Duration::from_millis(500);
const PROMPT: Duration = Duration::ZERO;

const SQLITE: &str = "(echo 'create table t(a integer primary key, b text);'; i=0; while [ $i -lt 1000 ]; do \
    echo \"insert into t(b) values(hex(randomblob(200)));\"; i=$((i + 1)); done) | sqlite3 {}/test.db";

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf];
    let with = |need: common::Need| [needs.as_slice(), &[need]].concat();
    common::run(vec![
        common::test("offline_paths_of_rocksdb_are_equal", &with(db_bench), || {
            compare(DB_BENCH, 8, PROMPT, 2_000)
        }),
        common::test("offline_paths_of_sqlite_are_equal", &with(sqlite), || {
            compare(SQLITE, 1, PROMPT, 2_000)
        }),
        common::test("offline_paths_are_equal_though_rules_come_late", &with(sqlite), || {
            compare(SQLITE, 8, LATE, 300)
        }),
        common::test("offline_paths_of_gcc_are_equal", &with(gcc), || compare(GCC, 1, PROMPT, 100)),
    ])
}

/// Module key and file offset, innermost first, the instruction itself left out.
type Callers = Vec<(u64, u64)>;

/// What came out of the ring buffer, in the order that matters: modules and rules at once, the rest kept.
#[derive(Default)]
struct Seen {
    modules: Modules,
    unwinder: Unwinder,
    contexts: HashMap<u64, Callers>,
    samples: Vec<StackRecord>,
}

impl Seen {
    fn context(&mut self, record: &ContextRecord) {
        self.contexts
            .insert(record.key, record.path().iter().skip(1).map(|f| (f.module, f.offset)).collect());
    }
}

fn compare(script: &str, every: u32, pause: Duration, least_samples: usize) {
    let options =
        ScratchOptions { fs: FsKind::Ext4, size_bytes: 1 << 30, fill: 0.0, ..ScratchOptions::default() };
    let place = Scratch::create(&options).expect("a scratch file system");
    let directory = place.mount_point().to_str().expect("a plain path").to_owned();
    let options = SessionOptions { check_every: every, ring_bytes: 512 << 20, ..SessionOptions::default() };
    let mut memory = SessionMemory::uninit();
    let mut session = Session::open(&options, &mut memory).expect("it loads");
    session.watch_writes(FsKind::Ext4).expect("the kernel has its tracepoints");
    session.aim(place.device().number.kernel_dev_t());
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut rules = session.rules().expect("it has rules");
    let limits = options.limits();
    let mut pause = Some(pause);
    let reader = session
        .reader({
            let seen = Rc::clone(&seen);
            move |record| {
                let seen = &mut *seen.borrow_mut();
                match record.expect("it is one") {
                    Record::Module(module) => seen.modules.add(&module),
                    Record::Context(context) => seen.context(&context),
                    Record::Stack(stack) => {
                        std::thread::sleep(pause.take().unwrap_or_default());
                        let path = seen.unwinder.path(&stack, &seen.modules, &limits);
                        seen.contexts.insert(stack.context.key, path.frames[1..].to_vec());
                        rules.add(&seen.unwinder.take_rules());
                    }
                    Record::Check(stack) => seen.samples.push(*stack),
                    _ => {}
                }
            }
        })
        .expect("it can be read");
    let command = shell(&script.replace("{}", &directory));
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(&directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    while child.try_wait().expect("it can be waited for").is_none() {
        reader.poll(Duration::from_millis(10)).expect("it can be read");
    }
    reader.drain().expect("it can be read");
    drop(reader);
    session.aim(0);
    place.remove().expect("it can be removed");
    judge(&seen.borrow(), least_samples);
}

fn judge(seen: &Seen, least_samples: usize) {
    let mut offline = Offline::default();
    let (mut equal, mut unknown) = (0usize, 0usize);
    let mut different: HashMap<(&Callers, Callers), usize> = HashMap::new();
    for sample in &seen.samples {
        // Its record came later than the buffer could take, or the capture ended.
        let Some(callers) = seen.contexts.get(&sample.context.key) else {
            unknown += 1;
            continue;
        };
        let found = offline.callers(sample, &seen.modules);
        if *callers == found {
            equal += 1;
        } else {
            *different.entry((callers, found)).or_default() += 1;
        }
    }
    let share = equal as f64 / seen.samples.len() as f64;
    eprintln!(
        "    {:.2} % of {} paths are those found offline, {} contexts",
        100.0 * share,
        seen.samples.len(),
        seen.contexts.len()
    );
    let scanned = offline.scanned as f64 / offline.found as f64;
    eprintln!("    {:.2} % of {} return addresses lie where a scan looks", 100.0 * scanned, offline.found);
    let mut different: Vec<_> = different.into_iter().collect();
    different.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    for ((ours, theirs), times) in different.iter().take(3) {
        eprintln!("    {times} times {ours:x?}\n      offline {theirs:x?}");
    }
    assert!(seen.samples.len() >= least_samples, "only {} samples", seen.samples.len());
    assert_eq!(unknown, 0, "contexts without a record");
    assert!(share >= EQUAL, "{share}");
    assert!(scanned >= SCANNED, "{scanned}");
}

type Bytes = Rc<[u8]>;

/// The sections of a module that unwinding takes.
struct Sections {
    info: ExplicitModuleSectionInfo<Bytes>,
    /// File offset, bytes and address of each segment.
    segments: Vec<(u64, u64, u64)>,
}

/// Unwinds whole stacks.
#[derive(Default)]
struct Offline {
    sections: HashMap<u64, Option<Rc<Sections>>>,
    cache: CacheX86_64,
    /// Return addresses, and those of them that lie where the scan looks: 8 bytes above a multiple of 16.
    found: usize,
    scanned: usize,
}

impl Offline {
    fn callers(&mut self, sample: &StackRecord, modules: &Modules) -> Callers {
        let ranges = &sample.range[..sample.ranges as usize];
        let mut unwinder = UnwinderX86_64::new();
        for range in ranges {
            let sections = self.sections.entry(range.module).or_insert_with(|| {
                modules.get(range.module)?.file.as_deref().and_then(sections_of).map(Rc::new)
            });
            if let Some(module) = sections.as_ref().and_then(|sections| module_at(range, sections)) {
                unwinder.add_module(module);
            }
        }
        // Of a frame: where, and what.
        let read = RefCell::new(Vec::new());
        let mut word = |address: u64| {
            let at = address.checked_sub(sample.sp).ok_or(())? as usize;
            let bytes = sample.stack[..sample.bytes as usize].get(at..at + 8).ok_or(())?;
            let word = u64::from_le_bytes(bytes.try_into().map_err(|_| ())?);
            read.borrow_mut().push((address, word));
            Ok(word)
        };
        let registers = UnwindRegsX86_64::new(sample.address, sample.sp, sample.bp);
        let mut frames = unwinder.iter_frames(sample.address, registers, &mut self.cache, &mut word);
        let mut callers = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let address = frame.address();
            if let Some((at, _)) = read.take().iter().find(|(_, word)| *word == address) {
                self.found += 1;
                self.scanned += usize::from(at % 16 == 8);
            }
            let range = ranges.iter().find(|range| (range.start..range.end).contains(&address));
            callers
                .push(range.map_or((0, address), |range| (range.module, address.wrapping_add(range.base))));
            if callers.len() > DEPTH {
                break;
            }
        }
        callers.drain(1.min(callers.len())..).collect()
    }
}

fn sections_of(file: &File) -> Option<Sections> {
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
    let section = |name: &str| {
        let section = parsed.section_by_name(name)?;
        let data: Bytes = section.data().ok()?.into();
        Some((section.address()..section.address() + section.size(), data))
    };
    let split = |name: &str| section(name).unzip();
    let (text_svma, text) = split(".text");
    let (eh_frame_svma, eh_frame) = split(".eh_frame");
    let (eh_frame_hdr_svma, eh_frame_hdr) = split(".eh_frame_hdr");
    let got_svma = section(".got").map(|(range, _)| range);
    let info = ExplicitModuleSectionInfo {
        text_svma,
        text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        got_svma,
        ..Default::default()
    };
    let segments = parsed.segments().map(|segment| {
        let (offset, bytes) = segment.file_range();
        (offset, bytes, segment.address())
    });
    Some(Sections { info, segments: segments.collect() })
}

fn module_at(range: &StackRange, sections: &Sections) -> Option<Module<Bytes>> {
    let offset = range.start.wrapping_add(range.base);
    let &(start, _, address) =
        sections.segments.iter().find(|(start, bytes, _)| (*start..start + bytes).contains(&offset))?;
    let base = range.start.wrapping_sub(address + (offset - start));
    let info = ExplicitModuleSectionInfo {
        text_svma: sections.info.text_svma.clone(),
        text: sections.info.text.clone(),
        eh_frame_svma: sections.info.eh_frame_svma.clone(),
        eh_frame: sections.info.eh_frame.clone(),
        eh_frame_hdr_svma: sections.info.eh_frame_hdr_svma.clone(),
        eh_frame_hdr: sections.info.eh_frame_hdr.clone(),
        got_svma: sections.info.got_svma.clone(),
        ..Default::default()
    };
    Some(Module::new(String::new(), range.start..range.end, base, info))
}
