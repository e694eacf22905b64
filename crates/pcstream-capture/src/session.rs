//! A capture session: the BPF program loaded, aimed at one file system, and read.
//!
//! Idea: everything the kernel must know before it verifies the program is a read-only setting;
//! afterwards one number, the device, switches the capture on and off. Reading is a callback per
//! record, in the caller's thread.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, OpenObject, PrintLevel, ProgramInput, RingBufferBuilder, UprobeOpts,
};
use pcstream_trace::Unwind;
use thiserror::Error;

use crate::buffers::Probe;
use crate::streams::StreamMaps;
use crate::unwind::Limits;
use crate::wire::{self, Counter, Record, RuleKey, UnknownRecord, UnwindMode, UnwindRule};
use skeleton::{PcstreamSkel, PcstreamSkelBuilder};

/// The compiled program with its maps and settings, as `build.rs` made it.
#[allow(missing_docs, clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/pcstream.skel.rs"));
}

/// Default number of return address candidates of the stack scan (FAST'19, section 3.2).
pub const SCAN_DEPTH: u32 = 5;
/// Default number of return addresses along call-frame rules or frame pointers. RocksDB's flush and compaction part
/// at the ninth.
pub const FP_DEPTH: u32 = 12;
/// The deepest call path kept.
pub const MAX_DEPTH: u32 = 16;
/// Default size of the ring buffer between kernel and user space.
pub const RING_BYTES: u32 = 64 << 20;

/// Pages of write buffers whose paths are kept: 4 GiB of 8 KiB pages, for 60 MiB of the kernel's memory.
const BUFFER_PAGES: u32 = 1 << 19;

/// What a session does not do for a page that becomes dirty, so that the rest can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Everything is done.
    Nothing = 0,
    /// Pages are tagged without a context.
    Captures = 1,
    /// The page's task and file are found, and that is all.
    CapturesAndTags = 2,
}

/// Whose writes get contexts. Those of all others have the context `others`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Everybody's.
    All = 0,
    /// Of processes named by [`Session::follow_process`], and of what they start.
    Processes = 1,
    /// Of the cgroup named by [`Session::follow_cgroup`], and of those below it.
    Cgroup = 2,
}

/// What a session does.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How call paths are read: by [`Unwind::Exact`], [`Unwind::FramePointer`] or [`Unwind::Scan`] always, or,
    /// with `None`, by the first of them that each program allows.
    pub unwind: Option<Unwind>,
    /// Return addresses per context; `None`: [`SCAN_DEPTH`] and [`FP_DEPTH`].
    pub depth: Option<u32>,
    /// Size of the ring buffer, a power of two.
    pub ring_bytes: u32,
    /// Look mappings of processes up one by one, as kernels before 6.7 have to.
    pub per_address_lookup: bool,
    /// For tests: one path in so many is sent with its whole stack, as [`Record::Check`]. 0: none.
    pub check_every: u32,
    /// For measurements: what is not done for a page that becomes dirty.
    pub left_out: LeftOut,
    /// For measurements: no path cache, so that each call path is captured in full.
    pub no_cache: bool,
    /// Where programs make pages of their write buffers dirty.
    pub buffers: Vec<Probe>,
    /// For tests: take registrations of language runtimes as on kernels without a tracepoint for them.
    pub prctl_by_function: bool,
    /// Whose writes get contexts.
    pub followed: Followed,
    /// Requests are given the streams that [`Session::streams`] holds, where the module `pcstream_bio` is loaded; elsewhere
    /// every stream counts as refused.
    pub placing: bool,
    /// Where that is done, in the kernel's encoding, if not on the file system's own device: below a device-mapper target.
    pub stream_device: u32,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            unwind: None,
            depth: None,
            ring_bytes: RING_BYTES,
            per_address_lookup: false,
            check_every: 0,
            left_out: LeftOut::Nothing,
            no_cache: false,
            buffers: Vec::new(),
            prctl_by_function: false,
            followed: Followed::All,
            placing: false,
            stream_device: 0,
        }
    }
}

