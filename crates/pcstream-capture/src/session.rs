//! A capture session: the BPF program loaded, aimed at one file system, and read.
//!
//! Idea: everything the kernel must know before it verifies the program is a read-only setting;
//! afterwards one number, the device, switches the capture on and off. Reading is a callback per
//! record, in the caller's thread.

mod error;
mod functions;
mod kernel;
mod options;
mod reader;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, OpenObject, OpenProgramMut, PrintLevel, Program, ProgramAttachType,
    ProgramInput, RingBufferBuilder, UprobeOpts,
};
use pcstream_fs::scratch::FsKind;
use pcstream_trace::Unwind;

use crate::buffers::Probe;
use crate::modules::open_files;
use crate::streams::{PAGE_STREAM_WORDS, StreamMaps};
use crate::wire::{self, Counter, Record, UnknownRecord, UnwindMode};
use error::{LEAST_FILES, bpf_error, keep_log};
use functions::{PRCTL, Prctl, hints_unavailable, sees_migrations};
use kernel::{end_of_memory, page_frame_entries};
use skeleton::{OpenPcstreamProgs, PcstreamSkel, PcstreamSkelBuilder};

pub use error::SessionError;
pub use kernel::{has_tracepoint, uring_tracepoint};
pub use options::{FP_DEPTH, Followed, MAX_DEPTH, PlacedBy, RING_BYTES, SCAN_DEPTH, SessionOptions};
pub use reader::{PIECE, Reader, RuleTable};

/// The compiled program with its maps and settings, as `build.rs` made it.
#[allow(missing_docs, clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/pcstream.skel.rs"));
}

/// Pages of write buffers whose paths are kept: 4 GiB of 8 KiB pages, for 60 MiB of the kernel's memory.
const BUFFER_PAGES: u32 = 1 << 19;

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

/// How often a process is marked again that another capture marks, too.
const MARK_RETRIES: u32 = 1000;

