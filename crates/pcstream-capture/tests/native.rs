//! The BPF program's C as a normal program (`native/`), under address and undefined-behaviour sanitizers, against the Rust
//! that makes the same walks: one path and one signature for one stack, whichever side unwinds it.
//!
//! Cases are random stacks with frames of all kinds, of which the C side knows some of the rules. Where it lacks one it ships
//! the stack, and the Rust side goes on. A second run makes parts of the stacks unreadable.

use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pcstream_capture::modules::Modules;
use pcstream_capture::signature::{self, Order};
use pcstream_capture::unwind::{Limits, Path as CallPath, Unwinder};
use pcstream_capture::wire::{
    ContextRecord, Entry, ModuleOffset, RULE_AT_IP, Record, RuleKind, StackRange, StackRecord, UnwindMode,
    UnwindRule,
};
use pcstream_trace::Unwind;
use tempfile::TempDir;

const CASES: u64 = 3000;
const SEED: u64 = 20_190_225;
const LIMITS: Limits = Limits { depth: 12, scan_depth: 5, fall_back: true };
const EXECUTABLE: u64 = 77;
/// Digest of all signatures of the run without faults but those of scans. A change means that signatures changed, or the cases did.
const GOLDEN: u64 = 0x49f7_3311_8ec7_2f37;
/// Those of scans.
const GOLDEN_SCANNED: u64 = 0x4188_1659_53cb_17d6;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// A stack, and what there is to know about it.
struct Case {
    ip: u64,
    sp: u64,
    bp: u64,
    entry: i32,
    ranges: Vec<StackRange>,
    rules: Vec<(ModuleOffset, UnwindRule)>,
    /// As many of the rules as the C side knows.
    known: usize,
    stack: Vec<u8>,
    fault: (u32, u32),
}

fn range(start: u64, bytes: u64, file_offset: u64, module: u64) -> StackRange {
    StackRange { start, end: start + bytes, base: file_offset.wrapping_sub(start), module }
}