impl SessionOptions {
    /// How far stacks are unwound in user space: as far as in the kernel.
    pub fn limits(&self) -> Limits {
        Limits {
            depth: self.depth.unwrap_or(FP_DEPTH) as usize,
            scan_depth: self.depth.unwrap_or(SCAN_DEPTH) as usize,
            fall_back: self.unwind.is_none(),
        }
    }
}

/// Why a session did not come up or broke down.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The depth is out of range.
    #[error("depth {0} is not between 1 and {MAX_DEPTH}")]
    Depth(u32),
    /// Call paths cannot be read in that way.
    #[error("call paths cannot be read by '{}': expected exact, fp or scan", .0.name())]
    Unwind(Unwind),
    /// The kernel refused the program.
    #[error("cannot {step} the BPF program: {source}.{log} `pcstream doctor` says what this machine lacks")]
    Bpf {
        /// open, load, run or attach
        step: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
        /// What libbpf printed, the verifier's log included.
        log: String,
    },
    /// A write buffer cannot be watched.
    #[error("cannot probe {name} of {}: {source}", binary.display())]
    Probe {
        /// The function or probe.
        name: String,
        /// The program or library.
        binary: PathBuf,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// The size of the machine's memory could not be found out.
    #[error("cannot read the memory map from {path}: {reason}")]
    Memory {
        /// Where it was looked for.
        path: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// The ring buffer could not be read.
    #[error("cannot read the ring buffer: {0}")]
    Ring(libbpf_rs::Error),
    /// A record made no sense.
    #[error(transparent)]
    Record(#[from] UnknownRecord),
}

/// The setting for how call paths are read; 0 is the best way that each program allows.
fn unwind_mode(unwind: Option<Unwind>) -> Result<u32, SessionError> {
    match unwind {
        None => Ok(0),
        Some(Unwind::Exact) => Ok(UnwindMode::UNWIND_EXACT.0),
        Some(Unwind::FramePointer) => Ok(UnwindMode::UNWIND_FP.0),
        Some(Unwind::Scan) => Ok(UnwindMode::UNWIND_SCAN.0),
        Some(other) => Err(SessionError::Unwind(other)),
    }
}

/// Memory that outlives a session and that it is built in.
pub type SessionMemory = MaybeUninit<OpenObject>;

/// A loaded and attached capture program.
pub struct Session<'obj> {
    skel: PcstreamSkel<'obj>,
    /// Of write buffers; they end with the session.
    _probes: Vec<Link>,
    runtime_unavailable: Option<String>,
}

/// What libbpf printed since the last look; it has no other way to hand it over.
static LIBBPF_LOG: Mutex<String> = Mutex::new(String::new());
/// More of a log helps nobody.
const MAX_LOG: usize = 16 << 10;

fn keep_log(_: PrintLevel, text: String) {
    if let Ok(mut log) = LIBBPF_LOG.lock()
        && log.len() < MAX_LOG
    {
        log.push_str(&text);
    }
}

/// Attaches the probes of write buffers. Many places may share a rule: an inlined call of `pcstream.h` is a probe at each of
/// its places.
fn attach_probes(skel: &PcstreamSkel<'_>, probes: &[Probe]) -> Result<Vec<Link>, SessionError> {
    let mut rules: Vec<&[u8]> = Vec::new();
    let mut links = Vec::with_capacity(probes.len());
    for probe in probes {
        let rule = wire::rule_bytes(&probe.rule);
        let at = rules.iter().position(|known| *known == rule).unwrap_or(rules.len());
        if at == rules.len() {
            rules.push(rule);
            let key = (at as u32).to_ne_bytes();
            skel.maps.buffer_rules.update(&key, rule, MapFlags::ANY).map_err(|e| bpf_error("set up", e))?;
        }
        let options = UprobeOpts { cookie: at as u64, ..UprobeOpts::default() };
        let link = skel.progs.on_buffer_page.attach_uprobe_with_opts(
            -1,
            &probe.binary,
            probe.offset as usize,
            options,
        );
        links.push(link.map_err(|source| SessionError::Probe {
            name: probe.name.clone(),
            binary: probe.binary.clone(),
            source,
        })?);
    }
    Ok(links)
}

fn bpf_error(step: &'static str, source: libbpf_rs::Error) -> SessionError {
    let log = LIBBPF_LOG.lock().map(|mut log| std::mem::take(&mut *log)).unwrap_or_default();
    let log = if log.is_empty() { log } else { format!(" libbpf says:\n{}\n", log.trim_end()) };
    SessionError::Bpf { step, source, log }
}

impl<'obj> Session<'obj> {
    /// Loads and attaches the program; it stays silent until [`Session::aim`].
    pub fn open(
        options: &SessionOptions,
        memory: &'obj mut SessionMemory,
    ) -> Result<Session<'obj>, SessionError> {
        if let Some(depth) = options.depth
            && !(1..=MAX_DEPTH).contains(&depth)
        {
            return Err(SessionError::Depth(depth));
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
        let mut open = PcstreamSkelBuilder::default().open(memory).map_err(|e| bpf_error("open", e))?;
        let tags = page_frames(end_of_memory()?)?.next_power_of_two();
        let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
        settings.scan_depth = options.depth.unwrap_or(SCAN_DEPTH);
        settings.fp_depth = options.depth.unwrap_or(FP_DEPTH);
        settings.unwind = unwind_mode(options.unwind)?;
        settings.tag_mask = tags - 1;
        settings.check_every = options.check_every;
        settings.left_out = options.left_out as u32;
        settings.no_cache = options.no_cache.into();
        settings.followed = options.followed as u32;
        settings.placing = options.placing.into();
        settings.stream_dev = options.stream_device;
        settings.per_address_lookup = options.per_address_lookup.into();
        open.maps.tags.set_max_entries(tags).map_err(|e| bpf_error("size", e))?;
        open.maps.records.set_max_entries(options.ring_bytes).map_err(|e| bpf_error("size", e))?;
        if !has_tracepoint("io_uring_queue_async_work") {
            open.progs.on_uring_punt.set_autoload(false);
        }
        open.progs.on_bio.set_autoload(!options.placing);
        open.progs.on_placed_bio.set_autoload(options.placing);
        open.progs.on_fork.set_autoload(options.followed == Followed::Processes);
        let prctl = if options.prctl_by_function { Prctl::Function } else { Prctl::of_kernel() };
        let runtime_unavailable = match prctl {
            Prctl::Tracepoint => None,
            Prctl::Function => try_to_watch_prctl().err(),
            Prctl::None => {
                Some(format!("the kernel has no tracepoint {UNKNOWN_PRCTL} and no function {PRCTL}"))
            }
        };
        open.progs.on_prctl.set_autoload(prctl == Prctl::Tracepoint);
        open.progs.on_any_prctl.set_autoload(prctl == Prctl::Function && runtime_unavailable.is_none());
        if options.buffers.is_empty() {
            open.progs.on_buffer_page.set_autoload(false);
        } else {
            settings.buffers = 1;
            open.maps.buffer_pages.set_max_entries(BUFFER_PAGES).map_err(|e| bpf_error("size", e))?;
        }
        let mut skel = open.load().map_err(|e| bpf_error("load", e))?;
        skel.progs.note_recorder.test_run(ProgramInput::default()).map_err(|e| bpf_error("run", e))?;
        skel.attach().map_err(|e| bpf_error("attach", e))?;
        let probes = attach_probes(&skel, &options.buffers)?;
        Ok(Session { skel, _probes: probes, runtime_unavailable })
    }

    /// Why paths of language runtimes (the Java agent) cannot be captured; `None`: they can.
    pub fn runtime_unavailable(&self) -> Option<&str> {
        self.runtime_unavailable.as_deref()
    }

    /// Captures from now on the file system on this block device (kernel encoding: major << 20 |
    /// minor); 0 switches the capture off.
    pub fn aim(&mut self, device: u32) {
        let variables = self.skel.maps.bss_data.as_deref_mut().expect("the program has variables");
        // Volatile: the kernel side reads it at any time.
        // SAFETY: an exclusive reference to a mapped, aligned integer.
        unsafe { std::ptr::write_volatile(&raw mut variables.target_dev, device) };
    }

    /// Follows a process (`process` is a pidfd) and what it starts from now on ([`Followed::Processes`]).
    pub fn follow_process(&self, process: BorrowedFd<'_>) -> Result<(), SessionError> {
        let key = process.as_raw_fd().to_ne_bytes();
        let marked = self.skel.maps.followed_processes.update(&key, &1_u32.to_ne_bytes(), MapFlags::ANY);
        marked.map_err(|e| bpf_error("name the process to", e))
    }

    /// Follows a cgroup (`directory` is open) and those below it ([`Followed::Cgroup`]).
    pub fn follow_cgroup(&self, directory: BorrowedFd<'_>) -> Result<(), SessionError> {
        let value = directory.as_raw_fd().to_ne_bytes();
        let entered = self.skel.maps.followed_cgroup.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
        entered.map_err(|e| bpf_error("name the cgroup to", e))
    }

    /// Where rules for exact paths go.
    pub fn rules(&self) -> Result<RuleTable, SessionError> {
        let rules =
            MapHandle::try_from(&self.skel.maps.rules).map_err(|e| bpf_error("open the rules of", e))?;
        Ok(RuleTable { rules })
    }

    /// Where streams of contexts go; `None` unless [`SessionOptions::placing`] is set.
    pub fn streams(&self) -> Result<Option<StreamMaps>, SessionError> {
        if !self.skel.progs.on_placed_bio.autoload() {
            return Ok(None);
        }
        let open = |map| MapHandle::try_from(map).map_err(|e| bpf_error("open the streams of", e));
        let maps = &self.skel.maps;
        Ok(Some(StreamMaps {
            streams: open(&maps.context_streams)?,
            version: open(&maps.stream_version)?,
            counts: open(&maps.stream_counts)?,
        }))
    }

    /// A counter's value, of all CPUs together; 0 if it cannot be read.
    pub fn counter(&self, counter: Counter) -> u64 {
        let by_cpu = self.skel.maps.counters.lookup_percpu(&counter.0.to_ne_bytes(), MapFlags::ANY);
        let by_cpu = by_cpu.ok().flatten().unwrap_or_default();
        by_cpu.iter().filter_map(|n| Some(u64::from_ne_bytes(n.get(..8)?.try_into().ok()?))).sum()
    }

    /// Events that the kernel kept from the programs because one was running on the same CPU already.
    pub fn missed(&self) -> u64 {
        self.programs().iter().map(|(_, program)| program_fact(*program, "recursion_misses")).sum()
    }

    /// Runs of each program and nanoseconds spent in it, by name. The kernel counts them only while it is asked to (`bpf_enable_stats`,
    /// `sysctl kernel.bpf_stats_enabled`); otherwise all are 0.
    pub fn costs(&self) -> Vec<(&'static str, u64, u64)> {
        let cost =
            |(name, program)| (name, program_fact(program, "run_cnt"), program_fact(program, "run_time_ns"));
        self.programs().into_iter().map(cost).collect()
    }

    /// Instructions of each program that the kernel's verifier looked at: what bounds its growth (one million)
    /// and the time to load it.
    pub fn verified_instructions(&self) -> Vec<(&'static str, u64)> {
        self.programs().into_iter().map(|(name, fd)| (name, program_fact(fd, "verified_insns"))).collect()
    }

    fn programs(&self) -> Vec<(&'static str, i32)> {
        let progs = &self.skel.progs;
        let mut programs = vec![
            ("on_dirty_folio", progs.on_dirty_folio.as_fd().as_raw_fd()),
            ("on_mark_dirty", progs.on_mark_dirty.as_fd().as_raw_fd()),
            ("on_exit", progs.on_exit.as_fd().as_raw_fd()),
        ];
        if progs.on_placed_bio.autoload() {
            programs.push(("on_placed_bio", progs.on_placed_bio.as_fd().as_raw_fd()));
        } else {
            programs.push(("on_bio", progs.on_bio.as_fd().as_raw_fd()));
        }
        if progs.on_fork.autoload() {
            programs.push(("on_fork", progs.on_fork.as_fd().as_raw_fd()));
        }
        if progs.on_prctl.autoload() {
            programs.push(("on_prctl", progs.on_prctl.as_fd().as_raw_fd()));
        }
        if progs.on_any_prctl.autoload() {
            programs.push(("on_any_prctl", progs.on_any_prctl.as_fd().as_raw_fd()));
        }
        if progs.on_buffer_page.autoload() {
            programs.push(("on_buffer_page", progs.on_buffer_page.as_fd().as_raw_fd()));
        }
        if progs.on_uring_punt.autoload() {
            programs.push(("on_uring_punt", progs.on_uring_punt.as_fd().as_raw_fd()));
        }
        programs
    }

    /// A reader of the records; `take` is called for each.
    pub fn reader<'cb>(
        &self,
        mut take: impl FnMut(Result<Record, UnknownRecord>) + 'cb,
    ) -> Result<Reader<'cb>, SessionError>
    where
        'obj: 'cb,
    {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.skel.maps.records, move |bytes| {
                take(Record::parse(bytes));
                0
            })
            .map_err(SessionError::Ring)?;
        Ok(Reader { ring: builder.build().map_err(SessionError::Ring)? })
    }
}