/// A loaded and attached capture program.
pub struct Session<'obj> {
    skel: PcstreamSkel<'obj>,
    /// Of write buffers; they end with the session.
    _probes: Vec<Link>,
    runtime_unavailable: Option<String>,
    hints_unavailable: Option<String>,
    /// Somebody uses streams of contexts.
    streams: bool,
    /// Of the beginnings of writes.
    writes: Vec<Link>,
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
        let options = UprobeOpts {
            cookie: at as u64,
            ref_ctr_offset: probe.listeners as usize,
            ..UprobeOpts::default()
        };
        let link = skel.progs.on_buffer_page.attach_uprobe_with_opts(
            -1,
            format!("/proc/self/fd/{}", probe.file.as_raw_fd()),
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
        let most_files = open_files::allowed();
        if most_files < LEAST_FILES {
            return Err(SessionError::Files(most_files));
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
        let mut open = PcstreamSkelBuilder::default().open(memory).map_err(|e| bpf_error("open", e))?;
        let tags = page_frame_entries(end_of_memory()?)?;
        let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
        settings.scan_depth = options.depth.unwrap_or(SCAN_DEPTH);
        settings.fp_depth = options.depth.unwrap_or(FP_DEPTH);
        settings.unwind = unwind_mode(options.unwind)?;
        settings.tag_mask = tags - 1;
        settings.check_every = options.check_every;
        settings.no_cache = options.no_cache.into();
        settings.followed = options.followed as u32;
        settings.only_below = options.only_below.unwrap_or(0);
        settings.placing = options.placed_by as u32;
        settings.answering = options.answering.into();
        settings.raw = options.raw.into();
        settings.prompt = options.prompt.into();
        settings.stream_dev = options.stream_device;
        settings.per_address_lookup = options.per_address_lookup.into();
        open.maps.tags.set_max_entries(tags).map_err(|e| bpf_error("size", e))?;
        open.maps.records.set_max_entries(options.ring_bytes).map_err(|e| bpf_error("size", e))?;
        if options.placed_by == PlacedBy::Server {
            open.maps.page_streams.set_max_entries(PAGE_STREAM_WORDS).map_err(|e| bpf_error("size", e))?;
        }
        let prctl = if options.prctl_by_function { Prctl::Function } else { Prctl::of_kernel() };
        let runtime_unavailable = prctl.unavailable();
        let hints_unavailable = hints_unavailable();
        let placing = options.placed_by != PlacedBy::Nobody;
        let programs = &mut open.progs;
        choose_hooks(programs, runtime_unavailable.is_none().then_some(prctl))?;
        programs.on_bio.set_autoload(!placing);
        programs.on_placed_bio.set_autoload(placing);
        programs.on_fork.set_autoload(options.followed == Followed::Processes);
        programs.on_fcntl.set_autoload(hints_unavailable.is_none());
        programs.on_migrate.set_autoload(sees_migrations());
        programs.on_buffer_page.set_autoload(!options.buffers.is_empty());
        // See `watch_writes`.
        programs.on_ext4_write.set_autoattach(false);
        programs.on_xfs_write.set_autoattach(false);
        if !options.buffers.is_empty() {
            settings.buffers = 1;
            settings.most_buffer_pages = BUFFER_PAGES;
            open.maps.buffer_pages.set_max_entries(BUFFER_PAGES).map_err(|e| bpf_error("size", e))?;
        }
        let mut skel = open.load().map_err(|e| bpf_error("load", e))?;
        // Programs map it, which takes a descriptor that could write: from now on none can.
        let answers = MapHandle::try_from(&skel.maps.stream_answers).and_then(|map| map.freeze());
        answers.map_err(|e| bpf_error("freeze the answers of", e))?;
        skel.progs.note_recorder.test_run(ProgramInput::default()).map_err(|e| bpf_error("run", e))?;
        skel.attach().map_err(|e| bpf_error("attach", e))?;
        let probes = attach_probes(&skel, &options.buffers)?;
        let (streams, writes) = (placing || options.answering, Vec::new());
        Ok(Session { skel, _probes: probes, runtime_unavailable, hints_unavailable, streams, writes })
    }

    /// Why paths of language runtimes (the Java agent) cannot be captured; `None`: they can.
    pub fn runtime_unavailable(&self) -> Option<&str> {
        self.runtime_unavailable.as_deref()
    }

    /// Why write hints that the kernel refuses are not seen; `None`: they are.
    pub fn hints_unavailable(&self) -> Option<&str> {
        self.hints_unavailable.as_deref()
    }

    /// Looks at writes to a mounted file system of this kind when they begin: which pages they are about; on ext4 also at
    /// writing back, on F2FS at its cleaning. Only a mounted one has its module, and that the tracepoints. Errors: the kernel has none; then all pages of a folio go to who made it dirty.
    pub fn watch_writes(&mut self, fs: FsKind) -> Result<(), SessionError> {
        let programs = &self.skel.progs;
        let hooks = match fs {
            FsKind::Ext4 => vec![
                (&programs.on_ext4_write, "ext4_da_write_begin"),
                (&programs.on_ext4_write, "ext4_write_begin"),
                (&programs.on_flush_begin, "ext4_writepages"),
                (&programs.on_flush_end, "ext4_writepages_result"),
            ],
            FsKind::Xfs => vec![(&programs.on_xfs_write, "xfs_file_buffered_write")],
            // What is written to it is in folios of one page. But it moves data of others.
            FsKind::F2fs => {
                vec![(&programs.on_clean_begin, "f2fs_gc_begin"), (&programs.on_clean_end, "f2fs_gc_end")]
            }
        };
        for (program, tracepoint) in hooks {
            let link = program.attach_raw_tracepoint(tracepoint);
            self.writes.push(link.map_err(|e| bpf_error("attach the hook of writes of", e))?);
        }
        Ok(())
    }

    /// Captures from now on this block device, or the file system on it (kernel encoding: major << 20 |
    /// minor); 0 switches the capture off.
    pub fn aim(&mut self, device: u32) {
        let variables = self.skel.maps.bss_data.as_deref_mut().expect("the program has variables");
        // Volatile: the BPF program reads it at any time.
        // SAFETY: an exclusive reference to a mapped, aligned integer.
        unsafe { std::ptr::write_volatile(&raw mut variables.target_dev, device) };
    }

    /// Follows a process (`process` is a pidfd) and what it starts from now on ([`Followed::Processes`]).
    pub fn follow_process(&self, process: BorrowedFd<'_>) -> Result<(), SessionError> {
        let key = process.as_raw_fd().to_ne_bytes();
        let mark = || self.skel.maps.followed_processes.update(&key, &1_u32.to_ne_bytes(), MapFlags::ANY);
        // Another capture may give the same task its first storage: then the kernel asks to try again.
        let is_race = |marked: &Result<(), libbpf_rs::Error>| {
            marked.as_ref().is_err_and(|error| error.kind() == libbpf_rs::ErrorKind::WouldBlock)
        };
        let mut marked = mark();
        for _ in 0..MARK_RETRIES {
            if !is_race(&marked) {
                break;
            }
            marked = mark();
        }
        marked.map_err(|e| bpf_error("name the process to", e))
    }

    /// Whether it is followed already, or was started by a process that is.
    pub fn follows_process(&self, process: BorrowedFd<'_>) -> bool {
        let key = process.as_raw_fd().to_ne_bytes();
        matches!(self.skel.maps.followed_processes.lookup(&key, MapFlags::ANY), Ok(Some(_)))
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

    /// Where streams of contexts go; `None` unless [`SessionOptions::placed_by`] or [`SessionOptions::answering`] is set.
    pub fn streams(&self) -> Result<Option<StreamMaps>, SessionError> {
        if !self.streams {
            return Ok(None);
        }
        let open = |map| MapHandle::try_from(map).map_err(|e| bpf_error("open the streams of", e));
        let maps = &self.skel.maps;
        Ok(Some(StreamMaps {
            streams: open(&maps.context_streams)?,
            version: open(&maps.stream_version)?,
            counts: open(&maps.stream_counts)?,
            answers: open(&maps.stream_answers)?,
            pages: open(&maps.page_streams)?,
        }))
    }

    /// A counter's value, of all CPUs together.
    pub fn counter(&self, counter: Counter) -> Result<u64, SessionError> {
        let by_cpu = self.skel.maps.counters.lookup_percpu(&counter.0.to_ne_bytes(), MapFlags::ANY);
        let by_cpu = by_cpu.map_err(|e| bpf_error("read the counters of", e))?.unwrap_or_default();
        Ok(by_cpu.iter().filter_map(|n| Some(u64::from_ne_bytes(n.get(..8)?.try_into().ok()?))).sum())
    }

    /// Events that the kernel kept from the programs because one was running on the same CPU already.
    pub fn missed(&self) -> Result<u64, SessionError> {
        let missed = self.programs().map(|program| program_fact(&program, "recursion_misses"));
        missed.sum::<io::Result<u64>>().map_err(SessionError::Facts)
    }

    /// Runs of each program and nanoseconds spent in it, by name. The kernel counts them only while it is asked to (`bpf_enable_stats`,
    /// `sysctl kernel.bpf_stats_enabled`); otherwise all are 0, and so are those that cannot be read.
    pub fn costs(&self) -> Vec<(String, u64, u64)> {
        let cost = |program: Program<'_>| {
            let fact = |name| program_fact(&program, name).unwrap_or(0);
            (name_of(&program), fact("run_cnt"), fact("run_time_ns"))
        };
        self.programs().map(cost).collect()
    }

    /// Instructions of each program that the kernel's verifier looked at: what bounds its growth (one million)
    /// and the time to load it.
    pub fn verified_instructions(&self) -> Vec<(String, u64)> {
        let verified = |program: &Program<'_>| program_fact(program, "verified_insns").unwrap_or(0);
        let fact = |program: Program<'_>| (name_of(&program), verified(&program));
        self.programs().map(fact).collect()
    }

    /// What was loaded.
    fn programs(&self) -> impl Iterator<Item = Program<'_>> {
        self.skel.object().progs().filter(Program::autoload)
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
        Ok(Reader::new(builder.build().map_err(SessionError::Ring)?))
    }
}

