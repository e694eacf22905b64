//! Names of the entries into the kernel through which writes come (x86-64).

use crate::wire::Entry;

/// System calls that write files or submit I/O. Others are shown by number.
const NAMES: [(i32, &str); 28] = [
    (1, "write"),
    (3, "close"),
    (16, "ioctl"),
    (18, "pwrite64"),
    (20, "writev"),
    (26, "msync"),
    (40, "sendfile"),
    (74, "fsync"),
    (75, "fdatasync"),
    (76, "truncate"),
    (77, "ftruncate"),
    (82, "rename"),
    (87, "unlink"),
    (162, "sync"),
    (209, "io_submit"),
    (275, "splice"),
    (277, "sync_file_range"),
    (278, "vmsplice"),
    (285, "fallocate"),
    (296, "pwritev"),
    (306, "syncfs"),
    (326, "copy_file_range"),
    (328, "pwritev2"),
    (426, "io_uring_enter"),
    (231, "exit_group"),
    (257, "openat"),
    (316, "renameat2"),
    (437, "openat2"),
];

const WRITE_BUFFER: &str = "write buffer";
const PAGE_FAULT: &str = "page fault";

/// Whether the head of a path that came this way (the name of an entry) is an instruction to be executed, not one that
/// a call returns to.
pub fn is_interruption(entry: &str) -> bool {
    [WRITE_BUFFER, PAGE_FAULT].contains(&entry)
}

/// The name of an entry as captured: a system call number, or one of the negative entries.
pub fn entry_name(entry: i32) -> String {
    if entry.cast_unsigned() == Entry::ENTRY_URING.0 {
        return "io_uring worker".to_string();
    }
    if entry.cast_unsigned() == Entry::ENTRY_BUFFER.0 {
        return WRITE_BUFFER.to_string();
    }
    if entry < 0 {
        return PAGE_FAULT.to_string();
    }
    match NAMES.iter().find(|(number, _)| *number == entry) {
        Some((_, name)) => (*name).to_string(),
        None => format!("system call {entry}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names() {
        assert_eq!(entry_name(18), "pwrite64");
        assert_eq!(entry_name(-1), "page fault");
        assert_eq!(entry_name(-2), "io_uring worker");
        assert_eq!(entry_name(-3), "write buffer");
        assert_eq!(entry_name(9999), "system call 9999");
    }
}