/// The call-frame rules that the kernel side knows.
#[derive(Debug)]
pub struct RuleTable {
    rules: MapHandle,
}

impl RuleTable {
    /// Adds rules. Those that find no room are left out: the kernel side asks for them a number of times, and then
    /// ends paths there.
    pub fn add(&mut self, rules: &[(RuleKey, UnwindRule)]) {
        for (key, rule) in rules {
            let name = [key.module.to_ne_bytes(), key.offset.to_ne_bytes()].concat();
            let rule = [
                rule.kind.to_ne_bytes(),
                rule.cfa_offset.to_ne_bytes(),
                rule.bp_offset.to_ne_bytes(),
                rule.into_function.to_ne_bytes(),
            ]
            .concat();
            if self.rules.update(&name, &rule, MapFlags::ANY).is_err() {
                return;
            }
        }
    }
}

/// Reads records from a session's ring buffer.
pub struct Reader<'cb> {
    ring: libbpf_rs::RingBuffer<'cb>,
}

impl Reader<'_> {
    /// Handles what is there, waiting up to `timeout` for the first record. A signal ends the wait.
    pub fn poll(&self, timeout: Duration) -> Result<(), SessionError> {
        match self.ring.poll_raw(timeout) {
            code if code < 0 && -code != libc::EINTR => {
                Err(SessionError::Ring(libbpf_rs::Error::from_raw_os_error(-code)))
            }
            _ => Ok(()),
        }
    }

    /// Handles what is there, to the last record.
    pub fn drain(&self) -> Result<(), SessionError> {
        loop {
            match self.ring.consume_raw() {
                0 => return Ok(()),
                code if code < 0 && -code != libc::EINTR => {
                    return Err(SessionError::Ring(libbpf_rs::Error::from_raw_os_error(-code)));
                }
                _ => {}
            }
        }
    }
}

