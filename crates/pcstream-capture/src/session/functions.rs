//! Functions of the kernel that are watched where it allows that: it needs its function tracer. A capture does without.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;
use libbpf_sys::{BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY};

use super::kernel::has_tracepoint;

const UNKNOWN_PRCTL: &str = "task_prctl_unknown";
/// All options of `prctl` go through it.
pub(super) const PRCTL: &str = "security_task_prctl";
const FCNTL: &str = "do_fcntl";
const MIGRATE: &str = "folio_migrate_flags";

/// How the BPF program sees what language runtimes register by `prctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prctl {
    /// At the tracepoint of options that no kernel knows (Linux 6.13 and newer).
    Tracepoint,
    /// At the function that all options go through.
    Function,
}

impl Prctl {
    /// The best way that the running kernel has.
    pub(super) fn of_kernel() -> Prctl {
        if has_tracepoint(UNKNOWN_PRCTL) { Prctl::Tracepoint } else { Prctl::Function }
    }

    /// Why nothing is seen in this way; `None`: it is.
    pub(super) fn unavailable(self) -> Option<String> {
        (self == Prctl::Function).then(|| try_to_watch(PRCTL).err()).flatten()
    }
}

/// Why write hints that the kernel refuses are not seen; `None`: they are.
pub(super) fn hints_unavailable() -> Option<String> {
    try_to_watch(FCNTL).err()
}

/// Whether pages that the kernel moves in memory keep their context.
pub(super) fn sees_migrations() -> bool {
    try_to_watch(MIGRATE).is_ok()
}

/// Whether the kernel lets the function be watched, found out with a program that does nothing: a kernel that does not would refuse
/// the other programs together with the one that watches it.
fn try_to_watch(function: &str) -> Result<(), String> {
    let refused = || {
        let error = std::io::Error::last_os_error();
        format!("the kernel does not let its function {function} be watched ({error})")
    };
    let name = CString::new(function).expect("a function's name has no zeros");
    // SAFETY: the name is a string that outlives the call.
    let id = unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), BPF_TRACE_FENTRY) };
    let id = u32::try_from(id).map_err(|_| format!("the kernel has no function {function}"))?;
    // r0 = 0; exit
    let instructions = [0xb7, 0x95].map(|code| libbpf_sys::bpf_insn { code, ..Default::default() });
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
        expected_attach_type: BPF_TRACE_FENTRY,
        attach_btf_id: id,
        ..Default::default()
    };
    // SAFETY: all that is pointed at outlives the call, and the lengths are right.
    let program = unsafe {
        libbpf_sys::bpf_prog_load(
            BPF_PROG_TYPE_TRACING,
            std::ptr::null(),
            c"Dual MIT/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as u64,
            &raw mut options,
        )
    };
    let program = owned(program).ok_or_else(refused)?;
    // SAFETY: no name is needed: the program says what it watches.
    let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
    owned(link).map(drop).ok_or_else(refused)
}

/// A descriptor that libbpf has just made; `None`: it failed.
fn owned(descriptor: i32) -> Option<OwnedFd> {
    // SAFETY: it is open, and nobody else has it.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
}
