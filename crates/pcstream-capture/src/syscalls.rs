//! Names of the entries into the kernel through which writes come (x86-64).

use crate::wire::Entry;
use syscalls::{x86, x86_64};

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
    let number = entry.cast_unsigned() & !Entry::ENTRY_32BIT.0;
    if number.cast_signed() == entry {
        x86_64::Sysno::new(number as usize)
            .map_or_else(|| format!("system call {number}"), |call| call.name().to_string())
    } else {
        let name = x86::Sysno::new(number as usize)
            .map_or_else(|| format!("system call {number}"), |call| call.name().to_string());
        format!("{name} (32-bit)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names() {
        assert_eq!(entry_name(18), "pwrite64");
        assert_eq!(entry_name(4), "stat");
        assert_eq!(entry_name(4 | Entry::ENTRY_32BIT.0.cast_signed()), "write (32-bit)");
        assert_eq!(entry_name(-1), "page fault");
        assert_eq!(entry_name(-2), "io_uring worker");
        assert_eq!(entry_name(-3), "write buffer");
        assert_eq!(entry_name(9999), "system call 9999");
    }
}