/// Whether the running kernel has a tracepoint with type information.
pub fn has_tracepoint(name: &str) -> bool {
    let Ok(btf) = libbpf_rs::btf::Btf::from_vmlinux() else { return false };
    btf.type_by_name::<libbpf_rs::btf::types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
}

const UNKNOWN_PRCTL: &str = "task_prctl_unknown";
const PRCTL: &str = "security_task_prctl";

/// How the kernel side sees what language runtimes register by `prctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prctl {
    /// At the tracepoint of options that no kernel knows (Linux 6.13 and newer).
    Tracepoint,
    /// At the function that all options go through.
    Function,
    /// Not at all.
    None,
}

impl Prctl {
    /// The best way that the running kernel has.
    fn of_kernel() -> Prctl {
        if has_tracepoint(UNKNOWN_PRCTL) {
            Prctl::Tracepoint
        } else if has_function(PRCTL) {
            Prctl::Function
        } else {
            Prctl::None
        }
    }
}

/// Whether the kernel lets the function be watched that all options of `prctl` go through, found out with that program alone: a
/// kernel that does not is one that refuses it together with the others.
fn try_to_watch_prctl() -> Result<(), String> {
    let mut memory = SessionMemory::uninit();
    let tried = PcstreamSkelBuilder::default().open(&mut memory).and_then(|mut open| {
        for mut program in open.open_object_mut().progs_mut() {
            let wanted = program.name() == "on_any_prctl";
            program.set_autoload(wanted);
        }
        open.maps.records.set_max_entries(1 << 16)?;
        open.load()?.attach()
    });
    let log = std::mem::take(&mut *LIBBPF_LOG.lock().unwrap_or_else(PoisonError::into_inner));
    tried.map_err(|error| {
        let reason = log.lines().next().map(str::to_owned).unwrap_or_else(|| error.to_string());
        format!("the kernel does not let its function {PRCTL} be watched ({reason})")
    })
}

