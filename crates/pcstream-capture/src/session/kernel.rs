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

/// Entries of a table with one for each page frame of the machine, holes included: a power of two.
///
/// Errors: more than such a table may have.
pub(super) fn page_frame_entries(memory_end: u64) -> Result<u32, SessionError> {
    /// The largest power of two that the kernel takes as a number of entries.
    const MOST: u64 = 1 << 31;
    let frames = memory_end.div_ceil(4096);
    if frames > MOST {
        let reason = format!(
            "memory ends at {memory_end:#x}, and pages of more than 8 TiB (holes included) cannot be kept apart"
        );
        return Err(SessionError::Memory { path: IOMEM, reason });
    }
    Ok(frames.next_power_of_two() as u32)
}

/// Memory that was added later has the name of what added it in brackets: `System RAM (kmem)`, `System RAM (virtio_mem)`.
fn is_ram(name: &str) -> bool {
    let rest = name.strip_prefix("System RAM");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

fn last_ram_byte(iomem: &str) -> Option<u64> {
    iomem
        .lines()
        .filter_map(|line| line.trim().split_once(" : ").filter(|(_, name)| is_ram(name))?.0.split_once('-'))
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

    #[test]
    fn memory_that_was_added_counts() {
        for name in ["kmem", "virtio_mem"] {
            let iomem = format!(
                "00001000-7fffffff : System RAM\n  01000000-01ffffff : Kernel code\n\
                 100000000-1ffffffff : dax0.0\n  100000000-17fffffff : System RAM ({name})\n"
            );
            assert_eq!(last_ram_byte(&iomem), Some(0x1_7fff_ffff));
        }
        assert_eq!(last_ram_byte("00001000-7fffffff : System RAMDISK\n"), None);
    }

    #[test]
    fn more_memory_than_can_be_kept_apart_is_refused() {
        assert_eq!(page_frame_entries(16 << 30).expect("it fits"), 1 << 22);
        assert_eq!(page_frame_entries((16 << 30) + 1).expect("it fits"), 1 << 23);
        assert_eq!(page_frame_entries(8 << 40).expect("it fits"), 1 << 31);
        for end in [(8 << 40) + 1, 16 << 40, u64::MAX] {
            let error = page_frame_entries(end).expect_err("it does not").to_string();
            assert!(error.contains("8 TiB") && error.contains(IOMEM), "{error}");
        }
    }
}
