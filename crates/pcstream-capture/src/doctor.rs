//! What this machine can do: probes, not version numbers.
//!
//! Each check says what was found, what stops working without it, and what to do. The last word has
//! the kernel: the program is really loaded and attached.

use std::path::Path;

use pcstream_fs::scratch::{FsKind, find_mkfs};
use serde::Serialize;

use crate::session::{self, Session, SessionMemory, SessionOptions};

/// How much depends on a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Something is missing that only part of the work needs.
    Limited,
    /// Nothing can be captured.
    Missing,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; empty if nothing.
    pub remedy: String,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Good, found: found.into(), remedy: String::new() }
    }

    fn bad(
        name: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { name, verdict, found: found.into(), remedy: remedy.into() }
    }
}

/// The name of the check that loads and attaches the program. All that it needs is checked before it.
pub const PROGRAM: &str = "BPF program";

/// All checks, most fundamental first.
pub fn examine() -> Vec<Check> {
    let mut checks = vec![
        architecture(),
        privileges(),
        kernel_types(),
        tracepoints(),
        completion_functions(
            &std::fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
            rustix::process::geteuid().is_root(),
        ),
        io_accounting(),
    ];
    checks.extend(program());
    checks.extend([scratch_devices(), file_system(FsKind::Ext4), file_system(FsKind::Xfs)]);
    // Few kernels have it.
    checks.extend(is_listed(FsKind::F2fs.name()).then(|| file_system(FsKind::F2fs)));
    checks
}

/// Whether `run` and `record` can work at all.
pub fn can_capture(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.verdict != Verdict::Missing)
}

fn architecture() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Check::good("kernel", format!("Linux {} on {}", release.trim(), std::env::consts::ARCH))
}

/// Capabilities by bit number: what each is needed for.
const CAPABILITIES: [(u32, &str); 3] =
    [(21, "CAP_SYS_ADMIN (mount, devices)"), (38, "CAP_PERFMON (tracing)"), (39, "CAP_BPF (load programs)")];

fn privileges() -> Check {
    let mut missing = missing_capabilities();
    // The block device and /run/pcstream are root's.
    missing.extend((!rustix::process::geteuid().is_root()).then_some("being root (files of the device)"));
    if missing.is_empty() {
        return Check::good("privileges", "root, with all needed capabilities");
    }
    Check::bad(
        "privileges",
        Verdict::Missing,
        format!("without {}", missing.join(", ")),
        "run as root: sudo pcstream ...",
    )
}

/// Capabilities that a capture takes and this process does not have, with what they are for.
pub fn missing_capabilities() -> Vec<&'static str> {
    missing_from(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn missing_from(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|&(_, name)| name).collect()
}

fn kernel_types() -> Check {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    if Path::new(PATH).exists() {
        return Check::good("kernel types (BTF)", PATH);
    }
    Check::bad(
        "kernel types (BTF)",
        Verdict::Missing,
        format!("no {PATH}"),
        "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's and Ubuntu's are",
    )
}

/// Tracepoints, by all names that kernels have for them, and what is missing without them where capture is possible all the same.
const TRACEPOINTS: [(&[&str], Option<&str>); 5] = [
    (&["writeback_dirty_folio"], None),
    (&["writeback_mark_inode_dirty"], None),
    (&["block_bio_queue"], None),
    (&["sched_process_exit"], None),
    (
        &["io_uring_submit_req", "io_uring_submit_sqe"],
        Some("writes that io_uring hands to its workers get the context `io_uring worker`"),
    ),
];

fn tracepoints() -> Check {
    let absent: Vec<_> = TRACEPOINTS
        .iter()
        .filter(|(names, _)| !names.iter().any(|name| session::has_tracepoint(name)))
        .collect();
    let names = absent.iter().map(|(names, _)| names[0]).collect::<Vec<_>>().join(", ");
    if absent.is_empty() {
        return Check::good("tracepoints", format!("all {}", TRACEPOINTS.len()));
    }
    if absent.iter().any(|(_, without)| without.is_none()) {
        let remedy = "use kernel 6.1 or newer";
        return Check::bad("tracepoints", Verdict::Missing, format!("no {names}"), remedy);
    }
    let without: Vec<_> = absent.iter().filter_map(|(_, without)| *without).collect();
    Check::bad("tracepoints", Verdict::Limited, format!("no {names}"), without.join("; "))
}

/// Functions that tell the program what a request is: one of each line, as kernels rename them, and what is missing
/// without. Linux 7.2 replaced `end_bio_bh_io_sync` by `bh_end_write` and `bh_end_async_write`.
const COMPLETIONS: [(&[&str], &str); 3] = [
    (&["iomap_dio_bio_end_io"], "direct I/O gets no context"),
    (&["end_bio_bh_io_sync", "bh_end_write"], "ext4's directories are not distinguished from other metadata"),
    (&["xfs_buf_bio_end_io"], "XFS's metadata kinds are not distinguished"),
];

/// `symbols`: the text of /proc/kallsyms, whose addresses may be hidden from others than root.
fn completion_functions(symbols: &str, root: bool) -> Check {
    let is_shown =
        |line: &str| line.split(' ').next().is_some_and(|at| at.bytes().any(|digit| digit != b'0'));
    if !root && !symbols.lines().any(is_shown) {
        return Check::bad("kernel symbols", Verdict::Limited, "needs root to look", "");
    }
    let is_of = |line: &str, name: &str| line.split_whitespace().nth(2) == Some(name);
    let has = |name: &str| symbols.lines().any(|line| is_shown(line) && is_of(line, name));
    let absent: Vec<_> =
        COMPLETIONS.iter().filter(|(names, _)| !names.iter().any(|name| has(name))).collect();
    if absent.is_empty() {
        return Check::good("kernel symbols", "completion functions of direct I/O, ext4 and XFS");
    }
    let names = absent.iter().map(|(names, _)| names.join(" or ")).collect::<Vec<_>>().join(", ");
    let effects = absent.iter().map(|(_, effect)| *effect).collect::<Vec<_>>().join("; ");
    Check::bad(
        "kernel symbols",
        Verdict::Limited,
        format!("no {names} in /proc/kallsyms"),
        format!("{effects}; load the file system's module (modprobe ext4, modprobe xfs) and look again"),
    )
}

