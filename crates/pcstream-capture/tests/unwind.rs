//! Exact paths against another unwinder: this process's own stack, as libgcc walks it.

use std::arch::asm;
use std::ffi::c_void;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pcstream_capture::call_frames::CallFrames;
use pcstream_capture::modules::Modules;
use pcstream_capture::unwind::{Limits, Unwinder};
use pcstream_capture::wire::{ModuleOffset, PathRecord, RuleKind, StackRange, StackRecord, UnwindRule};
use pcstream_trace::Unwind;

const LIMITS: Limits = Limits { depth: 16, scan_depth: 5, fall_back: false };

/// This process's executable mappings, and the modules behind them; keys are inode numbers.
fn mappings() -> (Vec<StackRange>, Modules) {
    let (mut ranges, mut modules) = (Vec::new(), Modules::default());
    for line in fs::read_to_string("/proc/self/maps").expect("it can be read").lines() {
        let field: Vec<&str> = line.split_whitespace().collect();
        let [range, permissions, offset, _, _, path] = field[..] else { continue };
        if !permissions.contains('x') || !path.starts_with('/') {
            continue;
        }
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let (start, end) = range.split_once('-').expect("a range");
        let (start, end) = (hex(start), hex(end));
        let metadata = fs::metadata(path).expect("it is there");
        let inode = metadata.ino();
        ranges.push(StackRange { start, end, base: hex(offset).wrapping_sub(start), module: inode });
        modules.add(&path_record(Path::new(path), &metadata));
    }
    (ranges, modules)
}

fn path_record(path: &Path, metadata: &fs::Metadata) -> PathRecord {
    let (inode, dev) = (metadata.ino(), metadata.dev());
    let dev = (libc::major(dev) << 20) | libc::minor(dev);
    let mut record = PathRecord { key: inode, inode, dev, ..Default::default() };
    let (mut at, mut components) = (0, 0);
    for name in path.iter().rev().map(|name| name.as_bytes()).filter(|name| *name != b"/") {
        record.text[at..at + name.len()].copy_from_slice(name);
        record.length[components] = name.len() as u8;
        (at, components) = (at + name.len(), components + 1);
    }
    record.components = components as u32;
    record
}

/// In a function of its own, whose frame is larger than a copy of a stack.
#[inline(never)]
fn empty_record() -> Box<StackRecord> {
    Box::default()
}

/// The registers here and a copy of the stack above; and the return addresses that libgcc finds.
#[inline(never)]
fn snapshot() -> (Box<StackRecord>, Vec<u64>) {
    let mut record = empty_record();
    let (ip, sp, bp): (u64, u64, u64);
    // SAFETY: reads registers only.
    unsafe { asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp) };
    (record.address, record.sp, record.bp) = (ip, sp, bp);
    let maps = fs::read_to_string("/proc/self/maps").expect("it can be read");
    let end = maps.lines().find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(&rest[..12], 16).ok()?);
        (start..end).contains(&sp).then_some(end)
    });
    let bytes = (end.expect("the stack is mapped") - sp).min(65536) as usize;
    record.bytes = bytes as u32;
    // SAFETY: `bytes` bytes from `sp` on are this thread's stack; the record lies on the heap.
    unsafe { std::ptr::copy_nonoverlapping(sp as *const u8, record.stack.as_mut_ptr(), bytes) };
    let mut addresses = [std::ptr::null_mut::<c_void>(); 64];
    // SAFETY: the array has room for as many addresses as are asked for.
    let found = unsafe { libc::backtrace(addresses.as_mut_ptr(), 64) };
    // The first one is in this function.
    let callers = addresses[1..found as usize].iter().map(|address| *address as u64).collect();
    (record, callers)
}

/// Frames of many shapes between here and `snapshot`.
#[inline(never)]
fn deeper(levels: u32, words: &[u64]) -> (Box<StackRecord>, Vec<u64>) {
    let mut copy = words.to_vec();
    copy.sort_by_key(|word| std::hint::black_box(*word ^ u64::from(levels)));
    let mut result = None;
    copy[..1].iter().for_each(|_| {
        result = Some(if levels == 0 { snapshot() } else { deeper(levels - 1, &copy) });
    });
    std::hint::black_box(&copy);
    result.expect("one round")
}

/// As the BPF program ships a stack of which it knows no rule at all.
fn complete(stack: &mut StackRecord, ranges: &[StackRange]) {
    stack.ranges = ranges.len() as u32;
    stack.range[..ranges.len()].copy_from_slice(ranges);
    let own =
        ranges.iter().find(|range| (range.start..range.end).contains(&stack.address)).expect("it is code");
    stack.context.frames = 1;
    stack.context.frame[0] =
        ModuleOffset { module: own.module, offset: stack.address.wrapping_add(own.base) };
}