/// Where programs are attached that have other hooks on other kernels. One without a hook is not loaded.
fn choose_hooks(programs: &mut OpenPcstreamProgs<'_>, prctl: Option<Prctl>) -> Result<(), SessionError> {
    match uring_tracepoint() {
        Some(tracepoint) => hook(&mut programs.on_uring_submit, tracepoint)?,
        None => programs.on_uring_submit.set_autoload(false),
    }
    match prctl {
        Some(Prctl::Tracepoint) => {}
        Some(Prctl::Function) => {
            programs.on_prctl.set_attach_type(ProgramAttachType::TraceFentry);
            hook(&mut programs.on_prctl, PRCTL)?;
        }
        None => programs.on_prctl.set_autoload(false),
    }
    Ok(())
}

fn hook(program: &mut OpenProgramMut<'_>, name: &str) -> Result<(), SessionError> {
    program.set_attach_target(0, Some(name.to_owned())).map_err(|e| bpf_error("find a hook of", e))
}

fn name_of(program: &Program<'_>) -> String {
    program.name().to_string_lossy().into_owned()
}

/// A number that the kernel keeps of a program; 0 if it does not.
fn program_fact(program: &Program<'_>, name: &str) -> io::Result<u64> {
    let descriptor = program.as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))?;
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map_or(Ok(0), |value| value.trim().parse().map_err(io::Error::other))
}

#[cfg(test)]
mod tests {
    use super::*;

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
