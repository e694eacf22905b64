//! Memory for the two big tables, and prefetching.
//!
//! The tables are read at random, one 4-byte entry per page moved, so what costs is cache and TLB
//! misses. Both helpers are hints: without them the results are the same, only slower.

/// A zeroed table. On Linux it asks for huge pages, which saves most TLB misses once a table exceeds
/// about 8 MiB. The memory comes from `calloc`, so that pages never touched cost nothing.
pub(crate) fn zeroed_table(entries: usize) -> Vec<u32> {
    let table = vec![0u32; entries];
    advise_huge_pages(&table);
    table
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(table: &[u32]) {
    use rustix::mm::{Advice, madvise};
    const OS_PAGE: usize = 4096;
    const HUGE_PAGE: usize = 2 << 20;
    let range = table.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(OS_PAGE);
    let end = range.end as usize / OS_PAGE * OS_PAGE;
    if end.saturating_sub(start) >= HUGE_PAGE {
        // SAFETY: the range lies inside `table`, and this advice changes neither contents nor validity.
        // A kernel that refuses (no huge pages, other page size) leaves things as they are.
        let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_table: &[u32]) {}

/// Asks for the cache line of `table[index]`; an index outside the table is ignored by the processor.
#[inline(always)]
pub fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes no architectural state, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(table.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