/// Whether the running kernel has a function with type information.
pub fn has_function(name: &str) -> bool {
    let Ok(btf) = libbpf_rs::btf::Btf::from_vmlinux() else { return false };
    btf.type_by_name::<libbpf_rs::btf::types::Func<'_>>(name).is_some()
}

const IOMEM: &str = "/proc/iomem";

/// The last physical address of the machine's memory, plus one.
fn end_of_memory() -> Result<u64, SessionError> {
    let error = |reason: &str| SessionError::Memory { path: IOMEM, reason: reason.to_string() };
    let text = std::fs::read_to_string(IOMEM).map_err(|e| error(&e.to_string()))?;
    let last =
        last_ram_byte(&text).ok_or_else(|| error("no System RAM listed (it is shown to root only)"))?;
    Ok(last.saturating_add(1))
}

/// Page frames of the machine, holes included: one more than the number of its last page frame.
fn page_frames(memory_end: u64) -> Result<u32, SessionError> {
    u32::try_from(memory_end.div_ceil(4096))
        .map_err(|_| SessionError::Memory { path: IOMEM, reason: "more than 16 TiB of memory".to_string() })
}

fn last_ram_byte(iomem: &str) -> Option<u64> {
    iomem
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" : System RAM")?.split_once('-'))
        .filter_map(|(_, end)| u64::from_str_radix(end, 16).ok())
        .max()
        .filter(|&end| end > 0)
}

/// A number that the kernel keeps of a program; 0 if it does not.
fn program_fact(program: i32, name: &str) -> u64 {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{program}")).unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_with_the_last_ram() {
        let iomem = "00001000-0009fbff : System RAM\n  000f0000-000fffff : System ROM\n\
                     100000000-65fffffff : System RAM\n660000000-67fffffff : PCI Bus\n";
        assert_eq!(last_ram_byte(iomem), Some(0x6_5fff_ffff));
        assert_eq!(last_ram_byte("00000000-00000000 : System RAM\n"), None);
        assert_eq!(last_ram_byte(""), None);
    }

    #[test]
    fn a_depth_out_of_range_is_refused_before_anything_is_loaded() {
        for depth in [0, MAX_DEPTH + 1] {
            let mut memory = SessionMemory::uninit();
            let options = SessionOptions { depth: Some(depth), ..Default::default() };
            assert!(
                matches!(Session::open(&options, &mut memory), Err(SessionError::Depth(d)) if d == depth)
            );
        }
    }
}
