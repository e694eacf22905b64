//! What the running kernel and machine have: tracepoints, functions, memory.

use super::error::SessionError;

/// Whether the running kernel has a tracepoint with type information.
pub fn has_tracepoint(name: &str) -> bool {
    let Ok(btf) = libbpf_rs::btf::Btf::from_vmlinux() else { return false };
    btf.type_by_name::<libbpf_rs::btf::types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
}

/// The tracepoint of requests that programs submit to io_uring; `None`: the running kernel has none.
pub fn uring_tracepoint() -> Option<&'static str> {
    // The second is its name before Linux 6.4.
    ["io_uring_submit_req", "io_uring_submit_sqe"].into_iter().find(|name| has_tracepoint(name))
}

const IOMEM: &str = "/proc/iomem";

/// The last physical address of the machine's memory, plus one.
pub(super) fn end_of_memory() -> Result<u64, SessionError> {
    let error = |reason: &str| SessionError::Memory { path: IOMEM, reason: reason.to_string() };
    let text = std::fs::read_to_string(IOMEM).map_err(|e| error(&e.to_string()))?;
    let last =
        last_ram_byte(&text).ok_or_else(|| error("no System RAM listed (it is shown to root only)"))?;
    Ok(last.saturating_add(1))
}

/// Page frames of the machine, holes included: one more than the number of its last page frame.
pub(super) fn page_frames(memory_end: u64) -> Result<u32, SessionError> {
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
}