fn case(random: &mut Random, faults: bool) -> Case {
    let mut ranges = vec![
        range(0x40_1000, 0x1_0000, 0x1000, 100),
        range(0x7f00_0000_0000, 0x2_0000, 0, 101),
        range(0x7f10_0000_3000, 0x8000, 0x3000, 102),
    ];
    if random.chance(4) {
        ranges.push(range(0x7f20_0000_0000, 0x1000, 0, 1));
    }
    let place = random.below(512);
    // Every other stack crosses from what one page table maps into what the next one does, if it is long enough.
    let sp = match place % 8 {
        // Where windows once took the last table of another process for theirs.
        3 if faults => 0x28_0000,
        0 | 2 | 4 | 6 => 0x7ffc_0000_1000,
        _ => 0x7ffc_001f_b000,
    } + 8 * place;
    // Stacks end with a page.
    let words = (4096 - sp % 4096) / 8 + 512 * random.below(14);
    let mut stack = Vec::new();
    for _ in 0..words {
        // Much that looks like code, for the scan.
        let word = if random.chance(6) { code(random, &ranges) } else { random.below(1 << 40) };
        stack.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = code(random, &ranges);
    let mut case = Case {
        ip,
        sp,
        bp: 0,
        entry: random.below(400) as i32,
        ranges,
        rules: Vec::new(),
        known: 0,
        stack,
        fault: (0, 0),
    };
    build_frames(&mut case, random);
    case.known = random.below(case.rules.len() as u64 + 1) as usize;
    if random.chance(2) {
        case.known = case.rules.len();
    }
    if faults {
        case.fault = (random.below(8 * words) as u32, 1 + random.below(8192) as u32);
        // Some of them whole pages.
        let page = (case.sp + u64::from(case.fault.0)).next_multiple_of(4096) - case.sp;
        if page < 8 * words && random.chance(2) {
            case.fault = (page as u32, 4096 * (1 + random.below(3)) as u32);
        }
    }
    case
}

/// An address in one of the ranges.
fn code(random: &mut Random, ranges: &[StackRange]) -> u64 {
    let range = &ranges[random.below(ranges.len() as u64) as usize];
    range.start + random.below(range.end - range.start)
}

fn build_frames(case: &mut Case, random: &mut Random) {
    let (mut address, mut sp) = (case.ip, case.sp);
    let mut bp = sp.wrapping_add(8 * random.below(2000));
    case.bp = bp;
    let frames = random.below(18);
    for depth in 0..=frames {
        let range = case.ranges.iter().find(|r| (r.start..r.end).contains(&address)).expect("it is code");
        let offset = address.wrapping_add(range.base) | if depth == 0 { RULE_AT_IP } else { 0 };
        let key = ModuleOffset { module: range.module, offset };
        if case.rules.iter().any(|(known, _)| known.module == key.module && known.offset == key.offset) {
            return;
        }
        let mut rule =
            UnwindRule { kind: RuleKind::RULE_END.0, cfa_offset: 0, bp_offset: 0, into_function: 0 };
        if depth == frames {
            if random.chance(3) {
                rule.kind = RuleKind::RULE_NONE.0;
            }
            case.rules.push((key, rule));
            return;
        }
        let words = if random.chance(12) { 1 + random.below(3000) } else { 1 + random.below(40) };
        let cfa = sp + 8 * words;
        let caller = code(random, &case.ranges);
        put(case, cfa - 8, caller);
        (rule.kind, rule.cfa_offset) = (RuleKind::RULE_SP.0, 8 * words as i32);
        if random.chance(3) {
            (rule.kind, rule.cfa_offset) = (RuleKind::RULE_BP.0, cfa.wrapping_sub(bp) as i32);
        }
        if words > 1 && random.chance(2) {
            rule.bp_offset = -8 * (2 + random.below(words - 1)) as i32;
            bp = cfa.wrapping_add(8 * random.below(500));
            put(case, cfa.wrapping_add_signed(rule.bp_offset.into()), bp);
        }
        case.rules.push((key, rule));
        (address, sp) = (caller, cfa);
    }
}

fn put(case: &mut Case, address: u64, word: u64) {
    let at = (address - case.sp) as usize;
    if let Some(bytes) = case.stack.get_mut(at..at + 8) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
}

impl Case {
    /// As `native/capture.c` reads it.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |word: &[u8]| bytes.extend_from_slice(word);
        for word in [self.ip, self.sp, self.bp] {
            put(&word.to_ne_bytes());
        }
        let counts = [self.ranges.len(), self.known, self.stack.len()].map(|count| count as u32);
        for word in counts.into_iter().chain([self.fault.0, self.fault.1, self.entry as u32]) {
            put(&word.to_ne_bytes());
        }
        for range in &self.ranges {
            [range.start, range.end, range.base, range.module]
                .iter()
                .for_each(|word| put(&word.to_ne_bytes()));
        }
        for (key, rule) in &self.rules[..self.known] {
            [key.module, key.offset].iter().for_each(|word| put(&word.to_ne_bytes()));
            [rule.kind, rule.cfa_offset as u32, rule.bp_offset as u32, rule.into_function]
                .iter()
                .for_each(|w| put(&w.to_ne_bytes()));
        }
        put(&self.stack);
        bytes
    }

    fn unwinder(&self) -> Unwinder {
        let mut unwinder = Unwinder::default();
        self.rules.iter().for_each(|&(key, rule)| unwinder.insert_rule(key, rule));
        unwinder
    }

    /// The stack as it would be shipped at the first instruction, and so its whole path.
    fn path(&self) -> CallPath {
        let mut record = Box::<StackRecord>::default();
        (record.address, record.sp, record.bp) = (self.ip, self.sp, self.bp);
        record.context.entry = self.entry;
        (record.context.frames, record.ranges) = (1, self.ranges.len() as u32);
        record.range[..self.ranges.len()].copy_from_slice(&self.ranges);
        let own = self.ranges.iter().find(|r| (r.start..r.end).contains(&self.ip)).expect("it is code");
        let offset = if own.module == 1 { 0 } else { self.ip.wrapping_add(own.base) };
        record.context.frame[0] = ModuleOffset { module: own.module, offset };
        record.bytes = self.stack.len() as u32;
        record.stack[..self.stack.len()].copy_from_slice(&self.stack);
        self.unwinder().path(&record, &Modules::default(), &LIMITS)
    }
}

