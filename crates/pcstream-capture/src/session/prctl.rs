//! How the kernel side sees what language runtimes register by `prctl`.

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use super::SessionMemory;
use super::error::take_log;
use super::kernel::{has_function, has_tracepoint};
use super::skeleton::PcstreamSkelBuilder;

const UNKNOWN_PRCTL: &str = "task_prctl_unknown";
const PRCTL: &str = "security_task_prctl";

/// How the kernel side sees what language runtimes register by `prctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prctl {
    /// At the tracepoint of options that no kernel knows (Linux 6.13 and newer).
    Tracepoint,
    /// At the function that all options go through.
    Function,
    /// Not at all.
    None,
}

impl Prctl {
    /// The best way that the running kernel has.
    pub(super) fn of_kernel() -> Prctl {
        if has_tracepoint(UNKNOWN_PRCTL) {
            Prctl::Tracepoint
        } else if has_function(PRCTL) {
            Prctl::Function
        } else {
            Prctl::None
        }
    }

    /// Why nothing is seen in this way; `None`: it is.
    pub(super) fn unavailable(self) -> Option<String> {
        match self {
            Prctl::Tracepoint => None,
            Prctl::Function => try_to_watch_prctl().err(),
            Prctl::None => {
                Some(format!("the kernel has no tracepoint {UNKNOWN_PRCTL} and no function {PRCTL}"))
            }
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
    let log = take_log();
    tried.map_err(|error| {
        let reason = log.lines().next().map(str::to_owned).unwrap_or_else(|| error.to_string());
        format!("the kernel does not let its function {PRCTL} be watched ({reason})")
    })
}