#[test]
fn paths_are_those_that_libgcc_finds() {
    let (ranges, modules) = mappings();
    let mut unwinder = Unwinder::default();
    let mut rules = 0;
    for levels in [0, 1, 3, 7] {
        let (mut stack, callers) = deeper(levels, &[3, 1, 2]);
        complete(&mut stack, &ranges);
        let path = unwinder.path(&stack, &modules, &LIMITS);
        let expected = callers.iter().map(|&address| {
            let range = ranges.iter().find(|r| (r.start..r.end).contains(&address)).expect("it is code");
            (range.module, address.wrapping_add(range.base))
        });
        let expected: Vec<_> = expected.take(LIMITS.depth).collect();
        let whole = callers.len() <= LIMITS.depth;
        assert_eq!(path.unwind, if whole { Unwind::Exact } else { Unwind::Cut }, "{path:?}");
        assert!(path.frames.len() > 4, "{path:?}");
        assert_eq!(path.frames[1..], expected[..path.frames.len() - 1]);
        assert!(path.frames.len() == LIMITS.depth + 1 || path.frames.len() == expected.len() + 1, "{path:?}");
        let fresh = unwinder.take_rules();
        rules += fresh.len();
        assert!(fresh.iter().all(|(_, rule)| rule.kind != RuleKind::RULE_NONE.0), "{fresh:?}");
        ranges.iter().for_each(|range| unwinder.forget(range.module));
        assert_eq!(
            unwinder.path(&stack, &modules, &LIMITS),
            path,
            "its rules stay, and tables are read again"
        );
        assert!(unwinder.take_rules().is_empty(), "a rule is handed out once");
    }
    assert!(rules > 10);
}

#[test]
fn rules_beyond_the_limit_are_neither_kept_nor_handed_out() {
    let (ranges, modules) = mappings();
    let (mut stack, _) = deeper(3, &[3, 1, 2]);
    complete(&mut stack, &ranges);
    let path = Unwinder::default().path(&stack, &modules, &LIMITS);
    let mut full = Unwinder::default();
    let nowhere = UnwindRule { kind: RuleKind::RULE_NONE.0, ..UnwindRule::default() };
    (0..65_536).for_each(|offset| full.insert_rule(ModuleOffset { module: 1, offset }, nowhere));
    assert_eq!(full.path(&stack, &modules, &LIMITS), path);
    assert!(full.take_rules().is_empty());
}

/// Rules that are known stay; those that are not are counted, and no file is read for them.
#[test]
fn who_has_given_up_makes_no_rule() {
    let (ranges, modules) = mappings();
    let (mut stack, _) = deeper(3, &[3, 1, 2]);
    complete(&mut stack, &ranges);
    let mut unwinder = Unwinder::default();
    let path = unwinder.path(&stack, &modules, &LIMITS);
    assert_eq!(unwinder.rules_given_up(), 0);
    unwinder.give_up();
    assert_eq!((unwinder.path(&stack, &modules, &LIMITS), unwinder.rules_given_up()), (path, 0));
    let mut fresh = Unwinder::default();
    fresh.give_up();
    assert!(!matches!(fresh.path(&stack, &modules, &LIMITS).unwind, Unwind::Exact));
    assert!(fresh.rules_given_up() > 0 && fresh.take_rules().is_empty());
}

/// Nothing is read of tables that say they are larger than there is room for.
#[test]
fn tables_beyond_the_room_are_not_read() {
    let own = File::open("/proc/self/exe").expect("it is there");
    let bytes = CallFrames::read(&own).expect("it has tables").bytes();
    assert!(CallFrames::read_within(&own, bytes - 1).is_none());
    assert!(CallFrames::read_within(&own, 2 * bytes + (64 << 20)).is_some());
}

#[test]
fn nonsense_ends_a_path() {
    let (ranges, modules) = mappings();
    let (mut stack, _) = deeper(3, &[3, 1, 2]);
    complete(&mut stack, &ranges);
    let mut unwinder = Unwinder::default();
    let whole = unwinder.path(&stack, &modules, &LIMITS).frames;
    let mut path = |change: &dyn Fn(&mut StackRecord)| {
        let mut changed = Box::new(*stack);
        change(&mut changed);
        unwinder.path(&changed, &modules, &LIMITS).frames
    };
    assert_eq!(path(&|stack| stack.address = 7).len(), 1, "no code");
    assert_eq!(path(&|stack| stack.context.frames = u32::MAX).len(), 17, "frames are bounded");
    assert_eq!(path(&|stack| stack.bytes = 0).len(), 1, "no stack");
    assert_eq!(path(&|stack| stack.bytes = u32::MAX), whole, "sizes are bounded");
    assert_eq!(path(&|stack| stack.ranges = u32::MAX), whole, "so are counts");
    assert_eq!(path(&|stack| stack.ranges = 0).len(), 1, "no mappings");
    let cut = path(&|stack| stack.bytes = 256);
    assert!(whole.starts_with(&cut), "a shorter copy gives a shorter path");
    for seed in 0..2000u64 {
        // Whatever the stack holds, a walk ends, and what it found is code.
        let frames = path(&|stack| {
            let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for bytes in stack.stack.chunks_mut(8) {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let range = &ranges[(word >> 33) as usize % ranges.len()];
                let address = range.start + (word >> 8) % (range.end - range.start);
                bytes.copy_from_slice(&address.to_ne_bytes()[..bytes.len()]);
            }
        });
        assert!(frames.len() <= LIMITS.depth + 1);
    }
}