/// Builds `native/capture.c`.
fn build(dir: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let native = here.join("tests/native");
    let program = dir.join("capture");
    let mut cc = Command::new("cc");
    // The program's attributes are for another target.
    cc.args(["-O1", "-g", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    cc.arg("-I")
        .arg(&native)
        .arg("-I")
        .arg(here.join("bpf"))
        .arg("-o")
        .arg(&program)
        .arg(native.join("capture.c"));
    assert!(cc.status().expect("cc starts").success(), "{cc:?}");
    program
}

/// What the C side sends for each case.
fn run(program: &Path, cases: &[Case]) -> Vec<Record> {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: between `fork` and `exec` it makes one system call.
    unsafe {
        command.pre_exec(|| {
            // Older sanitizers report errors without end where addresses are too random for them (vm.mmap_rnd_bits). If it is not
            // allowed, they are as random as usual.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input: Vec<u8> = cases.iter().flat_map(Case::bytes).collect();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&input).expect("it reads everything"));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success(), "{}", output.status);
    let mut rest = &output.stdout[..];
    let mut records = Vec::new();
    while !rest.is_empty() {
        let size = if rest[0] == 2 { size_of::<ContextRecord>() } else { size_of::<StackRecord>() };
        let (record, after) = rest.split_at(size);
        records.push(Record::parse(record).expect("a record"));
        rest = after;
    }
    assert_eq!(records.len(), cases.len());
    records
}

fn path_of(record: &ContextRecord) -> CallPath {
    let unwind = match UnwindMode(record.unwind) {
        UnwindMode::UNWIND_EXACT => Unwind::Exact,
        UnwindMode::UNWIND_FP => Unwind::FramePointer,
        UnwindMode::UNWIND_SCAN => Unwind::Scan,
        UnwindMode::UNWIND_CUT => Unwind::Cut,
        _ => Unwind::None,
    };
    let frames = record.path().iter().map(|frame| (frame.module, frame.offset));
    CallPath { unwind, frames: frames.collect() }
}

fn along_rules(path: &CallPath) -> bool {
    matches!(path.unwind, Unwind::Exact | Unwind::Cut)
}

#[test]
fn c_and_rust_find_one_path_and_one_signature() {
    let dir = TempDir::new().expect("a directory");
    let program = build(dir.path());
    let mut random = Random(SEED);
    let cases: Vec<Case> = (0..CASES).map(|_| case(&mut random, false)).collect();
    let (mut shipped, mut exact, mut cut, mut other) = (0, 0, 0, 0);
    let (mut walked, mut scanned) = (signature::SEED, signature::SEED);
    for (number, (case, record)) in cases.iter().zip(run(&program, &cases)).enumerate() {
        let expected = case.path();
        let found = match &record {
            Record::Context(context) => {
                let path = path_of(context);
                let named =
                    signature::of_context(Order::Hash, EXECUTABLE, case.entry, path.frames.iter().copied());
                assert_eq!(
                    (context.key, context.executable),
                    (named.0, EXECUTABLE),
                    "case {number} of seed {SEED}"
                );
                let digest = if path.unwind == Unwind::Scan { &mut scanned } else { &mut walked };
                *digest = signature::mix(*digest, context.key);
                path
            }
            Record::Stack(stack) => {
                shipped += 1;
                let path = case.unwinder().path(stack, &Modules::default(), &LIMITS);
                if !along_rules(&path) && stack.context.frames > 1 {
                    // Other walks see the stack from the frame without a rule on.
                    assert!(!along_rules(&expected), "case {number} of seed {SEED}");
                    continue;
                }
                path
            }
            _ => panic!("case {number} of seed {SEED}: {record:?}"),
        };
        assert_eq!(found.frames, expected.frames, "case {number} of seed {SEED}");
        // Whether a path that is as long as is kept is whole, the C side knows only if it has the last rule.
        if case.known == case.rules.len() || found.frames.len() <= LIMITS.depth {
            assert_eq!(found.unwind, expected.unwind, "case {number} of seed {SEED}");
        }
        match found.unwind {
            Unwind::Exact => exact += 1,
            Unwind::Cut => cut += 1,
            _ => other += 1,
        }
    }
    eprintln!("{shipped} of {CASES} shipped; {exact} exact, {cut} cut, {other} otherwise");
    let of_all_kinds = [(shipped, 10), (exact, 5), (cut, 10), (other, 10)].map(|(n, part)| n > CASES / part);
    assert_eq!(of_all_kinds, [true; 4], "the cases are of all kinds");
    assert_eq!(walked, GOLDEN, "signatures are fixed for ever");
    assert_eq!(scanned, GOLDEN_SCANNED, "signatures of scans are fixed, too");
}

/// In code without rules: a chain of frame pointers is believed if it is long, or if it ends where outermost frames do.
#[test]
fn a_short_chain_of_frame_pointers_is_believed_if_it_ends_with_0() {
    let dir = TempDir::new().expect("a directory");
    let program = build(dir.path());
    let mut random = Random(SEED);
    let kinds = (1..=5).flat_map(|frames| [(frames, 0), (frames, 1)]);
    let (mut cases, mut expected) = (Vec::new(), Vec::new());
    for (frames, end) in kinds {
        let mut case = case(&mut random, false);
        let own = *case.ranges.iter().find(|r| (r.start..r.end).contains(&case.ip)).expect("it is code");
        let key = ModuleOffset { module: own.module, offset: case.ip.wrapping_add(own.base) | RULE_AT_IP };
        let none = UnwindRule { kind: RuleKind::RULE_NONE.0, cfa_offset: 0, bp_offset: 0, into_function: 0 };
        (case.rules, case.known) = (vec![(key, none)], 1);
        case.bp = case.sp;
        case.stack.resize(case.stack.len().max(128), 0);
        for frame in 0..frames {
            let (at, caller) = (case.sp + 16 * frame, code(&mut random, &case.ranges));
            put(&mut case, at, if frame + 1 < frames { at + 16 } else { end });
            put(&mut case, at + 8, caller);
        }
        let is_long = frames >= 4 || (frames >= 2 && end == 0);
        expected.push(if is_long { Unwind::FramePointer } else { Unwind::Scan });
        cases.push(case);
    }
    for ((case, expected), record) in cases.iter().zip(expected).zip(run(&program, &cases)) {
        let Record::Context(context) = record else { panic!("a context: {record:?}") };
        assert_eq!(case.path(), path_of(&context));
        assert_eq!(path_of(&context).unwind, expected);
    }
}

/// Whichever of its instructions stores: the frame of a page fault is the function's first instruction, on both sides.
#[test]
fn the_frame_of_a_page_fault_is_the_function() {
    let dir = TempDir::new().expect("a directory");
    let program = build(dir.path());
    let mut random = Random(SEED + 2);
    let mut cases: Vec<Case> = (0..CASES).map(|_| case(&mut random, false)).collect();
    for case in &mut cases {
        case.entry = Entry::ENTRY_FAULT.0 as i32;
        for (key, rule) in &mut case.rules {
            rule.into_function = random.below((key.offset & !RULE_AT_IP) + 1) as u32;
        }
    }
    let mut moved = 0;
    for (number, (case, record)) in cases.iter().zip(run(&program, &cases)).enumerate() {
        let found = match &record {
            Record::Context(context) => path_of(context),
            Record::Stack(stack) => case.unwinder().path(stack, &Modules::default(), &LIMITS),
            _ => panic!("case {number}: {record:?}"),
        };
        let own = case.ranges.iter().find(|r| (r.start..r.end).contains(&case.ip)).expect("it is code");
        let offset = case.ip.wrapping_add(own.base);
        let known =
            case.rules.iter().find(|(key, _)| (key.module, key.offset) == (own.module, offset | RULE_AT_IP));
        let expected = match known {
            _ if own.module == 1 => 0,
            Some((_, rule)) => offset - u64::from(rule.into_function),
            None => offset,
        };
        assert_eq!(found.frames[0], (own.module, expected), "case {number} of seed {}", SEED + 2);
        moved += u64::from(expected != offset && own.module != 1);
    }
    assert!(moved > CASES / 2, "functions were found: {moved}");
}

#[test]
fn unreadable_stacks_are_survived() {
    let dir = TempDir::new().expect("a directory");
    let program = build(dir.path());
    let mut random = Random(SEED + 1);
    let cases: Vec<Case> = (0..CASES).map(|_| case(&mut random, true)).collect();
    let mut shorter = 0;
    for (case, record) in cases.iter().zip(run(&program, &cases)) {
        let whole = case.path().frames;
        let path = match &record {
            Record::Context(context) => path_of(context),
            Record::Stack(stack) => case.unwinder().path(stack, &Modules::default(), &LIMITS),
            _ => panic!("{record:?}"),
        };
        let modules: Vec<u64> = case.ranges.iter().map(|range| range.module).collect();
        assert!(path.frames.len() <= LIMITS.depth + 1);
        assert!(path.frames.iter().all(|(module, _)| modules.contains(module)), "{path:?}");
        shorter += u64::from(path.frames != whole);
    }
    assert!(shorter > CASES / 20, "faults had effects: {shorter}");
}