fn io_accounting() -> Check {
    if Path::new("/proc/self/io").exists() {
        return Check::good("task I/O accounting", "present");
    }
    Check::bad(
        "task I/O accounting",
        Verdict::Limited,
        "no /proc/self/io",
        "--write-buffers may give a write the call path of an earlier one: kernel built without CONFIG_TASK_IO_ACCOUNTING",
    )
}

/// The program, and if it loads, what the kernel lets it see beside tracepoints.
fn program() -> Vec<Check> {
    let mut memory = SessionMemory::uninit();
    match Session::open(&SessionOptions { ring_bytes: 1 << 20, ..Default::default() }, &mut memory) {
        Ok(session) => {
            let loaded = match session.runtime_unavailable() {
                None => Check::good(PROGRAM, "loads and attaches"),
                Some(why) => Check::bad(
                    PROGRAM,
                    Verdict::Limited,
                    format!("loads and attaches; {why}"),
                    "call paths of the Java agent cannot be captured: use a kernel newer than 6.12",
                ),
            };
            vec![loaded, functions(session.hints_unavailable())]
        }
        Err(error) => vec![Check::bad(PROGRAM, Verdict::Missing, error.to_string(), "see the checks above")],
    }
}

fn functions(unavailable: Option<&str>) -> Check {
    const NAME: &str = "kernel functions";
    match unavailable {
        None => Check::good(NAME, "can be watched"),
        Some(why) => Check::bad(
            NAME,
            Verdict::Limited,
            why,
            "dirty pages that the kernel moves in memory lose their context, and write hints that it refuses are \
             not counted: use a kernel with the function tracer, as Debian's are",
        ),
    }
}

fn scratch_devices() -> Check {
    let zram = Path::new("/sys/class/zram-control/hot_add").exists();
    let looped = Path::new("/dev/loop-control").exists();
    match (zram, looped) {
        (true, true) => Check::good("scratch devices", "zram and loop"),
        (false, true) => Check::bad(
            "scratch devices",
            Verdict::Limited,
            "loop, no zram",
            "modprobe zram, or use --image tmpfs",
        ),
        (true, false) => Check::bad(
            "scratch devices",
            Verdict::Limited,
            "zram, no loop",
            "modprobe loop for --image tmpfs and --image PATH",
        ),
        (false, false) => Check::bad(
            "scratch devices",
            Verdict::Limited,
            "neither zram nor loop",
            "modprobe zram; without either only --on DIR works",
        ),
    }
}

/// Whether the kernel lists a file system.
fn is_listed(name: &str) -> bool {
    std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|list| list.lines().any(|line| line.split_whitespace().last() == Some(name)))
}

fn file_system(fs: FsKind) -> Check {
    let name = fs.name();
    let supported = is_listed(name);
    let check_name = match fs {
        FsKind::Ext4 => "ext4",
        FsKind::F2fs => "F2FS",
        FsKind::Xfs => "XFS",
    };
    match (supported, find_mkfs(fs)) {
        (true, Ok(path)) => Check::good(check_name, path.display().to_string()),
        (false, Ok(path)) => Check::bad(
            check_name,
            Verdict::Limited,
            format!("{}, but the kernel does not list {name}", path.display()),
            format!("modprobe {name} (mounting does so by itself where allowed)"),
        ),
        (_, Err(missing)) => {
            Check::bad(check_name, Verdict::Limited, format!("no mkfs.{name}"), missing.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        assert_eq!(missing_from("CapEff:\t000001ffffffffff\n"), Vec::<&str>::new());
        assert_eq!(missing_from("CapEff:\t0000000000000000\n").len(), 3);
        assert_eq!(missing_from("CapEff:\t000000c000000000\n"), ["CAP_SYS_ADMIN (mount, devices)"]);
        assert_eq!(missing_from("").len(), 3);
    }

    #[test]
    fn symbols_that_are_hidden_are_not_missing() {
        let names = ["iomap_dio_bio_end_io", "bh_end_write", "xfs_buf_bio_end_io\t[xfs]"];
        let with = |address: &str| names.map(|name| format!("{address} t {name}\n")).concat();
        let (hidden, shown) = (with("0000000000000000"), with("ffffffff81000010"));
        assert_eq!(completion_functions(&hidden, false).found, "needs root to look");
        assert!(completion_functions(&hidden, true).remedy.contains("modprobe xfs"));
        assert_eq!(completion_functions(&shown, true).verdict, Verdict::Good);
        let ext4 = shown.lines().nth(1).unwrap();
        assert!(completion_functions(ext4, false).remedy.contains("XFS's metadata"));
    }

    #[test]
    fn one_missing_essential_prevents_capture() {
        let good = Check::good("a", "b");
        let limited = Check::bad("a", Verdict::Limited, "b", "c");
        let missing = Check::bad("a", Verdict::Missing, "b", "c");
        assert!(can_capture(&[good.clone(), limited.clone()]));
        assert!(!can_capture(&[good, limited, missing]));
    }
}
